"""First layers that several backbones share."""

import keras
from keras import layers

from gsp_tf.backbones.registry import InputShape

IMAGENET = {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)}
MINUS_ONE_TO_ONE = {"mean": 127.5, "std": 127.5}
"""Arguments of `PixelNormalization`."""


def rgb_input(input_shape: InputShape, minimum: int) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Input for grey or colour images, and these images as RGB; grey ones repeat their channel."""
    *size, channels = input_shape
    if channels not in (1, 3):
        raise ValueError(
            "Images must have 1 or 3 channels for a network that is made for RGB; conv4, "
            f"resnet20 and resnetv2_20 take any number. Received input_shape={input_shape}."
        )
    if any(extent is not None and extent < minimum for extent in size):
        raise ValueError(
            f"Images must be {minimum} x {minimum} pixels or larger, "
            f"received input_shape={input_shape}."
        )
    images = keras.Input(input_shape)
    if channels == 3:
        return images, images
    return images, layers.Concatenate(name="grey_to_rgb")([images] * 3)


def ceil_max_pooling(x, name, padding=1):
    """3x3 max pooling by 2 of a non-negative `(B, H, W, C)` map that rounds the sides up."""
    # Windows may reach `padding` places beyond the map, below and to the right: 1 rounds up, 2 adds
    # one more place for an odd side. The zeros there change no maximum.
    x = layers.ZeroPadding2D(((0, padding), (0, padding)), name=f"{name}_padding")(x)
    return layers.MaxPooling2D(3, 2, name=name)(x)
