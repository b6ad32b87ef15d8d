"""What every layer on local features shares: the shapes of its input."""

from typing import Any, Literal, TypeAlias

import keras
from keras import ops

DataFormat: TypeAlias = Literal["channels_last", "channels_first"]
InitializerLike: TypeAlias = str | keras.initializers.Initializer


class LocalFeatureLayer(keras.layers.Layer):
    """Base of the layers that take local features, `(B, H, W, C)` or a set `(B, n, C)`.

    Args:
        data_format: "channels_last" for maps `(B, H, W, C)` or "channels_first" for maps
            `(B, C, H, W)`; `None` is `keras.config.image_data_format()`. A set is always
            `(B, n, C)`.
    """

    def __init__(self, data_format: DataFormat | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        data_format = data_format or keras.config.image_data_format()
        if data_format not in ("channels_last", "channels_first"):
            raise ValueError(
                'data_format must be "channels_last" or "channels_first", '
                f"received {data_format!r}."
            )
        self.data_format = data_format

    def num_channels(self, input_shape):
        """Channels C of an input shape; refuses shapes that are neither a map nor a set."""
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

    def as_set(self, features, mask=None):
        """The features as a set `(B, n, C)`, their mask `(B, n)`, and the shape of their places.

        The places are `(H, W)` of a map or `(n,)` of a set. Features that the mask leaves out are
        set to 0, whatever they were.
        """
        features = ops.convert_to_tensor(features)
        self.num_channels(features.shape)
        if self._is_channels_first(features.shape):
            features = ops.transpose(features, (0, 2, 3, 1))
        shape = ops.shape(features)
        features = ops.reshape(features, (shape[0], -1, shape[-1]))
        if mask is not None:
            mask = ops.reshape(mask, ops.shape(features)[:2])
            features = ops.where(ops.cast(mask, "bool")[..., None], features, 0)
        return features, mask, shape[1:-1]

    def _prepare(self, features, mask=None):
        """`as_set` for methods that are called before the layer may have been."""
        features = ops.convert_to_tensor(features)
        if not self.built:
            self.build(tuple(features.shape))
        return self.as_set(features, mask)

    def _is_channels_first(self, shape):
        return len(shape) == 4 and self.data_format == "channels_first"

    def get_config(self):
        return {**super().get_config(), "data_format": self.data_format}
