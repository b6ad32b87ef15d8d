"""A user's images, which may be unreadable."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import Tensor
from gsp_tf.data import (
    UnreadableImageError,
    check_image,
    decode_image,
    decode_jpeg_window,
    is_upright_jpeg,
    read_image,
)

ImageSource: TypeAlias = str | bytes | np.ndarray | None
"""A file, its contents, its uint8 pixels `(H, W, channels)`, or a missing image."""


class CheckedImages:
    """Image files, their contents or pixels `(H, W, channels)`, read once.

    Unreadable ones are black; `problems` says why. A sequence may make its items on access.
    """

    def __init__(self, images: Sequence[ImageSource], channels: Literal[1, 3]):
        self.images, self.channels = images, channels
        self.labels = np.zeros(len(images), int)
        self.problems = [""] * len(images)

    def __len__(self) -> int:
        return len(self.images)

    def load_window(
        self,
        index: Tensor,
        seed: Tensor,
        choose: Callable[[Tensor], Tensor],
        min_side: int,
    ) -> Tensor:
        """The window of an image that `choose` selects by its size, in a `tf.data` graph."""
        contents, pixels = tf.numpy_function(self._read, [index], (tf.string, tf.uint8))
        contents, shape = tf.ensure_shape(contents, ()), (None, None, self.channels)
        pixels = tf.ensure_shape(pixels, shape)

        def window():
            top, left, height, width = tf.unstack(choose(tf.shape(pixels)[:2]))
            return pixels[top : top + height, left : left + width]

        return tf.cond(
            tf.strings.length(contents) > 0,
            lambda: decode_jpeg_window(contents, choose, min_side, self.channels),
            window,
        )

    def _read(self, index):
        """The contents of a JPEG for TensorFlow to decode, or the pixels of another image."""
        # The pixels equal those of FileImages. TensorFlow does not notice a truncated JPEG, so
        # Pillow checks the file first; for that it computes 1/64 of the pixels.
        black = np.zeros((1, 1, self.channels), np.uint8)
        try:
            image = self.images[int(index)]
            if image is None:
                raise UnreadableImageError("", "it is missing")
            if isinstance(image, np.ndarray):
                return b"", image
            if isinstance(image, str):
                if not os.path.isfile(image):
                    return b"", read_image(image, self.channels)  # raises the reason
                image = Path(image).read_bytes()
            if not _is_upright_jpeg(image):
                return b"", decode_image(image, self.channels)
            check_image(image)
            return image, black
        except UnreadableImageError as error:
            self.problems[index] = error.reason
        except OSError as error:
            self.problems[index] = error.strerror
        return b"", black


def _is_upright_jpeg(contents):
    try:
        with tf.device("CPU"):
            return bool(is_upright_jpeg(tf.constant(contents)))
    except tf.errors.InvalidArgumentError:
        return False
