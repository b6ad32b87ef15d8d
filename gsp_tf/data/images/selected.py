"""Some images of a set."""

import functools
from collections.abc import Sequence

import numpy as np

from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import Tensor
from gsp_tf.data.images.image_set import ImageSet, constant
from gsp_tf.data.images.jpeg import Window


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
        self.indices = np.asarray(indices, np.int64)
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
        return self.images.identity(self.indices[index])

    def subset(self, classes: Sequence[int]) -> "SelectedImages":
        kept, _ = self._select(classes)
        positions = np.cumsum(np.isin(self.images.labels, classes)) - 1
        return SelectedImages(self.images.subset(classes), positions[self.indices[kept]])
