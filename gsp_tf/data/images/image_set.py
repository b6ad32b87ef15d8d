"""Labelled sets of images, read one at a time, as arrays or inside a `tf.data` graph.

Pixels lie in [0, 255], whatever the images are made from.
"""

import abc
import functools
from collections.abc import Sequence
from typing import Literal

import numpy as np

from gsp_tf._arguments import check_sizes, integers
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import Tensor
from gsp_tf.data.images._jpeg import Window


class ImageSet(abc.ABC):
    """Images with integer labels, class names and groups (super-classes).

    A set of your own defines `subset`, and either `read` or, to read in a graph, `load`.

    Args:
        labels: The class of each image, `(N,)`, in `[0, len(class_names))`.
        class_names: The name of each class.
        groups: The super-class of each class; by default all are in one group `""`.
        channels: Channels of the images, at least 1, such as 1 for grey or 3 for RGB.
        dtype: Type of the pixels that `read` and `load` give, "uint8" or "float32".

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
        channels: int = 3,
        dtype: Literal["uint8", "float32"] = "uint8",
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
        check_sizes(channels=channels)
        self.labels = labels.astype(np.int64)
        self.class_names = tuple(class_names)
        self.groups = tuple(groups) if groups is not None else ("",) * len(class_names)
        self.channels, self.dtype = int(channels), dtype

    def __init_subclass__(cls, **kwargs):
        """Makes a class with its own `load`, but not `read`, read through TensorFlow."""
        super().__init_subclass__(**kwargs)
        if "load" in vars(cls) and "read" not in vars(cls):
            cls.read = _read_by_loading

    def __len__(self) -> int:
        return len(self.labels)

    @abc.abstractmethod
    def read(self, index: int, seed: Sequence[int]) -> np.ndarray:
        """Reads one image as an array.

        Args:
            index: The index of the image.
            seed: Two integers, for sets that draw their images (collages); others ignore them.

        Returns:
            `(H, W, channels)` of `dtype`, in [0, 255].
        """

    def load(self, index: Tensor, seed: Tensor) -> Tensor:
        """Like `read`, in a `tf.data` graph with int64 tensors; the default calls `read`."""
        image = tf.numpy_function(self.read, [index, seed], self.dtype, stateful=False)
        return tf.ensure_shape(image, (None, None, self.channels))

    def load_window(self, index: Tensor, seed: Tensor, choose: Window, min_side: int) -> Tensor:
        """Reads a part of one image inside a `tf.data` graph.

        Args:
            index, seed: As for `load`.
            choose: Maps the size of the image `(2,)`, height and width, to int32 `(4,)`: top,
                left, height and width of the part.
            min_side: Pixels that each side of the part must keep if the set reads a reduced copy
                of it to save time.

        Returns:
            As from `load`, `(height, width, channels)`, or a reduction of it.
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
        """

    def image(self, index: int) -> np.ndarray:
        """One image as evaluation sees it, with seed `(0, index)`: `(H, W, channels)`."""
        if not 0 <= index < len(self):
            raise IndexError(f"index must lie in [0, {len(self)}); received {index}.")
        return self.read(index, (0, index))

    def identity(self, index: int) -> bytes:
        """Bytes that change when the image that evaluation sees does; by default its pixels.

        Values that are computed once and kept, such as features, are found again by these bytes.
        """
        pixels = self.image(index)
        return f"{pixels.shape}".encode() + np.ascontiguousarray(pixels).tobytes()

    @functools.cached_property
    def _graph(self):
        return tf.function(self.load, autograph=not is_own(self))

    def __getstate__(self):  # a copy, also in another process, makes its own graph
        return {name: value for name, value in vars(self).items() if name != "_graph"}

    def _select(self, classes: Sequence[int]) -> tuple[np.ndarray, dict]:
        """The indices of the images of `classes`, and the arguments that describe them."""
        classes = integers(list(classes), "classes").tolist()
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


def _read_by_loading(images: ImageSet, index: int, seed: Sequence[int]) -> np.ndarray:
    """One image as its set's `load` gives it, as a graph: each is made of dozens of operations."""
    with tf.device("CPU"):
        return images._graph(tf.constant(index, tf.int64), tf.constant(seed, tf.int64)).numpy()


