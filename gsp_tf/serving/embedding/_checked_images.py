"""A user's images, which may be unreadable."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import tensorflow as tf

from gsp_tf.data import (
    UnreadableImageError,
    check_image,
    decode_image,
    decode_jpeg_window,
    is_upright_jpeg,
    read_image,
)


class CheckedImages:
    """Image files or their contents, read once; unreadable ones are black, `problems` says why."""

    def __init__(self, images: Sequence[str | bytes | None], channels: Literal[1, 3]):
        self.images, self.channels = images, channels
        self.labels = np.zeros(len(images), int)
        self.problems = [""] * len(images)

    def __len__(self) -> int:
        return len(self.images)

    def load_window(
        self,
        index: tf.Tensor,
        seed: tf.Tensor,
        choose: Callable[[tf.Tensor], tf.Tensor],
        min_side: int,
    ) -> tf.Tensor:
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
        image, black = self.images[int(index)], np.zeros((1, 1, self.channels), np.uint8)
        if image is None:
            self.problems[index] = "it is missing"
            return b"", black
        try:
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
