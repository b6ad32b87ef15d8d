"""Variables that keep out of weight decay, also in a saved model."""

from gsp_tf.training.path_rules import with_path_rules


def with_weight_decay_exclusions(optimizer, patterns):
    """Keep an optimizer's weight decay from variables of certain paths.

    As `exclude_from_weight_decay` of Keras' optimizers, whose exclusions are lost when a model is
    saved. These are saved with it, and a loaded model trains on with them.

    Args:
        optimizer: Keras optimizer that has not been built, or its name. It is changed in place: it
            becomes an instance of a subclass of its class. A `LossScaleOptimizer` passes the
            exclusions on to the optimizer within.
        patterns: regular expressions, searched for (`re.search`) in the paths of the trainable
            variables. They replace the exclusions the optimizer may have.

    Returns:
        the optimizer.

    Raises:
        ValueError: if a pattern is no regular expression, or the optimizer has been built or leaves
            its steps to others (`MultiOptimizer`); when it is built, if a pattern matches no
            trainable variable.

    Example:
        >>> import keras, numpy as np
        >>> dense = keras.layers.Dense(2, bias_initializer="ones")
        >>> model = keras.Sequential([keras.Input((4,)), dense])
        >>> optimizer = keras.optimizers.SGD(0.1, weight_decay=0.5)
        >>> model.compile(with_weight_decay_exclusions(optimizer, ["bias$"]), loss="mse")
        >>> history = model.fit(np.zeros((2, 4)), np.ones((2, 2)), verbose=0)
        >>> dense.bias.numpy().tolist()
        [1.0, 1.0]
    """
    return with_path_rules(optimizer, weight_decay_exclusions=list(patterns))
