"""What layers on local features share."""

from typing import Any, Literal, TypeAlias

import keras
from keras import ops

from gsp_tf._arguments import check_choice
from gsp_tf._config import constructor_config
from gsp_tf._numerics import at_least_float32
from gsp_tf._typing import Tensor

DataFormat: TypeAlias = Literal["channels_last", "channels_first"]
InitializerLike: TypeAlias = str | keras.initializers.Initializer


class LocalFeatureLayer(keras.layers.Layer):
    """Base of the layers that take a map or a set of local features."""

    # A map is (B, H, W, C), or (B, C, H, W) with data_format="channels_first". A set is always
    # (B, n, C), and its Keras mask (B, n) leaves features out.

    def __init__(self, data_format: DataFormat | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        data_format = data_format or keras.config.image_data_format()
        check_choice("data_format", data_format, DataFormat)
        self.data_format = data_format

    def num_channels(self, input_shape: tuple[int | None, ...]) -> int:
        """Channels C of an input shape; refuses a shape that is neither a map nor a set."""
        if len(input_shape) not in (3, 4):
            raise ValueError(
                f"{type(self).__name__} takes maps (B, H, W, C) or sets (B, n, C), "
                f"received shape {tuple(input_shape)}."
            )
        channels = input_shape[1 if self._is_channels_first(input_shape) else -1]
        if channels is None:
            raise ValueError(
                f"{type(self).__name__} needs a known number of channels, "
                f"received shape {tuple(input_shape)} with data_format={self.data_format!r}."
            )
        return channels

    def add_kernel(
        self, name: str, shape: tuple[int, ...], initializer: Any = "glorot_uniform"
    ) -> keras.Variable:
        """Add a weight that keeps its type under mixed precision."""
        return self.add_weight(name=name, shape=shape, initializer=initializer, autocast=False)

    def add_dense(
        self, name: str, inputs: int, outputs: int, **arguments: Any
    ) -> keras.layers.Dense:
        """A dense layer that is built, in the types of this layer unless told otherwise."""
        arguments = {"dtype": self.dtype_policy, **arguments}
        layer = keras.layers.Dense(outputs, name=name, **arguments)
        layer.build((None, inputs))
        return layer

    def add_normalization(
        self, name: str, shape: tuple[int | None, ...], **arguments: Any
    ) -> keras.layers.BatchNormalization:
        """A batch normalisation that is built, in the types of this layer unless told otherwise."""
        arguments = {"dtype": self.dtype_policy, "momentum": 0.9, "epsilon": 1e-5, **arguments}
        layer = keras.layers.BatchNormalization(name=name, **arguments)
        layer.build(shape)
        return layer

    def as_set(self, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Any, tuple]:
        """Features as a set `(B, n, C)`, their mask `(B, n)`, and the shape of their positions.

        The shape of the positions is `(H, W)` for a map and `(n,)` for a set. Features that the
        mask leaves out are set to 0, whatever their values.
        """
        features = ops.convert_to_tensor(features)
        self.num_channels(features.shape)
        if self._is_channels_first(features.shape):
            features = ops.transpose(features, (0, 2, 3, 1))
        shape = ops.shape(features)
        features = ops.reshape(features, (shape[0], -1, shape[-1]))
        if mask is not None:
            mask = ops.reshape(mask, ops.shape(features)[:2])
            features = ops.where(ops.expand_dims(ops.cast(mask, "bool"), -1), features, 0)
        return features, mask, shape[1:-1]

    def _prepare(self, features):
        """Features as a tensor; builds the layer if it was not called before."""
        features = ops.convert_to_tensor(features)
        if not self.built:
            self.build(tuple(features.shape))
        return features

    def _is_channels_first(self, shape):
        return len(shape) == 4 and self.data_format == "channels_first"

    def get_config(self):
        return {**super().get_config(), **constructor_config(self)}


def with_finite_variance(x: Tensor, training: bool | None) -> Tensor:
    """Inputs of a batch normalisation: in training, values beyond 1e15 count as 1e15."""
    # The statistics of larger ones would be infinite, and stay so.
    return ops.clip(at_least_float32(x), -1e15, 1e15) if training else x


def at_positions(values, positions):
    """Values `(B, n, ...)` of the features of a set, at the positions of its map or set."""
    return ops.reshape(values, (ops.shape(values)[0], *positions, *values.shape[2:]))
