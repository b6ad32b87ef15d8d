"""`tf.data` pipelines from image sets to batches."""

import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from gsp_tf.data.image_set import ImageSet
from gsp_tf.data.samplers import ClassBalancedSampler

_ASPECT_RATIOS = (3 / 4, 4 / 3)


def training_dataset(
    images: ImageSet,
    image_size: int,
    classes_per_batch: int,
    images_per_class: int,
    seed: int,
    horizontal_flip: bool = False,
    min_crop_area: float = 1.0,
    first_batch: int = 0,
) -> tf.data.Dataset:
    """Endless class-balanced batches with random crops and flips, fixed by the seed.

    Args:
        images: The set to train on.
        image_size: S, side of the images in pixels.
        classes_per_batch: P, classes in a batch.
        images_per_class: K, images of each of them.
        seed: Fixes the batches, the crops, the flips, and the collages if `images` draws any.
        horizontal_flip: Whether to mirror half of the images.
        min_crop_area: Smallest share of the image area that a random crop keeps, in (0, 1]. Crops
            have aspect ratios from 3/4 to 4/3, or as near as the image allows. With 1 nothing is
            cropped at random: the central square is resized to S, as in evaluation.
        first_batch: Number of batches of the sequence to leave out, to go on where training was.

    Returns:
        Batches `(images, labels)`: float32 `(P*K, S, S, channels)` in [0, 255] and int32 `(P*K,)`.

    Raises:
        ValueError: If `image_size`, `min_crop_area` or `first_batch` is out of range, or the set
            cannot fill such batches (see `ClassBalancedSampler`).

    Example:
        >>> import numpy as np
        >>> from gsp_tf.data import ArrayImages
        >>> images = ArrayImages(np.zeros((6, 8, 8, 3), "uint8"), [0, 0, 1, 1, 2, 2], list("abc"))
        >>> for batch, labels in training_dataset(images, 16, 2, 2, seed=0).take(1):
        ...     print(batch.shape, labels.shape)
        (4, 16, 16, 3) (4,)
    """
    _check_image_size(image_size)
    if not 0 < min_crop_area <= 1:
        raise ValueError(f"min_crop_area must lie in (0, 1]; received {min_crop_area}.")
    if first_batch < 0:
        raise ValueError(f"first_batch must not be negative; received {first_batch}.")
    sampler = ClassBalancedSampler(
        images.labels, classes_per_batch, images_per_class, seed, images.class_names
    )
    batch_size = classes_per_batch * images_per_class
    labels = _label_tensor(images)

    def prepare(counter, index):
        image_seed = tf.stack([tf.constant(seed, tf.int64), counter])
        image = images.load(index, image_seed)
        if min_crop_area < 1:
            image = _random_crop(image, min_crop_area, tf.random.fold_in(image_seed, 1))
            image = _resize(image, image_size, image_size)
        else:
            image = _fit(image, image_size)
        if horizontal_flip:
            image = tf.image.stateless_random_flip_left_right(
                image, tf.random.fold_in(image_seed, 2)
            )
        return _finish(image, image_size, images.channels), tf.gather(labels, index)

    indices = tf.data.Dataset.from_generator(
        lambda: itertools.islice(sampler, first_batch, None),
        output_signature=tf.TensorSpec((batch_size,), tf.int64),
    )
    counted = indices.unbatch().enumerate(start=first_batch * batch_size)
    dataset = counted.map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
    return _with_options(dataset.batch(batch_size, drop_remainder=True))


def evaluation_dataset(
    images: ImageSet,
    image_size: int,
    batch_size: int,
    indices: Sequence[int] | None = None,
) -> tf.data.Dataset:
    """Every image once, or those of given indices, in order: its central square, resized.

    Args:
        images: The set to evaluate.
        image_size: S, side of the images in pixels.
        batch_size: B, images in a batch; the last batch may hold fewer.
        indices: Integers `(n,)`, which images, in this order; all of them by default.

    Returns:
        Batches `(images, labels)`: float32 `(B, S, S, channels)` in [0, 255] and int32 `(B,)`.

    Raises:
        ValueError: If `image_size` or `batch_size` is below 1.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.data import ArrayImages
        >>> images = ArrayImages(np.zeros((3, 8, 12, 1), "uint8"), [0, 1, 1], ["a", "b"])
        >>> [batch.shape for batch, _ in evaluation_dataset(images, 4, batch_size=2)]
        [TensorShape([2, 4, 4, 1]), TensorShape([1, 4, 4, 1])]
    """
    _check_image_size(image_size)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; received {batch_size}.")
    labels = _label_tensor(images)

    def prepare(index):
        image = images.load(index, tf.stack([tf.constant(0, tf.int64), index]))
        image = _fit(image, image_size)
        return _finish(image, image_size, images.channels), tf.gather(labels, index)

    if indices is None:
        chosen = tf.data.Dataset.range(len(images))
    else:
        chosen = tf.data.Dataset.from_tensor_slices(np.asarray(indices, "int64"))
    dataset = chosen.map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
    return _with_options(dataset.batch(batch_size))


def _check_image_size(image_size: int) -> None:
    if image_size < 1:
        raise ValueError(f"image_size must be at least 1 pixel; received {image_size}.")


def _label_tensor(images: ImageSet) -> tf.Tensor:
    with tf.device("CPU"):
        return tf.constant(images.labels, tf.int32)


def _random_crop(image: tf.Tensor, min_area: float, seed: tf.Tensor) -> tf.Tensor:
    """Keeps a random part of the image: area uniform, aspect ratio log-uniform, place uniform."""
    size = tf.cast(tf.shape(image)[:2], tf.float32)
    area, aspect, place = tf.split(tf.random.stateless_uniform((4,), seed), (1, 1, 2))
    area = (min_area + (1 - min_area) * area) * tf.reduce_prod(size)
    # A crop of that area fits the image only between these ratios of width to height.
    fits = area / size[0] ** 2, size[1] ** 2 / area
    narrowest, widest = (tf.clip_by_value([ratio], *fits) for ratio in _ASPECT_RATIOS)
    aspect = narrowest * (widest / narrowest) ** aspect
    wanted = tf.sqrt(tf.concat([area / aspect, area * aspect], axis=0))
    crop = tf.clip_by_value(tf.round(wanted), 1, size)
    start = tf.floor(place * (size - crop + 1))
    start, crop = tf.cast(start, tf.int32), tf.cast(crop, tf.int32)
    return tf.slice(image, tf.pad(start, [[0, 1]]), tf.pad(crop, [[0, 1]], constant_values=-1))


def _fit(image: tf.Tensor, image_size: int) -> tf.Tensor:
    """Keeps the central square, resized to `image_size`.

    The crop comes first: resizing all of a thin image could take any amount of memory.
    """
    if image.shape[:2] == (image_size, image_size):
        return image
    height, width = tf.unstack(tf.shape(image)[:2])
    side = tf.minimum(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return _resize(image[top : top + side, left : left + side], image_size, image_size)


def _resize(image: tf.Tensor, height: int | tf.Tensor, width: int | tf.Tensor) -> tf.Tensor:
    return tf.image.resize(image, (height, width), antialias=True)


def _finish(image: tf.Tensor, image_size: int, channels: int) -> tf.Tensor:
    return tf.ensure_shape(tf.cast(image, tf.float32), (image_size, image_size, channels))


def _with_options(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    options.threading.max_intra_op_parallelism = 1
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
