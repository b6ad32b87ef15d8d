"""Several fixed views of each image, as training would draw them."""

from collections.abc import Sequence

import numpy as np

from gsp_tf._integers import checked_seed
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import Tensor
from gsp_tf.data.images.image_set import ImageSet
from gsp_tf.data.pipeline.view import TrainingView


class ViewedImages(ImageSet):
    """Several views of each image of a set, drawn once; views of an image are neighbours.

    With each image as a class of its own, as `load_unlabelled` gives them, retrieval among the
    views asks whether a model finds another view of the same image. It needs no class.

    Args:
        images: The images.
        view: The view that is drawn of each.
        count: Views of an image.
        seed: Seed of the views.

    Attributes:
        paths: The file of each view, if the images have files.

    Raises:
        ValueError: If `count` is below 1.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> pixels = np.random.default_rng(0).integers(0, 256, (3, 9, 9, 1), "uint8")
        >>> images = ArrayImages(pixels, [0, 1, 2], ["a", "b", "c"])
        >>> views = ViewedImages(images, TrainingView(8, min_crop_area=0.3), count=2)
        >>> views.labels.tolist(), views.image(1).shape
        ([0, 0, 1, 1, 2, 2], (8, 8, 1))
    """

    def __init__(self, images: ImageSet, view: TrainingView, count: int, seed: int = 0):
        if count < 1:
            raise ValueError(f"count must be at least 1; received {count}.")
        labels = np.repeat(images.labels, count)
        super().__init__(labels, images.class_names, images.groups, images.channels, images.dtype)
        self.images, self.view, self.count, self.seed = images, view, count, checked_seed(seed)
        self._numbers = np.arange(len(labels))  # of the views before any subset
        if hasattr(images, "paths"):
            self.paths = tuple(path for path in images.paths for _ in range(count))

    def load(self, index: Tensor, seed: Tensor) -> Tensor:
        number = tf.gather(tf.constant(self._numbers, tf.int64), index)
        seed = tf.stack([tf.constant(self.seed, tf.int64), number])
        view = self.view(self.images, index // self.count, seed)
        if self.dtype == "float32":
            return view
        return tf.cast(tf.clip_by_value(tf.round(view), 0.0, 255.0), tf.uint8)

    def subset(self, classes: Sequence[int]) -> "ViewedImages":
        kept, _ = self._select(classes)
        part = ViewedImages(self.images.subset(classes), self.view, self.count, self.seed)
        part._numbers = self._numbers[kept]
        return part