def is_own(images: ImageSet) -> bool:
    """Whether a set, and the one that it shows another way if there is one, are of this package.

    Graphs of others may need AutoGraph, which takes long.
    """
    shown = getattr(images, "images", None)
    is_ours = type(images).__module__.startswith("gsp_tf.")
    return is_ours and (not isinstance(shown, ImageSet) or is_own(shown))


def checked_indices(indices: Sequence[int] | None, count: int) -> np.ndarray:
    """Indices of `count` images, int64, all by default; refuses masks and those out of range."""
    indices = np.arange(count) if indices is None else integers(indices, "indices")
    unknown = indices[(indices < 0) | (indices >= count)]
    if len(unknown):
        raise IndexError(f"indices must lie in [0, {count}); received {unknown.tolist()}.")
    return indices


def check_count(name: str, count: int, labels: np.ndarray) -> None:
    """Requires one item per label."""
    if count != len(labels):
        raise ValueError(
            f"there must be as many {name} as labels; received {count} {name} and "
            f"{len(labels)} labels."
        )


def constant(values: np.ndarray | Sequence[bytes]) -> Tensor:
    """A tensor in the memory of the CPU, also while a graph is traced."""
    with tf.init_scope(), tf.device("CPU"):
        return tf.constant(values, None if len(values) else tf.string)


