"""Pipelines from image sets to batches, by `tf.data`, which `fit` takes on every backend."""

import os
from collections.abc import Sequence

import keras
import numpy as np

from gsp_tf._arguments import check_sizes, checked_seed
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import Tensor
from gsp_tf.data.images._jpeg import Window
from gsp_tf.data.images.image_set import ArrayImages, ImageSet, checked_indices, is_own
from gsp_tf.data.pipeline.samplers import ClassBalancedSampler, Sampler, ShuffledSampler
from gsp_tf.data.pipeline.view import TrainingView, central_window, check_view, resize_window

AT_ONCE = os.cpu_count()
"""Images that a pipeline prepares at the same time; `AUTOTUNE` without its thread ends at 16."""


class BatchPlan:
    """The images of each batch: those of a sampler, then those drawn whatever their class is."""

    # The second kind comes from the unlabelled images, whose indices follow those of the labelled
    # ones, or from all images without a sampler.

    def __init__(
        self,
        labels: np.ndarray,
        sampler: Sampler | None,
        seed: int,
        num_unlabelled: int = 0,
        unlabelled_per_batch: int = 0,
        views: int = 1,
    ):
        if views not in (1, 2):
            raise ValueError(f"views must be 1 or 2; received {views}.")
        if unlabelled_per_batch and views == 1:
            raise ValueError(
                "views must be 2 with unlabelled_per_batch: an image without a class is learned "
                "from by comparing two views of it; received 1."
            )
        if sampler is None and not unlabelled_per_batch:
            raise ValueError(
                "a batch needs images: give classes_per_batch or unlabelled_per_batch; received 0 "
                "for both."
            )
        self.seed, self._labels, self._views = checked_seed(seed), labels, views
        self._samplers = [] if sampler is None else [sampler]
        self._num_by_class = 0 if sampler is None else sampler.batch_size
        if unlabelled_per_batch:
            first = 0 if sampler is None else len(labels)
            pool = np.arange(first, len(labels) + num_unlabelled)
            self._samplers.append(ShuffledSampler(pool, unlabelled_per_batch, seed))
        self.size = views * (self._num_by_class + unlabelled_per_batch)
        self.label_shape = (self.size, 2) if self._num_by_class and views == 2 else (self.size,)

    def batch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices and labels of one batch, as `training_dataset` describes them."""
        indices = np.concatenate([sampler.batch(number) for sampler in self._samplers])
        labels = numbers = np.arange(len(indices))
        if self._num_by_class:
            by_class = indices[: self._num_by_class]
            labels = np.full(len(indices), -1)
            labels[: len(by_class)] = self._labels[by_class]
            if self._views == 2:
                labels = np.stack([labels, numbers], axis=1)
        indices, labels = (np.repeat(array, self._views, axis=0) for array in (indices, labels))
        return indices, labels.astype(np.int32)


def training_dataset(
    images: ImageSet,
    image_size: int,
    classes_per_batch: int,
    images_per_class: int,
    seed: int,
    horizontal_flip: bool = False,
    min_crop_area: float = 1.0,
    resize: int | None = None,
    first_batch: int = 0,
    augmentation: Sequence[keras.layers.Layer] = (),
    views: int = 1,
    unlabelled: ImageSet | None = None,
    unlabelled_per_batch: int = 0,
    cycle_images: bool = False,
) -> "tf.data.Dataset":
    """Makes endless batches with random crops, flips and augmentation, fixed by the seed.

    The random choices for an image depend only on the seed and on its place in the sequence of
    batches. Batches have several images of each of several classes, or images of any class or none
    in two views, or both.

    Args:
        images: The labelled images to train on.
        image_size: S, side of the images in pixels.
        classes_per_batch: P, classes per batch; 0 draws no image by its class.
        images_per_class: K, images per class.
        seed: Seed of the batches and views, and of collages if `images` draws any.
        horizontal_flip, min_crop_area, resize, augmentation: As in `TrainingView`.
        first_batch: Number of batches to skip, to continue where training stopped.
        views: Views of each image in a batch, 1 or 2, each with its own crop, flip and
            augmentation.
        unlabelled: Images without a class, such as those of `load_unlabelled`.
        cycle_images: As in `ClassBalancedSampler`.
        unlabelled_per_batch: U, images per batch that are drawn from those without a class, or from
            all images with `classes_per_batch=0`; needs two views.

    Returns:
        Batches `(images, labels)` of `B = views (P K + U)` images: float32 `(B, S, S, channels)` in
        [0, 255] and int32 labels. With one view these are the classes `(B,)`. With two they are
        `(B, 2)`: the class, -1 for images that were not drawn by it, and the number of the image in
        the batch; with `classes_per_batch=0` the numbers `(B,)` alone. The two views of an image
        are neighbours. They are the same on every backend of Keras.

    Raises:
        ValueError: If the sets cannot fill such batches (see `ClassBalancedSampler`), or as for
            `TrainingView`.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> images = ArrayImages(np.zeros((6, 8, 8, 3), "uint8"), [0, 0, 1, 1, 2, 2], list("abc"))
        >>> for batch, labels in training_dataset(images, 16, 2, 2, seed=0).take(1):
        ...     print(batch.shape, labels.shape)
        (4, 16, 16, 3) (4,)

        Two views of any images:

        >>> pairs = training_dataset(images, 16, 0, 0, seed=0, views=2, unlabelled_per_batch=3)
        >>> next(iter(pairs))[1].numpy().tolist()
        [0, 0, 1, 1, 2, 2]
    """
    view = TrainingView(image_size, horizontal_flip, min_crop_area, resize, augmentation)
    sampler = None
    if classes_per_batch:
        sampler = ClassBalancedSampler(
            images.labels,
            classes_per_batch,
            images_per_class,
            seed,
            images.class_names,
            cycle_images,
        )
    num_unlabelled = 0 if unlabelled is None else len(unlabelled)
    plan = BatchPlan(images.labels, sampler, seed, num_unlabelled, unlabelled_per_batch, views)
    sets = [images] if unlabelled is None else [images, unlabelled]
    return _planned_dataset(sets, view, plan, first_batch)


def sampled_dataset(
    images: ImageSet, sampler: Sampler, view: TrainingView, first_batch: int = 0
) -> "tf.data.Dataset":
    """Makes the endless batches of a sampler, fixed by its seed.

    Args:
        images: The images to train on, of which the sampler has the labels.
        sampler: Which images make up each batch, such as a `SuperClassSampler`.
        view: Crops, flips and augmentation of the images.
        first_batch: Number of batches to skip, to continue where training stopped.

    Returns:
        Batches `(images, labels)` of `sampler.batch_size` images, as from `training_dataset` with
        one view.

    Example:
        >>> from gsp_tf.data import ArrayImages, WeightedSampler
        >>> images = ArrayImages(np.zeros((3, 8, 8, 3), "uint8"), [0, 1, 1], ["a", "b"])
        >>> sampler = WeightedSampler([1.0, 0.5, 0.0], batch_size=2, seed=0)
        >>> for batch, labels in sampled_dataset(images, sampler, TrainingView(16)).take(1):
        ...     print(batch.shape, labels.shape)
        (2, 16, 16, 3) (2,)
    """
    plan = BatchPlan(images.labels, sampler, sampler.seed)
    return _planned_dataset([images], view, plan, first_batch)


def _planned_dataset(sets, view, plan, first_batch):
    """The batches of a plan; a second set has the images without a class."""
    check_sizes(0, first_batch=first_batch)
    images = sets[0] if len(sets) == 1 else _JoinedImages(*sets)

    def prepare(seed, index, label):
        return view(images, index, seed), label

    dataset = planned(plan, first_batch).map(
        _without_autograph(prepare, sets), num_parallel_calls=AT_ONCE
    )
    return with_options(dataset.batch(plan.size, drop_remainder=True))


def planned(plan: BatchPlan, first_batch: int) -> "tf.data.Dataset":
    """What the batches of a plan are made of: seeds `(2,)`, indices and labels, one by one."""
    shapes = (plan.size,), plan.label_shape

    def draw(number):
        # Stateful, so that tf.data requests the batches in order: any other order is slow.
        kinds = tf.int64, tf.int32
        drawn = tf.numpy_function(plan.batch, [number], kinds, stateful=True)
        return tuple(map(tf.ensure_shape, drawn, shapes))

    def seeded(counter, drawn):
        return tf.stack([tf.constant(plan.seed, tf.int64), counter]), *drawn

    # Not from_generator: it makes the process return freed memory at once, which is slow.
    drawn = tf.data.Dataset.counter(first_batch).map(tf.autograph.experimental.do_not_convert(draw))
    return drawn.unbatch().enumerate(start=first_batch * plan.size).map(seeded)


def evaluation_dataset(
    images: ImageSet,
    image_size: int,
    batch_size: int,
    indices: Sequence[int] | None = None,
    resize: int | None = None,
) -> "tf.data.Dataset":
    """Makes batches of the resized centres of all images, or of those in `indices`, in order.

    Args:
        images: The set to evaluate.
        image_size: S, side of the images in pixels.
        batch_size: B, images per batch; the last batch may hold fewer.
        indices: Integers `(n,)`, the images, in this order; all by default.
        resize: R, at least S, length to which the shorter side is resized before the central S x S
            pixels are cropped; `None` is S, the whole central square. Only that part of the files
            is read.

    Returns:
        Batches `(images, labels)`: float32 `(B, S, S, channels)` in [0, 255] and int32 `(B,)`.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> images = ArrayImages(np.zeros((3, 8, 12, 1), "uint8"), [0, 1, 1], ["a", "b"])
        >>> [batch.shape for batch, _ in evaluation_dataset(images, 4, batch_size=2)]
        [TensorShape([2, 4, 4, 1]), TensorShape([1, 4, 4, 1])]
    """
    check_view(image_size, resize)
    check_sizes(batch_size=batch_size)
    with tf.device("CPU"):
        labels = tf.constant(images.labels, tf.int32)

    def prepare(index):
        return evaluation_image(images, index, image_size, resize), tf.gather(labels, index)

    chosen = tf.data.Dataset.from_tensor_slices(checked_indices(indices, len(images)))
    dataset = chosen.map(_without_autograph(prepare, [images]), num_parallel_calls=AT_ONCE)
    return with_options(dataset.batch(batch_size))


def evaluation_image(
    images: ImageSet, index: int | Tensor, image_size: int, resize: int | None = None
) -> Tensor:
    """One image, float32 `(S, S, channels)` in [0, 255], as `evaluation_dataset` shows it."""

    def choose(size):
        return central_window(size, image_size, resize)

    with tf.device("CPU"):
        index = tf.cast(index, tf.int64)
        seed = tf.stack([tf.constant(0, tf.int64), index])
        window = images.load_window(index, seed, choose, image_size)
        return resize_window(window, image_size, images.channels)


class _JoinedImages:
    """The images of two sets, one after the other, as far as a view asks for them."""

    def __init__(self, first: ImageSet, second: ImageSet):
        if first.channels != second.channels:
            raise ValueError(
                "images and unlabelled must have the same channels; received "
                f"{first.channels} and {second.channels}."
            )
        self.channels, self._first, self._second = first.channels, first, second
        self._dtype = first.dtype if first.dtype == second.dtype else "float32"

    def load_window(self, index: Tensor, seed: Tensor, choose: Window, min_side: int) -> Tensor:
        """As that of `ImageSet`."""
        count = len(self._first)
        return tf.cond(
            index < count,
            lambda: tf.cast(self._first.load_window(index, seed, choose, min_side), self._dtype),
            lambda: tf.cast(
                self._second.load_window(index - count, seed, choose, min_side), self._dtype
            ),
        )


def _without_autograph(function, sets: Sequence[ImageSet]):
    """The function without AutoGraph, unless it reads sets that may need it."""
    are_own = all(map(is_own, sets))
    return tf.autograph.experimental.do_not_convert(function) if are_own else function


def with_options(dataset: "tf.data.Dataset") -> "tf.data.Dataset":
    """Batches in their order, two ahead, with one thread an operation."""
    options = tf.data.Options()
    options.deterministic = True
    # An iterator that is deleted waits for the thread that tunes, which may sleep for seconds.
    options.autotune.enabled = False
    options.threading.max_intra_op_parallelism = 1
    return dataset.prefetch(2).with_options(options)


def as_arrays(images: ImageSet, size: int) -> ArrayImages:
    """Loads images into memory at one size, as the tiles of collages require.

    The shorter side is resized to `size` and the centre is cropped.
    """
    if isinstance(images, ArrayImages) and images.images.shape[1:3] == (size, size):
        return images
    batches = [batch for batch, _ in evaluation_dataset(images, size, batch_size=64)]
    pixels = np.clip(np.concatenate(batches), 0, 255)
    pixels = np.rint(pixels).astype(np.uint8) if images.dtype == "uint8" else pixels
    return ArrayImages(pixels, images.labels, images.class_names, images.groups, (0, 255))
