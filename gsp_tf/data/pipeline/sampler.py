"""Batches with several images of each of several classes, and batches of shuffled images."""

import functools
import itertools
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gsp_tf._console import counted, listed
from gsp_tf._integers import checked_seed, integers


class Sampler:
    """Base of the samplers: an endless sequence of batches of images, fixed by a seed.

    A subclass implements `choices()`, an endless iterator of what the batches consist of, such as
    classes, and `drawn(choice, rng) -> indices`. Every iterator over a sampler gives the same
    sequence.

    Args:
        batch_size: Number of images in a batch.
        seed: Seed of the sequence.

    Example:
        >>> class InOrder(Sampler):
        ...     def choices(self):
        ...         return itertools.count(step=self.batch_size)
        ...     def drawn(self, choice, rng):
        ...         return np.arange(choice, choice + self.batch_size) % 10
        >>> InOrder(4, seed=0).batch(2)
        array([8, 9, 0, 1])
    """

    num_batches = None  # endless, as of a keras.utils.PyDataset

    def __init__(self, batch_size: int, seed: int):
        self.batch_size = batch_size
        self.seed = checked_seed(seed)
        self._lock = threading.Lock()
        self._next, self._choices = 0, None

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(self.batch, itertools.count())

    def batch(self, number: int) -> np.ndarray:
        """Returns the image indices of one batch of the sequence.

        Args:
            number: Number of the batch, from 0. The batch after the last one returned takes
                constant time. For others, the sampler repeats the choices without drawing images.

        Returns:
            int64 `(batch_size,)`.
        """
        with self._lock:
            if self._choices is None or number < self._next:
                self._next, self._choices = 0, iter(self.sequence())
            for _ in range(number - self._next):
                next(self._choices)
            choice = next(self._choices)
            self._next = number + 1
        return self.drawn(choice, np.random.default_rng((self.seed, number)))

    def choices(self) -> Iterator[Any]:
        """What each batch consists of, without end."""
        raise NotImplementedError

    def sequence(self) -> Iterator[Any]:
        """What `drawn` gets for each batch: the choices."""
        return self.choices()

    def drawn(self, choice: Any, rng: np.random.Generator) -> np.ndarray:
        """Image indices of the batch of a choice."""
        raise NotImplementedError


