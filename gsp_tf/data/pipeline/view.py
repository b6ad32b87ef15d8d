"""What training sees of an image: a part of it, mirrored or not, and changed at random."""

import contextlib
import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import keras
import numpy as np

from gsp_tf._arguments import check_sizes, checked_seed
from gsp_tf._console import counted
from gsp_tf._keras import check_image_layer, draw_seeds_from
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._names import NOT_AUGMENTATIONS
from gsp_tf._typing import Tensor
from gsp_tf.data.images._jpeg import traced
from gsp_tf.data.images.image_set import ImageSet

_ASPECT_RATIOS = (3 / 4, 4 / 3)


def _random_window(size, draws, min_area):
    """A random part of an image; four draws from [0, 1) fix its area, aspect ratio and place."""
    size = tf.cast(size, tf.float32)
    area, aspect, place = tf.split(draws, (1, 1, 2))
    area = (min_area + (1 - min_area) * area) * tf.reduce_min(size) ** 2
    # A crop of this area fits the image only between these ratios of width to height.
    fits = area / size[0] ** 2, size[1] ** 2 / area
    narrowest, widest = (tf.clip_by_value([ratio], *fits) for ratio in _ASPECT_RATIOS)
    aspect = narrowest * (widest / narrowest) ** aspect
    wanted = tf.sqrt(tf.concat([area / aspect, area * aspect], axis=0))
    crop = tf.clip_by_value(tf.round(wanted), 1, size)
    start = tf.floor(place * (size - crop + 1))
    return tf.cast(tf.concat([start, crop], axis=0), tf.int32)


