"""Batch normalisation that stays as pretraining left it."""

import keras


@keras.saving.register_keras_serializable("gsp_tf")
class FrozenBatchNormalization(keras.layers.BatchNormalization):
    """Batch normalisation by its moving statistics, in training too, with nothing to train.

    `layer.trainable = False` does the same to Keras' own, until the `trainable` of a model around
    it is set, which loading the model does; here it stays `False`.

    Args: those of `keras.layers.BatchNormalization`.

    Example:
        >>> import numpy as np
        >>> layer = FrozenBatchNormalization(epsilon=0.0)
        >>> layer(np.array([[1.0], [3.0]]), training=True).numpy().ravel().tolist()
        [1.0, 3.0]
        >>> layer.trainable = True
        >>> layer.trainable, len(layer.trainable_weights)
        (False, 0)
    """

    @property
    def trainable(self):
        return False

    @trainable.setter
    def trainable(self, value):
        self._trainable = False

    def build(self, input_shape):
        super().build(input_shape)
        for variable in self.variables:
            variable.trainable = False


def freeze_batch_normalization(model):
    """A copy of a model whose batch normalisation layers are frozen.

    Their moving statistics, scales and offsets stay as they are, whether or not the copy is called
    with `training=True`, and after saving and loading it, for which Keras needs to have seen
    `import gsp_tf.backbones`. With pretrained weights and batches of few classes this is common.

    Args:
        model: functional Keras model; it keeps its own layers and weights.

    Returns:
        Keras model of the same layers, names and weights.

    Raises:
        ValueError: if the model has no batch normalisation.

    Example:
        >>> from gsp_tf.backbones import create
        >>> model = create("resnet20", (32, 32, 3))
        >>> frozen = freeze_batch_normalization(model)
        >>> len(model.trainable_weights), len(frozen.trainable_weights)
        (63, 21)
    """
    count = 0

    def frozen_copy(layer):
        nonlocal count
        kind = type(layer)
        if isinstance(layer, keras.layers.BatchNormalization):
            kind = FrozenBatchNormalization
            count += 1
        return kind.from_config(layer.get_config())

    copy = keras.models.clone_model(model, clone_function=frozen_copy, recursive=True)
    if count == 0:
        raise ValueError(f"Model {model.name!r} has no batch normalisation to freeze.")
    copy.set_weights(model.get_weights())
    return copy