class ClassBalancedSampler(Sampler):
    """Draws batches of `classes_per_batch` classes with `images_per_class` images each.

    Classes are visited evenly: each comes once before any comes again. The images of a class are
    drawn without replacement, or with replacement if it has fewer than `images_per_class`. Every
    iterator over the sampler is infinite and gives the same sequence.

    Args:
        labels: Integers `(N,)`, the class of each image.
        classes_per_batch: P, classes per batch.
        images_per_class: K, images per class.
        seed: Seed of the sequence.
        class_names: Names of the classes for error messages; without them, messages show ids.
        cycle_images: Show each image of a class once, in a new order, before any image of that
            class comes again, so that a small class comes round sooner. With classes of n images,
            n a multiple of `images_per_class`, and their number a multiple of `classes_per_batch`,
            `N / (P K)` batches are one pass over all N images.

    Raises:
        ValueError: If there are fewer than `classes_per_batch` classes, or if a class has a single
            image and `images_per_class` is at least 2.

    Example:
        >>> sampler = ClassBalancedSampler([0, 0, 1, 1, 2, 2], 2, 2, seed=0)
        >>> batch = next(iter(sampler))
        >>> batch.shape, batch.dtype
        ((4,), dtype('int64'))
    """

    def __init__(
        self,
        labels: Sequence[int] | np.ndarray,
        classes_per_batch: int,
        images_per_class: int,
        seed: int,
        class_names: Sequence[str] | None = None,
        cycle_images: bool = False,
    ):
        labels = label_vector(labels)
        if classes_per_batch < 1 or images_per_class < 1:
            raise ValueError(
                "classes_per_batch and images_per_class must be at least 1; received "
                f"{classes_per_batch} and {images_per_class}."
            )
        classes, counts = np.unique(labels, return_counts=True)
        if classes_per_batch > len(classes):
            raise ValueError(
                f"classes_per_batch must be at most the number of classes, {len(classes)}; "
                f"received {classes_per_batch}."
            )
        single = classes[counts == 1]
        if images_per_class >= 2 and len(single):
            raise ValueError(
                "pairs need two images of a class; classes with a single one: "
                f"{listed(single if class_names is None else [class_names[c] for c in single])}. "
                "Drop these classes or set images_per_class to 1."
            )
        small = int(np.sum(counts < images_per_class))
        if small:
            warnings.warn(
                f"{small} of {counted(len(classes), 'class', 'classes')} have fewer than "
                f"{counted(images_per_class, 'image')}; theirs come more than once in a batch.",
                stacklevel=2,
            )
        super().__init__(classes_per_batch * images_per_class, seed)
        self.classes_per_batch = classes_per_batch
        self.images_per_class = images_per_class
        self.cycle_images = cycle_images
        self._members = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])

    def choices(self) -> Iterator[np.ndarray]:
        """Numbers of the classes of each batch, in the order of their labels."""
        return evenly(len(self._members), self.classes_per_batch, np.random.default_rng(self.seed))

    def sequence(self) -> Iterator[np.ndarray]:
        """The classes of each batch, or its images if they come in cycles."""
        return self._cycles() if self.cycle_images else self.choices()

    def _cycles(self):
        rng, k = np.random.default_rng((self.seed, 0)), self.images_per_class
        # A class with fewer images than a batch has of it shows one after the other.
        at_once = [k if len(members) >= k else 1 for members in self._members]
        turns = [evenly(len(m), n, rng) for m, n in zip(self._members, at_once, strict=True)]
        for classes in self.choices():
            yield np.concatenate(
                [self._members[c][next(turns[c])] for c in classes for _ in range(k // at_once[c])]
            )

    def drawn(self, choice: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.cycle_images:
            return choice
        return np.concatenate([self._draw(self._members[c], rng) for c in choice])

    def _draw(self, members, rng):
        replace = len(members) < self.images_per_class
        return rng.choice(members, self.images_per_class, replace=replace)


def label_vector(labels):
    """The labels as a vector of integers; ValueError if they are not."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.size == 0 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            "labels must be a non-empty vector of integers; received "
            f"shape {labels.shape}, dtype {labels.dtype}."
        )
    return integers(labels, "labels")


def evenly(size, count, rng):
    """Arrays of `count` distinct numbers below `size`, each once before any comes again."""
    waiting = rng.permutation(size)
    while True:
        missing = count - len(waiting)
        if missing <= 0:
            batch, waiting = np.split(waiting, [count])
        else:
            refill = rng.permutation(size)
            taken = refill[~np.isin(refill, waiting)][:missing]
            batch, waiting = np.concatenate([waiting, taken]), refill[~np.isin(refill, taken)]
        yield batch


class ShuffledSampler:
    """Draws batches of images whatever their class is, in a new order for each pass over them."""

    # A pass leaves out the images that are too few for a batch.

    def __init__(self, indices: Sequence[int] | np.ndarray, images_per_batch: int, seed: int):
        self._indices = np.asarray(indices, np.int64)
        if not 1 <= images_per_batch <= len(self._indices):
            raise ValueError(
                "unlabelled_per_batch must be at least 1 and at most the number of images to draw "
                f"from, {len(self._indices)}; received {images_per_batch}."
            )
        self._size, self._seed = images_per_batch, seed
        self._order = functools.lru_cache(2)(self._shuffled)

    def batch(self, number: int) -> np.ndarray:
        """The image indices of one batch of the sequence, int64, in any order of calls."""
        pass_number, place = divmod(number, len(self._indices) // self._size)
        return self._order(pass_number)[place * self._size : (place + 1) * self._size]

    def _shuffled(self, pass_number):
        return np.random.default_rng((self._seed, pass_number)).permutation(self._indices)
