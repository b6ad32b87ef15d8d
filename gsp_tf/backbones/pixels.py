"""Images for networks that were trained on colour images."""

import keras


def rgb_input(input_shape, minimum):
    """Input of images with one or three channels, and the same images with three.

    A network with colour weights sees a grey image as a colour image of three equal channels.

    Args:
        input_shape: `(H, W, channels)`; H and W may be `None`.
        minimum: smallest H and W that the network accepts.

    Returns:
        Keras tensors `(B, H, W, channels)` and `(B, H, W, 3)`.

    Raises:
        ValueError: if there are neither one nor three channels, or H or W is too small.

    Example:
        >>> images, colour = rgb_input((32, 32, 1), minimum=8)
        >>> images.shape, colour.shape
        ((None, 32, 32, 1), (None, 32, 32, 3))
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
