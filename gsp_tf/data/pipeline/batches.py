"""Pipelines from image sets to batches, by `tf.data` where TensorFlow is installed."""

import numbers
from collections.abc import Sequence
from typing import TypeAlias

import keras
import numpy as np

from gsp_tf._lazy import has_tensorflow
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import Tensor
from gsp_tf.data.images.image_set import ArrayImages, ImageSet
from gsp_tf.data.pipeline._py_dataset import evaluation_batches, training_batches
from gsp_tf.data.pipeline.sampler import ClassBalancedSampler, Sampler
from gsp_tf.data.pipeline.windows import central_window, random_window, resize_window

_Batches: TypeAlias = "tf.data.Dataset | keras.utils.PyDataset"


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
) -> _Batches:
    """Makes endless class-balanced batches with random crops and flips, fixed by the seed.

    Args:
        images: The set to train on.
        image_size: S, side of the images in pixels.
        classes_per_batch: P, classes per batch.
        images_per_class: K, images per class.
        seed: Seed of the batches, crops and flips, and of collages if `images` draws any.
        horizontal_flip: Whether to mirror half of the images.
        min_crop_area: Smallest area of a random crop, as a fraction of the area of the central
            square, in (0, 1]. Areas are uniform between this and 1, aspect ratios log-uniform from
            3/4 to 4/3 or as near as the image allows, and places uniform. Crops are resized to
            S x S. With 1, there are no random crops: training sees what evaluation sees.
        resize: R, as in `evaluation_dataset`; random crops ignore it.
        first_batch: Number of batches to skip, to continue where training stopped.

    Returns:
        Batches `(images, labels)`: float32 `(P*K, S, S, channels)` in [0, 255] and int32 `(P*K,)`.
        They are a `tf.data.Dataset` where TensorFlow is installed, else a `keras.utils.PyDataset`
        of arrays, for `fit(..., shuffle=False)`. Both show the same images, crops, flips and
        collages for a seed; only the last digits of their pixels differ.

    Raises:
        ValueError: If a size, `min_crop_area` or `first_batch` is out of range, or the set cannot
            fill such batches (see `ClassBalancedSampler`).

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> images = ArrayImages(np.zeros((6, 8, 8, 3), "uint8"), [0, 0, 1, 1, 2, 2], list("abc"))
        >>> for batch, labels in training_dataset(images, 16, 2, 2, seed=0).take(1):
        ...     print(batch.shape, labels.shape)
        (4, 16, 16, 3) (4,)
    """
    sampler = ClassBalancedSampler(
        images.labels, classes_per_batch, images_per_class, seed, images.class_names
    )
    return sampled_dataset(
        images, image_size, sampler, horizontal_flip, min_crop_area, resize, first_batch
    )


def sampled_dataset(
    images: ImageSet,
    image_size: int,
    sampler: Sampler,
    horizontal_flip: bool = False,
    min_crop_area: float = 1.0,
    resize: int | None = None,
    first_batch: int = 0,
) -> _Batches:
    """Makes the endless batches of a sampler with random crops and flips, fixed by its seed.

    Args:
        images: The set to train on, of which the sampler has the labels.
        image_size: S, side of the images in pixels.
        sampler: Which images make up each batch, such as a `SuperClassSampler`.
        horizontal_flip, min_crop_area, resize, first_batch: As in `training_dataset`.

    Returns:
        Batches `(images, labels)` as from `training_dataset`, of `sampler.batch_size` images.

    Raises:
        ValueError: If a size, `min_crop_area` or `first_batch` is out of range.

    Example:
        >>> from gsp_tf.data import ArrayImages, WeightedSampler
        >>> images = ArrayImages(np.zeros((3, 8, 8, 3), "uint8"), [0, 1, 1], ["a", "b"])
        >>> sampler = WeightedSampler([1.0, 0.5, 0.0], batch_size=2, seed=0)
        >>> for batch, labels in sampled_dataset(images, 16, sampler).take(1):
        ...     print(batch.shape, labels.shape)
        (2, 16, 16, 3) (2,)
    """
    _check_sizes(image_size, resize)
    if not 0 < min_crop_area <= 1:
        raise ValueError(f"min_crop_area must lie in (0, 1]; received {min_crop_area}.")
    if first_batch < 0:
        raise ValueError(f"first_batch must not be negative; received {first_batch}.")
    if not has_tensorflow():
        return training_batches(
            images, sampler, image_size, horizontal_flip, min_crop_area, resize, first_batch
        )
    batch_size, seed = sampler.batch_size, sampler.seed
    labels = _label_tensor(images)

    def prepare(counter, index):
        image_seed = tf.stack([tf.constant(seed, tf.int64), counter])
        draws = tf.random.stateless_uniform((5,), tf.random.fold_in(image_seed, 1))

        def choose(size):
            if min_crop_area < 1:
                return random_window(size, min_crop_area, draws[:4])
            return central_window(size, image_size, resize)

        window = images.load_window(index, image_seed, choose, image_size)
        image = resize_window(window, image_size, images.channels)
        if horizontal_flip:
            image = tf.where(draws[4] < 0.5, image[:, ::-1], image)
        return image, tf.gather(labels, index)

    def draw(number):
        # Stateful, so that tf.data requests the batches in order: any other order is slow.
        indices = tf.numpy_function(sampler.batch, [number], tf.int64, stateful=True)
        return tf.ensure_shape(indices, (batch_size,))

    # Not from_generator: it makes the process return freed memory at once, which is slow.
    indices = tf.data.Dataset.counter(first_batch).map(
        tf.autograph.experimental.do_not_convert(draw)
    )
    counted = indices.unbatch().enumerate(start=first_batch * batch_size)
    dataset = counted.map(_without_autograph(prepare, images), num_parallel_calls=tf.data.AUTOTUNE)
    return _with_options(dataset.batch(batch_size, drop_remainder=True))


