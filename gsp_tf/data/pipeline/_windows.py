"""The part of an image that a model sees, and its size."""

import numbers

from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import Tensor

ASPECT_RATIOS = (3 / 4, 4 / 3)


def random_window(size: Tensor, min_area: float, draws: Tensor) -> Tensor:
    """A random part of an image; four draws from [0, 1) fix its area, aspect ratio and place."""
    size = tf.cast(size, tf.float32)
    area, aspect, place = tf.split(draws, (1, 1, 2))
    area = (min_area + (1 - min_area) * area) * tf.reduce_min(size) ** 2
    # A crop of this area fits the image only between these ratios of width to height.
    fits = area / size[0] ** 2, size[1] ** 2 / area
    narrowest, widest = (tf.clip_by_value([ratio], *fits) for ratio in ASPECT_RATIOS)
    aspect = narrowest * (widest / narrowest) ** aspect
    wanted = tf.sqrt(tf.concat([area / aspect, area * aspect], axis=0))
    crop = tf.clip_by_value(tf.round(wanted), 1, size)
    start = tf.floor(place * (size - crop + 1))
    return tf.cast(tf.concat([start, crop], axis=0), tf.int32)


def central_window(size: Tensor, image_size: int, resize: int | None) -> Tensor:
    """The central square that becomes S x S when the shorter side of the image is resized to R.

    The size is int32 `(2,)`, height and width; `None` for R is S, the whole central square. Returns
    top, left, height and width, int32 `(4,)`.
    """
    fraction = image_size / (resize or image_size)
    side = tf.cast(tf.round(fraction * tf.cast(tf.reduce_min(size), tf.float32)), tf.int32)
    side = tf.maximum(side, 1)
    return tf.concat([(size - side) // 2, [side, side]], axis=0)


def resize_window(image: Tensor, image_size: int, channels: int) -> Tensor:
    """Resizes a part of an image to float32 `(S, S, channels)` by bilinear interpolation.

    Antialiasing is on if more than two pixels become one; otherwise pixels would be skipped.
    """
    size = (image_size, image_size)
    resized = tf.cond(
        tf.reduce_max(tf.shape(image)[:2]) > 2 * image_size,
        lambda: tf.image.resize(image, size, antialias=True),
        lambda: tf.image.resize(image, size),
    )
    return tf.ensure_shape(resized, (*size, channels))


def check_sizes(image_size: int, resize: int | None) -> None:
    """Refuses sizes that no window has."""
    if not isinstance(image_size, numbers.Integral) or image_size < 1:
        raise ValueError(
            "image_size must be an integer of at least 1 pixel, the side of a square; received "
            f"{image_size!r}."
        )
    if resize is not None and resize < image_size:
        raise ValueError(
            f"resize must be None, or image_size ({image_size}) or more; received {resize}."
        )
