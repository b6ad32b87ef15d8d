"""A learning rate of its own for some of the variables."""

import math
from numbers import Real

from gsp_tf.training.path_rules import with_path_rules


def with_learning_rate_multipliers(optimizer, multipliers):
    """Multiply the learning rate of an optimizer for variables of certain paths.

    A variable takes the factor of the first pattern that `re.search` finds in its path, 1 if there
    is none: its step is the optimizer's own at that multiple of the rate, schedules and callbacks
    included, and so is its decoupled weight decay. With 0 a variable and its state in the
    optimizer stay as they are. Gradients are clipped before.

    The factors are saved with the model, and a loaded one trains on with them. A model that is
    loaded may give shorter paths than before (`proxy_nca_loss/proxies` in place of
    `metric_learner/proxy_nca_loss/proxies`) and Keras numbers layers as they are made, so patterns
    had better not start with `^` or name a number. An optimizer of your own needs
    `keras.saving.register_keras_serializable`, as without multipliers.

    Args:
        optimizer: Keras optimizer that has not been built, or its name. It is changed in place: it
            becomes an instance of a subclass of its class. A `LossScaleOptimizer` passes the
            multipliers on to the optimizer within.
        multipliers: dict from regular expression to factor, a finite number of 0 or more. It
            replaces the multipliers the optimizer may have.

    Returns:
        the optimizer.

    Raises:
        ValueError: if a factor or a pattern is not accepted, or the optimizer has been built or
            leaves its steps to others (`MultiOptimizer`); when it is built, if a pattern matches no
            trainable variable.

    Example:
        >>> import keras, numpy as np
        >>> from gsp_tf.losses import ProxyNCALoss
        >>> from gsp_tf.training import MetricLearner
        >>> embedder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> learner = MetricLearner(embedder, ProxyNCALoss(num_classes=2))
        >>> optimizer = keras.optimizers.Adam(1e-5)
        >>> learner.compile(with_learning_rate_multipliers(optimizer, {"proxies": 100, "bias": 0}))
        >>> history = learner.fit(np.eye(4), np.arange(4) % 2, verbose=0)
        >>> embedder.layers[-1].bias.numpy().tolist()
        [0.0, 0.0]
    """
    for pattern, factor in multipliers.items():
        if not isinstance(factor, Real) or not 0 <= factor < math.inf:
            raise ValueError(
                "A learning-rate multiplier must be a finite number of 0 or more, received "
                f"{factor!r} for {pattern!r}."
            )
    factors = {pattern: float(factor) for pattern, factor in multipliers.items()}
    return with_path_rules(optimizer, learning_rate_multipliers=factors)