class ArrayImages(ImageSet):
    """Images of one size, held in memory, of any number of channels.

    A model sees `255 (v - low) / (high - low)` of a value v, where `low` and `high` are the range,
    as float32 and without rounding: v of uint8, v / 257 of uint16.

    Args:
        images: uint8, uint16 or float32 `(N, H, W, channels)`.
        labels, class_names, groups: As for `ImageSet`.
        value_range: `(low, high)`, the values that become 0 and 255; needed for float32, and by
            default all that uint8 or uint16 can hold. No value may be outside.

    Example:
        >>> pixels = np.full((2, 4, 4, 1), 7, "uint8")
        >>> images = ArrayImages(pixels, [0, 1], ["ant", "oak"], ["animal", "plant"])
        >>> images.image(1).shape, images.by_group().class_names
        ((4, 4, 1), ('animal', 'plant'))

        Five bands of a sensor of 12 bits:

        >>> bands = np.full((2, 4, 4, 5), 819, "uint16")
        >>> images = ArrayImages(bands, [0, 1], ["a", "b"], value_range=(0, 4095))
        >>> images.image(0)[0, 0]
        array([51., 51., 51., 51., 51.], dtype=float32)
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: Sequence[int] | np.ndarray,
        class_names: Sequence[str],
        groups: Sequence[str] | None = None,
        value_range: tuple[float, float] | None = None,
    ):
        images = np.asarray(images)
        if images.ndim != 4 or images.dtype not in (np.uint8, np.uint16, np.float32):
            raise ValueError(
                "images must be uint8, uint16 or float32 of shape (N, H, W, channels); received "
                f"{images.dtype} of shape {images.shape}."
            )
        self.value_range = _checked_range(images, value_range)
        is_as_shown = images.dtype == np.uint8 and self.value_range == (0, 255)
        dtype = "uint8" if is_as_shown else "float32"
        super().__init__(labels, class_names, groups, images.shape[-1], dtype)
        check_count("images", len(images), self.labels)
        self.images = images

    @functools.cached_property
    def tensor(self) -> Tensor:
        """The images as a tensor."""
        return constant(self.images)

    def read(self, index: int, seed: Sequence[int]) -> np.ndarray:
        return self._shown(self.images[index].copy(), np.asarray)

    def load(self, index: Tensor, seed: Tensor) -> Tensor:
        return self._shown(tf.gather(self.tensor, index), tf.cast)

    def _shown(self, values, cast):
        """Values as pixels in [0, 255]; `cast` gives them another type, by NumPy or TensorFlow."""
        if self.dtype == "uint8":
            return values
        low, high = self.value_range
        return 255.0 * (cast(values, "float32") - np.float32(low)) / np.float32(high - low)

    def subset(self, classes: Sequence[int]) -> "ArrayImages":
        kept, description = self._select(classes)
        return ArrayImages(self.images[kept], **description, value_range=self.value_range)

    def by_group(self) -> "ArrayImages":
        """Labels the images by their groups (super-classes).

        Returns:
            The same images; the groups, sorted by name, are both their classes and their groups.
            There must be two groups or more.
        """
        names, labels = np.unique(self.groups, return_inverse=True)
        if len(names) < 2:
            raise ValueError(
                f"labels by super-class need two super-classes or more; received {names.tolist()}."
            )
        names = names.tolist()
        return ArrayImages(self.images, labels[self.labels], names, names, self.value_range)


def _checked_range(images, value_range):
    """The range of values of an array, by default that of its type."""
    if value_range is None and images.dtype == np.float32:
        raise ValueError(
            "value_range must be given for float32 images: the values that become 0 and 255, such "
            "as (0, 1); received None."
        )
    value_range = (0, np.iinfo(images.dtype).max) if value_range is None else tuple(value_range)
    if len(value_range) != 2 or not -np.inf < value_range[0] < value_range[1] < np.inf:
        raise ValueError(
            "value_range must be two finite numbers, the lower one first; received "
            f"{value_range!r}."
        )
    low, high = value_range
    if images.size and not np.float32(low) <= images.min() <= images.max() <= np.float32(high):
        raise ValueError(
            f"images must have values from {low} to {high}, the value_range; received values from "
            f"{images.min()} to {images.max()}."
        )
    return low, high


class SelectedImages(ImageSet):
    """Some images of a set, with all of its classes.

    Args:
        images: The set.
        indices: Integers `(n,)`, the images to keep, in this order.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> images = ArrayImages(np.zeros((3, 8, 8, 1), "uint8"), [0, 1, 1], ["cat", "dog"])
        >>> SelectedImages(images, [2, 0]).labels.tolist()
        [1, 0]
    """

    def __init__(self, images: ImageSet, indices: Sequence[int] | np.ndarray):
        self.indices = checked_indices(indices, len(images))
        labels = images.labels[self.indices]
        super().__init__(labels, images.class_names, images.groups, images.channels, images.dtype)
        self.images = images
        if hasattr(images, "paths"):
            self.paths = tuple(images.paths[index] for index in self.indices)

    @functools.cached_property
    def _tensor(self):
        return constant(self.indices)

    def read(self, index: int, seed: Sequence[int]) -> np.ndarray:
        return self.images.read(self.indices[index], seed)

    def load(self, index: Tensor, seed: Tensor) -> Tensor:
        return self.images.load(tf.gather(self._tensor, index), seed)

    def load_window(self, index: Tensor, seed: Tensor, choose: Window, min_side: int) -> Tensor:
        return self.images.load_window(tf.gather(self._tensor, index), seed, choose, min_side)

    def identity(self, index: int) -> bytes:
        of_all = self.images
        while isinstance(of_all, SelectedImages):
            of_all = of_all.images
        if type(of_all).identity is ImageSet.identity:  # pixels, which may depend on the place
            return super().identity(index)
        return self.images.identity(self.indices[index])

    def subset(self, classes: Sequence[int]) -> "SelectedImages":
        kept, _ = self._select(classes)
        positions = np.cumsum(np.isin(self.images.labels, classes)) - 1
        return SelectedImages(self.images.subset(classes), positions[self.indices[kept]])
