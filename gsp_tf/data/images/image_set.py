"""Labelled sets of images, read one at a time inside a `tf.data` graph."""

import abc
import os
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import tensorflow as tf

from gsp_tf._typing import PathLike
from gsp_tf.data.images.decode import decode_image, read_image
from gsp_tf.data.images.jpeg import Window, decode_jpeg_window, is_upright_jpeg


class ImageSet(abc.ABC):
    """Images with integer labels, class names and groups (super-classes).

    Args:
        labels: The class of each image, `(N,)`, in `[0, len(class_names))`.
        class_names: The name of each class.
        groups: The super-class of each class; by default all are in one group `""`.
        channels: 1 for grey or 3 for RGB.

    Raises:
        ValueError: If labels, names, groups or channels do not fit together.

    Example:
        >>> images = ArrayImages(np.zeros((4, 8, 8, 1), "uint8"), [0, 0, 1, 1], ["cat", "dog"])
        >>> len(images), images.class_names, images.channels
        (4, ('cat', 'dog'), 1)
        >>> images.subset([1]).class_names
        ('dog',)
    """

    def __init__(
        self,
        labels: Sequence[int] | np.ndarray,
        class_names: Sequence[str],
        groups: Sequence[str] | None = None,
        channels: Literal[1, 3] = 3,
    ):
        labels = np.asarray(labels)
        if labels.ndim != 1 or (labels.size and not np.issubdtype(labels.dtype, np.integer)):
            raise ValueError(
                "labels must be a vector of integers; received "
                f"shape {labels.shape}, dtype {labels.dtype}."
            )
        if labels.size and not 0 <= labels.min() <= labels.max() < len(class_names):
            raise ValueError(
                f"labels must lie in [0, {len(class_names)}), the number of class names; received "
                f"labels from {labels.min()} to {labels.max()}."
            )
        if groups is not None and len(groups) != len(class_names):
            raise ValueError(
                f"groups must name one group for each of the {len(class_names)} classes; "
                f"received {len(groups)}."
            )
        if channels not in (1, 3):
            raise ValueError(f"channels must be 1 or 3; received {channels!r}.")
        self.labels = labels.astype(np.int64)
        self.class_names = tuple(class_names)
        self.groups = tuple(groups) if groups is not None else ("",) * len(class_names)
        self.channels = channels

    def __len__(self) -> int:
        return len(self.labels)

    @abc.abstractmethod
    def load(self, index: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Reads one image inside a `tf.data` graph.

        Args:
            index: Scalar int64, the index of the image.
            seed: Integers `(2,)`, for sets that draw their images (collages); others ignore it.

        Returns:
            uint8 `(H, W, channels)`.
        """

    def load_window(
        self, index: tf.Tensor, seed: tf.Tensor, choose: Window, min_side: int
    ) -> tf.Tensor:
        """Reads a part of one image inside a `tf.data` graph.

        Args:
            index: As for `load`.
            seed: As for `load`.
            choose: Maps the size of the image `(2,)`, height and width, to int32 `(4,)`: top,
                left, height and width of the part.
            min_side: Pixels that each side of the part must keep if the set reads a reduced copy
                of it to save time.

        Returns:
            uint8 `(height, width, channels)`, or a reduction of it.
        """
        image = self.load(index, seed)
        top, left, height, width = tf.unstack(choose(tf.shape(image)[:2]))
        return image[top : top + height, left : left + width]

    @abc.abstractmethod
    def subset(self, classes: Sequence[int]) -> "ImageSet":
        """Keeps only some classes, renumbered from 0 in the given order.

        Args:
            classes: Class ids, each at most once.

        Returns:
            A set of the same kind, with its images in their original order.

        Raises:
            ValueError: If `classes` is empty, repeats an id or holds an unknown one.
        """

    def image(self, index: int) -> np.ndarray:
        """One image as evaluation sees it, with seed `(0, index)`: uint8 `(H, W, channels)`."""
        if not 0 <= index < len(self):
            raise IndexError(f"index must lie in [0, {len(self)}); received {index}.")
        with tf.device("CPU"):
            seed = tf.constant([0, index], tf.int64)
            return self.load(seed[1], seed).numpy()

    def _select(self, classes: Sequence[int]) -> tuple[np.ndarray, dict]:
        """The indices of the images of `classes`, and the arguments that describe them."""
        classes = [int(c) for c in classes]
        unknown = sorted({c for c in classes if not 0 <= c < len(self.class_names)})
        if not classes or unknown or len(set(classes)) != len(classes):
            raise ValueError(
                "classes must be distinct class ids, at least one, in "
                f"[0, {len(self.class_names)}); received {classes}."
            )
        renumbered = np.full(len(self.class_names), -1)
        renumbered[classes] = np.arange(len(classes))
        labels = renumbered[self.labels]
        kept = np.flatnonzero(labels >= 0)
        return kept, {
            "labels": labels[kept],
            "class_names": [self.class_names[c] for c in classes],
            "groups": [self.groups[c] for c in classes],
        }


def _check_count(name: str, count: int, labels: np.ndarray) -> None:
    if count != len(labels):
        raise ValueError(
            f"there must be as many {name} as labels; received {count} {name} and "
            f"{len(labels)} labels."
        )


def _strings(name: str, values: Iterable[bytes], labels: np.ndarray) -> tf.Tensor:
    """Paths or contents of files as a tensor, one per label."""
    values = tuple(values)
    _check_count(name, len(values), labels)
    with tf.device("CPU"):
        return tf.constant(values, tf.string, (len(values),))


class ArrayImages(ImageSet):
    """Images of one size, held in memory.

    Args:
        images: uint8 `(N, H, W, channels)`, channels 1 or 3.
        labels, class_names, groups: As for `ImageSet`.

    Raises:
        ValueError: If `images` is not such an array or does not match `labels`.

    Example:
        >>> pixels = np.full((2, 4, 4, 1), 7, "uint8")
        >>> ArrayImages(pixels, [0, 1], ["a", "b"]).image(1).shape
        (4, 4, 1)
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: Sequence[int] | np.ndarray,
        class_names: Sequence[str],
        groups: Sequence[str] | None = None,
    ):
        images = np.asarray(images)
        if images.ndim != 4 or images.dtype != np.uint8:
            raise ValueError(
                "images must be uint8 of shape (N, H, W, channels); received "
                f"{images.dtype} of shape {images.shape}."
            )
        super().__init__(labels, class_names, groups, channels=images.shape[-1])
        _check_count("images", len(images), self.labels)
        self.images = images
        with tf.device("CPU"):
            self.tensor = tf.constant(images)

    def load(self, index: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.tensor, index)

    def subset(self, classes: Sequence[int]) -> "ArrayImages":
        kept, description = self._select(classes)
        return ArrayImages(self.images[kept], **description)

    def by_group(self) -> "ArrayImages":
        """Labels the images by their groups (super-classes).

        Returns:
            The same images; the groups, sorted by name, are both their classes and their groups.

        Raises:
            ValueError: If all classes are in one group.

        Example:
            >>> pixels = np.zeros((3, 4, 4, 1), "uint8")
            >>> images = ArrayImages(pixels, [2, 1, 0], ["ant", "oak", "bee"], ["x", "y", "x"])
            >>> images.by_group().class_names, images.by_group().labels.tolist()
            (('x', 'y'), [0, 1, 0])
        """
        names, labels = np.unique(self.groups, return_inverse=True)
        if len(names) < 2:
            raise ValueError(
                f"labels by super-class need two super-classes or more; received {names.tolist()}."
            )
        return ArrayImages(self.images, labels[self.labels], names.tolist(), names.tolist())


