"""Sets of image files, which are decoded one at a time, and of them only the needed part."""

import abc
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Self

import numpy as np

from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import PathLike, Tensor
from gsp_tf.data.images._jpeg import Window, decode_jpeg_window, is_upright_jpeg
from gsp_tf.data.images.decode import (
    UnreadableImageError,
    check_channels,
    decode_image,
    read_image,
)
from gsp_tf.data.images.image_set import ImageSet, check_count, constant


class _CompressedImages(ImageSet):
    """Encoded images; only the needed part of a JPEG is decoded."""

    def __init__(self, what, items, labels, class_names, groups, channels):
        check_channels(channels)
        super().__init__(labels, class_names, groups, channels)
        self._items = tuple(items)
        check_count(what, len(self._items), self.labels)

    @functools.cached_property
    def _tensor(self):
        return constant([os.fsencode(item) for item in self._items])

    def subset(self, classes: Sequence[int]) -> Self:
        kept, description = self._select(classes)
        return type(self)([self._items[i] for i in kept], **description, channels=self.channels)

    @abc.abstractmethod
    def _contents(self, index: Tensor) -> Tensor:
        """The bytes of a file, in a `tf.data` graph."""

    def load_window(self, index: Tensor, seed: Tensor, choose: Window, min_side: int) -> Tensor:
        contents = self._contents(index)
        load_window = super().load_window
        return tf.cond(
            is_upright_jpeg(contents),
            lambda: decode_jpeg_window(contents, choose, min_side, self.channels),
            lambda: load_window(index, seed, choose, min_side),
        )


class FileImages(_CompressedImages):
    """Images in files, decoded when needed, of a JPEG only the needed part; sizes may differ.

    Args:
        paths: `N` file names.
        labels, class_names, groups: As for `ImageSet`.
        channels: Channels to convert to: 1 for grey or 3 for RGB.

    Example:
        >>> images = FileImages(["a.png", "b.png"], [0, 1], ["cat", "dog"])
        >>> images.subset([1]).paths
        ('b.png',)
    """

    def __init__(
        self,
        paths: Sequence[PathLike],
        labels: Sequence[int] | np.ndarray,
        class_names: Sequence[str],
        groups: Sequence[str] | None = None,
        channels: Literal[1, 3] = 3,
    ):
        super().__init__("paths", map(os.fspath, paths), labels, class_names, groups, channels)
        self.paths = self._items

    def read(self, index: int, seed: Sequence[int]) -> np.ndarray:
        return read_image(self.paths[index], self.channels)

    def identity(self, index: int) -> bytes:
        """The path, size and modification time of an image file."""
        path = self.paths[index]
        try:
            state = os.stat(path)
        except OSError as error:
            raise UnreadableImageError(path, error.strerror) from error
        return os.fsencode(f"{os.path.abspath(path)}\n{state.st_size} {state.st_mtime_ns}\n")

    def _contents(self, index):
        return tf.io.read_file(tf.gather(self._tensor, index))


def labelled_files(
    listed: Iterable[tuple[str, object]],
    classes: Mapping[object, tuple[str, str]],
    channels: int,
) -> FileImages:
    """The listed images of `classes`, which maps each class to its name and group."""
    label_of = {key: label for label, key in enumerate(classes)}
    kept = [(path, label_of[key]) for path, key in listed if key in label_of]
    return FileImages(
        [path for path, _ in kept],
        [label for _, label in kept],
        [name for name, _ in classes.values()],
        [group for _, group in classes.values()],
        channels,
    )


class EncodedImages(_CompressedImages):
    """Image files held in memory as bytes, decoded when needed.

    Args:
        contents: Bytes of `N` files, as `read_image` reads them.
        labels, class_names, groups, channels: As for `FileImages`.

    Example:
        >>> red = tf.io.encode_png(np.full((4, 6, 3), [255, 0, 0], "uint8")).numpy()
        >>> EncodedImages([red], [0], ["red"]).image(0).shape
        (4, 6, 3)
    """

    def __init__(
        self,
        contents: Sequence[bytes],
        labels: Sequence[int] | np.ndarray,
        class_names: Sequence[str],
        groups: Sequence[str] | None = None,
        channels: Literal[1, 3] = 3,
    ):
        super().__init__("contents", contents, labels, class_names, groups, channels)
        self.contents = self._items

    def read(self, index: int, seed: Sequence[int]) -> np.ndarray:
        return decode_image(self.contents[index], self.channels, f"image {index}")

    def _contents(self, index):
        return tf.gather(self._tensor, index)