def central_window(size: Tensor, image_size: int, resize: int | None) -> Tensor:
    """The central square that becomes S x S when the shorter side of the image is resized to R.

    The size is int32 `(2,)`, height and width; `None` for R is S, the whole central square. Returns
    top, left, height and width, int32 `(4,)`.
    """
    fraction = image_size / (resize or image_size)
    side = tf.cast(tf.round(fraction * tf.cast(tf.reduce_min(size), tf.float32)), tf.int32)
    side = tf.maximum(side, 1)
    return tf.concat([(size - side) // 2, [side, side]], axis=0)


def resize_window(image: Tensor, image_size: int, channels: int) -> Tensor:
    """Resizes a part of an image to float32 `(S, S, channels)` by bilinear interpolation.

    Antialiasing is on if more than two pixels become one; otherwise pixels would be skipped.
    """
    image = tf.ensure_shape(image, (None, None, channels))
    of_any_size = tf.TensorSpec((None, None, channels), image.dtype)
    return traced(_resized, of_any_size, image_size=image_size)(image)


def _resized(image, image_size):
    size = (image_size, image_size)
    return tf.cond(
        tf.reduce_max(tf.shape(image)[:2]) > 2 * image_size,
        lambda: tf.image.resize(image, size, antialias=True),
        lambda: tf.image.resize(image, size),
    )


def _mirrored(image, is_mirrored):
    # Not `image[:, ::-1]` in `tf.where`, whose kernels take longer than decoding a photograph.
    return tf.cond(is_mirrored, lambda: tf.reverse(image, [1]), lambda: image)


def check_view(image_size: int, resize: int | None) -> None:
    """Refuses sizes that no window has."""
    check_sizes(image_size=image_size)
    if resize is not None and resize < image_size:
        raise ValueError(
            f"resize must be None, or image_size ({image_size}) or more; received {resize}."
        )


@dataclass(frozen=True)
class TrainingView:
    """How training looks at an image. Its random choices depend on a seed of the image alone.

    Args:
        image_size: S, side of the view in pixels.
        horizontal_flip: Whether to mirror half of the views.
        min_crop_area: Smallest area of a random crop, as a fraction of the area of the central
            square, in (0, 1]. Areas are uniform between this and 1, aspect ratios log-uniform from
            3/4 to 4/3 or as near as the image allows, and places uniform. Crops are resized to
            S x S. With 1, there are no random crops: training sees what evaluation sees.
        resize: R, as in `evaluation_dataset`; random crops ignore it.
        augmentation: Image layers of Keras, such as `keras.layers.RandomColorJitter`, which change
            the S x S pixels in this order. They take values in [0, 255], and none that they give is
            outside.

    Raises:
        ValueError: If a number is out of range, or a layer is not one of images or mixes several.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.data import ArrayImages
        >>> images = ArrayImages(np.full((1, 8, 8, 3), 90, "uint8"), [0], ["grey"])
        >>> view = TrainingView(4, augmentation=[keras.layers.RandomBrightness(0.3)])
        >>> image = view(images, 0, seed=(0, 7)).numpy()
        >>> image.shape, bool((image == image[0, 0, 0]).all()), bool((image == 90).any())
        ((4, 4, 3), True, False)
    """

    image_size: int
    horizontal_flip: bool = False
    min_crop_area: float = 1.0
    resize: int | None = None
    augmentation: Sequence[keras.layers.Layer] = ()

    def __post_init__(self):
        check_view(self.image_size, self.resize)
        if not 0 < self.min_crop_area <= 1:
            raise ValueError(f"min_crop_area must lie in (0, 1]; received {self.min_crop_area}.")
        for layer in self.augmentation:
            name = type(layer).__name__
            reason = NOT_AUGMENTATIONS.get(name.removeprefix("Random").lower())
            if reason is not None:
                raise ValueError(f"keras.layers.{name}: {reason}.")
            check_image_layer(layer)
            draw_seeds_from(_SEEDS, layer)

    def __call__(
        self, images: ImageSet, index: int | Tensor, seed: Sequence[int] | Tensor
    ) -> Tensor:
        """The view of one image by two integers, in a `tf.data` graph or out of one.

        It is float32 `(S, S, channels)`, in [0, 255].
        """
        index, seed = tf.cast(index, tf.int64), tf.cast(seed, tf.int64)
        folded = tf.random.fold_in(seed, 1)
        draws = _draws(folded)

        def choose(size):
            if self.min_crop_area < 1:
                specs = tf.TensorSpec((2,), tf.int32), tf.TensorSpec((4,), tf.float32)
                window = traced(_random_window, *specs, min_area=self.min_crop_area)
                return window(size, draws[:4])
            return central_window(size, self.image_size, self.resize)

        window = images.load_window(index, seed, choose, self.image_size)
        image = resize_window(window, self.image_size, images.channels)
        if self.horizontal_flip:
            specs = tf.TensorSpec(image.shape), tf.TensorSpec((), tf.bool)
            image = traced(_mirrored, *specs)(image, draws[4] < 0.5)
        if not self.augmentation:
            return image
        change = functools.partial(_changed, self.augmentation)
        if tf.executing_eagerly():
            change = tf.function(change, autograph=False)
        return change(image, tf.cast(folded[0], tf.int32))


def _changed(layers, image, seed):
    """An image as layers of Keras change it, by an int32 of its own, within [0, 255]."""
    # In a graph of TensorFlow, the layers draw the same numbers on every backend of Keras.
    with _SEEDS.of_image(seed):
        for layer in layers:
            try:
                changed = tf.cast(layer(image, training=True), tf.float32)
                image = tf.clip_by_value(changed, 0.0, 255.0)
            except Exception as error:
                if image.shape[-1] == 3:
                    raise
                channels = counted(image.shape[-1], "channel")
                raise ValueError(
                    f"keras.layers.{type(layer).__name__} cannot change images of {channels}, "
                    "because it needs red, green and blue. Leave it out, or load 3 channels."
                ) from error
    return image


def is_mirrored(seed: Tensor) -> Tensor:
    """Whether a view of this seed is mirrored, if any is."""
    return _draws(tf.random.fold_in(seed, 1))[4] < 0.5


def _draws(folded):
    """Numbers in [0, 1): four for the window of a view, one for its mirror."""
    return tf.random.stateless_uniform((5,), folded)


class ViewedImages(ImageSet):
    """Several views of each image of a set, drawn once; views of an image are neighbours.

    With each image as a class of its own, as `load_unlabelled` gives them, retrieval among the
    views asks whether a model finds another view of the same image. It needs no class. If the
    images have files, `paths` has that of each view.
    """

    def __init__(self, images: ImageSet, view: TrainingView, count: int, seed: int = 0):
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


_FIRST = 2  # the window and the flip of an image take 1


class _Seeds(keras.random.SeedGenerator):
    """The seeds that layers draw with for one image: pairs of its own seed and a count."""

    def __init__(self):  # not of the base, whose state is a variable
        self._of_thread = threading.local()

    @contextlib.contextmanager
    def of_image(self, seed):
        """Give the seeds of one image in this thread."""
        self._of_thread.seed, self._of_thread.count = seed, _FIRST
        try:
            yield
        finally:
            self._of_thread.seed = None

    def are_set(self):
        """Whether this thread changes an image."""
        return getattr(self._of_thread, "seed", None) is not None

    def next(self, ordered=True):
        seed, count = self._of_thread.seed, self._of_thread.count
        self._of_thread.count += 1
        return tf.stack([seed, count])


_SEEDS = _Seeds()
