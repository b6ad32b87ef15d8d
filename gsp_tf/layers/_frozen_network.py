"""A network inside a model that never trains."""

from typing import Any

import keras


class FrozenNetwork(keras.layers.Layer):
    """A network with one output as a layer, in inference mode even in training; it never trains."""

    # Keras' own `trainable = False` is lost when `trainable` is set on an enclosing model, which
    # loading the model does. This layer stays False, and its batch normalisation and dropout never
    # see `training=True`.

    def __init__(self, network: keras.Model, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        # Through an enclosing model, `trainable` reaches this layer's setter and no further.
        network.trainable = False

    @property
    def trainable(self):
        return False

    @trainable.setter
    def trainable(self, value):
        pass

    def build(self, input_shape):
        self.built = True

    def call(self, inputs):
        return self.network(inputs, training=False)

    def compute_output_shape(self, input_shape):
        return self.network.compute_output_shape(input_shape)

    def get_config(self):
        network = keras.saving.serialize_keras_object(self.network)
        return {**super().get_config(), "network": network}

    @classmethod
    def from_config(cls, config):
        network = keras.saving.deserialize_keras_object(config["network"])
        return cls(**{**config, "network": network})
