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
