"""Images for networks that were trained on colour images."""

import keras

from gsp_tf.backbones.registry import InputShape


def rgb_input(input_shape: InputShape, minimum: int) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Input for images with one or three channels, and the same images with three.

    A network with colour weights sees a grey image as a colour image of three equal channels.
    """
    *size, channels = input_shape
    if channels not in (1, 3):
        raise ValueError(f"Images must have 1 or 3 channels, received input_shape={input_shape}.")
    if any(extent is not None and extent < minimum for extent in size):
        raise ValueError(
            f"Images must be {minimum} x {minimum} pixels or larger, "
            f"received input_shape={input_shape}."
        )
    images = keras.Input(input_shape)
    if channels == 3:
        return images, images
    return images, keras.layers.Concatenate(name="grey_to_rgb")([images] * 3)
