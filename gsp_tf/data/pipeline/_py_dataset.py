"""The batches of `batches.py` without TensorFlow, by NumPy and Pillow."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
from PIL import Image

from gsp_tf.data.images.image_set import ImageSet
from gsp_tf.data.pipeline._plan import BatchPlan
from gsp_tf.data.pipeline.windows import ASPECT_RATIOS

_AHEAD = 2  # batches that are prepared while the model trains


class _PyBatches(keras.utils.PyDataset):
    """Batches of images that threads prepare in order, some ahead; `None` batches are endless."""

    def __init__(
        self,
        prepare: Callable[..., np.ndarray],
        examples: Callable[[int], tuple[Sequence[tuple], np.ndarray]],
        num_batches: int | None,
    ):
        super().__init__()
        self._prepare, self._examples, self._num_batches = prepare, examples, num_batches
        self._pool = ThreadPoolExecutor()
        self._started: dict[int, Any] = {}

    @property
    def num_batches(self) -> int | None:
        return self._num_batches

    def __len__(self) -> int:
        if self._num_batches is None:
            raise TypeError("The batches are endless.")
        return self._num_batches

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        end = number + 1 + _AHEAD
        if self._num_batches is not None:
            end = min(end, self._num_batches)
        kept = {n: self._started.get(n) or self._start(n) for n in range(number, end)}
        images, labels = kept.pop(number)
        self._started = kept
        return np.stack(list(images)), labels

    def _start(self, number):
        examples, labels = self._examples(number)
        return self._pool.map(self._prepare, *zip(*examples, strict=True)), labels


def planned_batches(
    prepare: Callable[..., np.ndarray], plan: BatchPlan, first_batch: int
) -> keras.utils.PyDataset:
    """The batches of a plan; `prepare` takes an index and the seed of what is drawn for it."""

    def examples(number):
        indices, labels = plan.batch(first_batch + number)
        first = (first_batch + number) * len(indices)
        return [(index, (plan.seed, first + i)) for i, index in enumerate(indices)], labels

    return _PyBatches(prepare, examples, None)


def ordered_batches(
    prepare: Callable[..., np.ndarray],
    labels: np.ndarray,
    indices: Sequence[int] | None,
    batch_size: int,
) -> keras.utils.PyDataset:
    """Batches of `indices`, by default of all, in order; `prepare` as in `planned_batches`."""
    indices = np.arange(len(labels)) if indices is None else np.asarray(indices, "int64")

    def examples(number):
        chosen = indices[number * batch_size : (number + 1) * batch_size]
        return [(index, (0, index)) for index in chosen], labels[chosen].astype(np.int32)

    return _PyBatches(prepare, examples, -(-len(indices) // batch_size))


def evaluation_batches(
    images: ImageSet,
    image_size: int,
    batch_size: int,
    indices: Sequence[int] | None,
    resize: int | None,
) -> keras.utils.PyDataset:
    """The batches of `evaluation_dataset`."""

    def prepare(index, seed):
        return evaluation_image(images, index, image_size, resize)

    return ordered_batches(prepare, images.labels, indices, batch_size)


def evaluation_image(
    images: ImageSet, index: int, image_size: int, resize: int | None = None
) -> np.ndarray:
    """Reads one image as `evaluation_dataset` shows it, without TensorFlow.

    Args:
        images: The set of the image.
        index: The index of the image.
        image_size: S, side of the image in pixels.
        resize: R, as in `evaluation_dataset`.

    Returns:
        float32 `(S, S, channels)` in [0, 255].

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> images = ArrayImages(np.zeros((2, 8, 12, 1), "uint8"), [0, 1], ["a", "b"])
        >>> evaluation_image(images, 1, 4).shape
        (4, 4, 1)
    """

    def choose(size):
        return central_window(size, image_size, resize)

    return resize_window(images.read_window(index, (0, index), choose, image_size), image_size)


def random_window(size: tuple[int, int], min_area: float, draws: Sequence[float]) -> np.ndarray:
    """`windows.random_window` in NumPy, in the same float32 arithmetic."""
    size = np.asarray(size, np.float32)
    area, aspect, *place = np.asarray(draws, np.float32)
    area = (min_area + (1 - min_area) * area) * size.min() ** 2
    fits = area / size[0] ** 2, size[1] ** 2 / area
    narrowest, widest = (np.clip(np.float32(ratio), *fits) for ratio in ASPECT_RATIOS)
    aspect = narrowest * (widest / narrowest) ** aspect
    crop = np.clip(np.round(np.sqrt([area / aspect, area * aspect])), 1, size)
    start = np.floor(place * (size - crop + 1))
    return np.concatenate([start, crop]).astype(int)


def central_window(size: tuple[int, int], image_size: int, resize: int | None) -> np.ndarray:
    """`windows.central_window` in NumPy."""
    fraction = np.float32(image_size / (resize or image_size))
    side = max(int(np.round(fraction * np.float32(min(size)))), 1)
    height, width = size
    return np.array([(height - side) // 2, (width - side) // 2, side, side])


def resize_window(image: np.ndarray, image_size: int) -> np.ndarray:
    """`windows.resize_window` by Pillow, within 0.01 of its values."""
    height, width, channels = image.shape
    size = (image_size, image_size)
    resized = np.empty((*size, channels), np.float32)
    for channel in range(channels):
        # In mode F, Pillow does not round to integers.
        plane = Image.fromarray(image[..., channel]).convert("F")
        if max(height, width) > 2 * image_size:
            plane = plane.resize(size, Image.Resampling.BILINEAR)
        else:  # `resize` would antialias
            scales = (width / image_size, 0, 0, 0, height / image_size, 0)
            plane = plane.transform(size, Image.Transform.AFFINE, scales, Image.Resampling.BILINEAR)
        resized[..., channel] = plane
    return resized