class _CompressedImages(ImageSet):
    """Encoded images; only the needed part of a JPEG is decoded."""

    @abc.abstractmethod
    def _contents(self, index: tf.Tensor) -> tf.Tensor:
        """The bytes of a file, in a `tf.data` graph."""

    @abc.abstractmethod
    def _read(self, index: np.ndarray) -> np.ndarray:
        """All pixels of an image."""

    def load(self, index: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        image = tf.numpy_function(self._read, [index], tf.uint8, stateful=False)
        return tf.ensure_shape(image, (None, None, self.channels))

    def load_window(
        self, index: tf.Tensor, seed: tf.Tensor, choose: Window, min_side: int
    ) -> tf.Tensor:
        contents = self._contents(index)
        load_window = super().load_window
        return tf.cond(
            is_upright_jpeg(contents),
            lambda: decode_jpeg_window(contents, choose, min_side, self.channels),
            lambda: load_window(index, seed, choose, min_side),
        )


class FileImages(_CompressedImages):
    """Images in files, decoded when needed; their sizes may differ.

    Only the needed part of a JPEG is decoded.

    Args:
        paths: `N` file names.
        labels, class_names, groups: As for `ImageSet`.
        channels: Channels to convert to: 1 for grey or 3 for RGB.

    Raises:
        ValueError: If the arguments do not fit together.

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
        super().__init__(labels, class_names, groups, channels)
        self.paths = tuple(os.fspath(path) for path in paths)
        self._strings = _strings("paths", map(os.fsencode, self.paths), self.labels)

    def subset(self, classes: Sequence[int]) -> "FileImages":
        kept, description = self._select(classes)
        return type(self)([self.paths[i] for i in kept], **description, channels=self.channels)

    def _contents(self, index):
        return tf.io.read_file(tf.gather(self._strings, index))

    def _read(self, index):
        return read_image(self.paths[int(index)], self.channels)


class EncodedImages(_CompressedImages):
    """Image files held in memory as bytes, decoded when needed.

    Args:
        contents: Bytes of `N` files, as for `decode_image`.
        labels, class_names, groups: As for `ImageSet`.
        channels: Channels to convert to: 1 for grey or 3 for RGB.

    Raises:
        ValueError: If the arguments do not fit together.

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
        super().__init__(labels, class_names, groups, channels)
        self.contents = tuple(contents)
        self._strings = _strings("contents", self.contents, self.labels)

    def subset(self, classes: Sequence[int]) -> "EncodedImages":
        kept, description = self._select(classes)
        contents = [self.contents[i] for i in kept]
        return EncodedImages(contents, **description, channels=self.channels)

    def _contents(self, index):
        return tf.gather(self._strings, index)

    def _read(self, index):
        return decode_image(self.contents[int(index)], self.channels, f"image {index}")