def evaluation_dataset(
    images: ImageSet,
    image_size: int,
    batch_size: int,
    indices: Sequence[int] | None = None,
    resize: int | None = None,
) -> _Batches:
    """Makes batches of the resized centres of all images, or of those in `indices`, in order.

    Args:
        images: The set to evaluate.
        image_size: S, side of the images in pixels.
        batch_size: B, images per batch; the last batch may hold fewer.
        indices: Integers `(n,)`, the images, in this order; all by default.
        resize: R, length to which the shorter side is resized before the central S x S pixels are
            cropped; `None` is S, the whole central square. Only that part of the files is read.

    Returns:
        Batches `(images, labels)`: float32 `(B, S, S, channels)` in [0, 255] and int32 `(B,)`, of
        the same kinds as those of `training_dataset`.

    Raises:
        ValueError: If `image_size` or `batch_size` is below 1, or `resize` below `image_size`.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> images = ArrayImages(np.zeros((3, 8, 12, 1), "uint8"), [0, 1, 1], ["a", "b"])
        >>> [batch.shape for batch, _ in evaluation_dataset(images, 4, batch_size=2)]
        [TensorShape([2, 4, 4, 1]), TensorShape([1, 4, 4, 1])]
    """
    _check_sizes(image_size, resize)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; received {batch_size}.")
    if not has_tensorflow():
        return evaluation_batches(images, image_size, batch_size, indices, resize)
    labels = _label_tensor(images)

    def prepare(index):
        seed = tf.stack([tf.constant(0, tf.int64), index])

        def choose(size):
            return central_window(size, image_size, resize)

        window = images.load_window(index, seed, choose, image_size)
        return resize_window(window, image_size, images.channels), tf.gather(labels, index)

    if indices is None:
        chosen = tf.data.Dataset.range(len(images))
    else:
        chosen = tf.data.Dataset.from_tensor_slices(np.asarray(indices, "int64"))
    dataset = chosen.map(_without_autograph(prepare, images), num_parallel_calls=tf.data.AUTOTUNE)
    return _with_options(dataset.batch(batch_size))


def _without_autograph(function, images: ImageSet):
    """The function without AutoGraph, which takes long; sets that are not ours may need it."""
    is_own = type(images).__module__.startswith("gsp_tf.")
    return tf.autograph.experimental.do_not_convert(function) if is_own else function


def _check_sizes(image_size: int, resize: int | None) -> None:
    if not isinstance(image_size, numbers.Integral) or image_size < 1:
        raise ValueError(
            "image_size must be an integer of at least 1 pixel, the side of a square; received "
            f"{image_size!r}."
        )
    if resize is not None and resize < image_size:
        raise ValueError(
            f"resize must be None, or image_size ({image_size}) or more; received {resize}."
        )


def _label_tensor(images: ImageSet) -> Tensor:
    with tf.device("CPU"):
        return tf.constant(images.labels, tf.int32)


def _with_options(dataset: "tf.data.Dataset") -> "tf.data.Dataset":
    options = tf.data.Options()
    options.deterministic = True
    options.threading.max_intra_op_parallelism = 1
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)


def as_arrays(images: ImageSet, size: int) -> ArrayImages:
    """Loads images into memory at one size, as the tiles of collages require.

    Args:
        images: The images, of any size.
        size: Side of the square images in pixels. The shorter side is resized to it and the centre
            is cropped.

    Returns:
        Images `(N, size, size, channels)`.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> small = ArrayImages(np.zeros((4, 8, 6, 1), np.uint8), [0, 0, 1, 1], ["a", "b"])
        >>> as_arrays(small, size=4).images.shape
        (4, 4, 4, 1)
    """
    if isinstance(images, ArrayImages) and images.images.shape[1:3] == (size, size):
        return images
    batches = [batch for batch, _ in evaluation_dataset(images, size, batch_size=64)]
    pixels = np.clip(np.rint(np.concatenate(batches)), 0, 255).astype(np.uint8)
    return ArrayImages(pixels, images.labels, images.class_names, images.groups)
