"""Batches with several images of each of several classes, and batches of shuffled images."""

import functools
import itertools
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gsp_tf._arguments import check_at_least, check_sizes, checked_seed, integers
from gsp_tf._console import counted, listed


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
        """The image indices of one batch of the sequence, int64 `(batch_size,)`; numbers from 0 on.

        The batch after the last one returned takes constant time. For others, the sampler repeats
        the choices without drawing images.
        """
        check_at_least(0, number=number)
        with self._lock:
            if self._choices is None or number < self._next:
                self._next, self._choices = 0, iter(self.sequence())
            while self._next <= number:
                choice = next(self._choices)
                self._next += 1
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
        labels = _label_vector(labels)
        check_sizes(classes_per_batch=classes_per_batch, images_per_class=images_per_class)
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
        return _evenly(len(self._members), self.classes_per_batch, np.random.default_rng(self.seed))

    def sequence(self) -> Iterator[np.ndarray]:
        """The classes of each batch, or its images if they come in cycles."""
        return self._cycles() if self.cycle_images else self.choices()

    def _cycles(self):
        rng, k = np.random.default_rng((self.seed, 0)), self.images_per_class
        # A class with fewer images than a batch has of it shows one after the other.
        at_once = [k if len(members) >= k else 1 for members in self._members]
        turns = [_evenly(len(m), n, rng) for m, n in zip(self._members, at_once, strict=True)]
        for classes in self.choices():
            yield np.concatenate(
                [self._members[c][next(turns[c])] for c in classes for _ in range(k // at_once[c])]
            )

    def drawn(self, choice: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.cycle_images:
            return choice
        k = self.images_per_class
        members = [self._members[c] for c in choice]
        return np.concatenate([rng.choice(of, k, replace=len(of) < k) for of in members])


def _label_vector(labels):
    """The labels as a vector of integers; ValueError if they are not."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.size == 0 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            "labels must be a non-empty vector of integers; received "
            f"shape {labels.shape}, dtype {labels.dtype}."
        )
    return integers(labels, "labels")


def _evenly(size, count, rng):
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


class SuperClassSampler(ClassBalancedSampler):
    """Draws batches of a few super-classes, with several classes of each.

    A batch of one kind of product, such as shoes, holds harder negatives than a batch of all kinds.
    Super-classes are visited evenly, and so are the classes of each of them. These are the category
    balance of Open Metric Learning, with distinct categories, and the hierarchical sampling of
    pytorch-metric-learning.

    Args:
        labels, images_per_class, seed, class_names, cycle_images: As in `ClassBalancedSampler`.
        super_classes: The super-class of each class, `super_classes[label]`, such as the `groups`
            of an `ImageSet`.
        super_classes_per_batch: C, super-classes per batch.
        classes_per_super_class: P, classes of each; none may have fewer.
        batches_per_choice: Number of batches in a row from the same super-classes.

    Example:
        >>> labels, kinds = np.repeat(np.arange(6), 3), ["shoe"] * 4 + ["bag"] * 2
        >>> batch = SuperClassSampler(labels, kinds, 1, 2, 2, seed=0).batch(0)
        >>> batch.shape, len({kinds[label] for label in labels[batch]})
        ((4,), 1)
    """

    def __init__(
        self,
        labels: Sequence[int] | np.ndarray,
        super_classes: Sequence[Any],
        super_classes_per_batch: int,
        classes_per_super_class: int,
        images_per_class: int,
        seed: int,
        batches_per_choice: int = 1,
        class_names: Sequence[str] | None = None,
        cycle_images: bool = False,
    ):
        check_sizes(
            super_classes_per_batch=super_classes_per_batch,
            classes_per_super_class=classes_per_super_class,
            batches_per_choice=batches_per_choice,
        )
        super().__init__(
            labels,
            super_classes_per_batch * classes_per_super_class,
            images_per_class,
            seed,
            class_names,
            cycle_images,
        )
        classes = np.unique(labels)
        if classes[0] < 0 or classes[-1] >= len(super_classes):
            raise ValueError(
                f"super_classes must name one super-class for each label; received "
                f"{len(super_classes)} for labels from {classes[0]} to {classes[-1]}."
            )
        names, numbers = np.unique(np.asarray(super_classes)[classes], return_inverse=True)
        self._classes = [np.flatnonzero(numbers == i) for i in range(len(names))]
        sizes = np.bincount(numbers)
        if sizes.min() < classes_per_super_class:
            raise ValueError(
                f"super-classes with fewer than classes_per_super_class={classes_per_super_class} "
                f"classes: {listed(names[sizes < classes_per_super_class])}. Drop or merge them."
            )
        if super_classes_per_batch > len(names):
            raise ValueError(
                "super_classes_per_batch must be at most the number of super-classes, "
                f"{len(names)}; received {super_classes_per_batch}."
            )
        self.super_classes_per_batch = super_classes_per_batch
        self.classes_per_super_class = classes_per_super_class
        self.batches_per_choice = batches_per_choice

    def choices(self) -> Iterator[np.ndarray]:
        rng = np.random.default_rng(self.seed)
        within = [_evenly(len(c), self.classes_per_super_class, rng) for c in self._classes]
        for chosen in _evenly(len(self._classes), self.super_classes_per_batch, rng):
            for _ in range(self.batches_per_choice):
                yield np.concatenate([self._classes[i][next(within[i])] for i in chosen])


class NearestClassSampler(ClassBalancedSampler):
    """Draws batches of classes together with those that a model takes for them.

    Drawn classes are visited evenly, and each brings its nearest classes: those that hold most of
    the nearest neighbours of its images. "Doppelganger Mining for Face Representation Learning"
    (Smirnov et al., ICCV Workshops 2017) with one nearest class each; N-pairs (Sohn, NIPS 2016)
    calls it negative class mining. The neighbours come from any index, and are those of the model
    that made its embeddings: make a sampler with fresh ones every few epochs.

    Args:
        labels, classes_per_batch, images_per_class, seed, class_names, cycle_images: As in
            `ClassBalancedSampler`.
        neighbours: Integers `(N, k)`, the nearest images of each image, such as from
            `evaluation.nearest_neighbours`. Those of its own class and negative numbers do not
            count.
        num_nearest: Number of classes that each drawn class brings.
        distances: Floats `(N, k)`, the distances of the neighbours.
        min_distance: Neighbours that are nearer do not count: they are near-duplicates, whose
            labels are in doubt. It needs `distances`.

    Example:
        >>> labels = np.repeat(np.arange(4), 2)  # the classes 0 and 2 look alike, and so do 1 and 3
        >>> neighbours = (np.arange(8)[:, None] + 4) % 8
        >>> sampler = NearestClassSampler(labels, neighbours, 2, 2, seed=0)
        >>> sorted(set(labels[sampler.batch(0)].tolist())) in ([0, 2], [1, 3])
        True
    """

    def __init__(
        self,
        labels: Sequence[int] | np.ndarray,
        neighbours: np.ndarray,
        classes_per_batch: int,
        images_per_class: int,
        seed: int,
        num_nearest: int = 1,
        distances: np.ndarray | None = None,
        min_distance: float | None = None,
        class_names: Sequence[str] | None = None,
        cycle_images: bool = False,
    ):
        super().__init__(
            labels, classes_per_batch, images_per_class, seed, class_names, cycle_images
        )
        neighbours = np.asarray(neighbours)
        size = len(labels)
        if neighbours.ndim != 2 or len(neighbours) != size or neighbours.max(initial=-1) >= size:
            raise ValueError(
                f"neighbours must be numbers (N, k) of images below N={size}; received shape "
                f"{neighbours.shape} and numbers up to {neighbours.max(initial=-1)}."
            )
        if min_distance is not None and np.shape(distances) != neighbours.shape:
            raise ValueError(
                f"min_distance needs distances of the shape of the neighbours, {neighbours.shape}; "
                f"received {None if distances is None else np.shape(distances)}."
            )
        check_sizes(num_nearest=num_nearest)
        self.num_nearest = num_nearest
        classes, numbers = np.unique(labels, return_inverse=True)
        own, theirs = np.broadcast_arrays(numbers[:, None], numbers[np.maximum(neighbours, 0)])
        counts = (neighbours >= 0) & (own != theirs)
        if min_distance is not None:
            counts &= np.asarray(distances) >= min_distance
        links, strength = np.unique(own[counts] * len(classes) + theirs[counts], return_counts=True)
        first, second = np.divmod(links, len(classes))
        order = np.lexsort((second, -strength, first))
        ends = np.searchsorted(first, np.arange(1, len(classes)))
        self._nearest = np.split(second[order], ends)

    def choices(self) -> Iterator[np.ndarray]:
        classes = _evenly(len(self._members), 1, np.random.default_rng(self.seed))
        while True:
            batch = []
            while len(batch) < self.classes_per_batch:
                (first,) = next(classes)
                if first not in batch:
                    near = [c for c in self._nearest[first] if c not in batch]
                    batch += [first, *near[: self.num_nearest]]
            yield np.array(batch[: self.classes_per_batch])


class FixedTripletSampler(Sampler):
    """Draws batches from a fixed set of triplets of an anchor, a positive and a negative.

    With it, one can measure what a number of triplets teaches. Every triplet comes once before any
    comes again. A loss also sees the other pairs of a batch.

    Args:
        labels: Integers `(N,)`, the class of each image.
        num_triplets: Number of triplets to draw from all triplets, with replacement.
        triplets_per_batch: T, triplets per batch.
        seed: Seed of the triplets and of the sequence.

    Attributes:
        triplets: int64 `(num_triplets, 3)`; a batch lists its triplets one after the other.

    Example:
        >>> sampler = FixedTripletSampler([0, 0, 1], num_triplets=4, triplets_per_batch=2, seed=0)
        >>> sampler.triplets[:, 2].tolist(), sampler.batch(0).shape
        ([2, 2, 2, 2], (6,))
    """

    def __init__(
        self,
        labels: Sequence[int] | np.ndarray,
        num_triplets: int,
        triplets_per_batch: int,
        seed: int,
    ):
        labels = _label_vector(labels)
        if not 1 <= triplets_per_batch <= num_triplets:
            raise ValueError(
                "triplets_per_batch must lie in 1 to num_triplets; received "
                f"{triplets_per_batch} and {num_triplets}."
            )
        _, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
        sizes = counts[numbers]
        anchors = np.flatnonzero(sizes > 1)
        if not len(anchors) or len(counts) == 1:
            raise ValueError("triplets need two classes, and a class with two images.")
        super().__init__(3 * triplets_per_batch, seed)
        self.triplets_per_batch = triplets_per_batch
        rng = np.random.default_rng((seed, 0))
        weights = (sizes - 1.0) * (len(labels) - sizes)  # number of triplets of each anchor
        anchors = rng.choice(len(labels), num_triplets, p=weights / weights.sum())
        order = np.argsort(numbers, kind="stable")
        place = np.argsort(order)
        starts = (np.cumsum(counts) - counts)[numbers[anchors]]
        own = sizes[anchors]
        # Places after the anchor's within its class, and after its class within all, in a circle.
        after = place[anchors] - starts + rng.integers(1, own)
        beyond = starts + own + rng.integers(0, len(labels) - own)
        positives, negatives = order[starts + after % own], order[beyond % len(labels)]
        self.triplets = np.stack([anchors, positives, negatives], axis=1)

    def choices(self) -> Iterator[np.ndarray]:
        """Numbers of the triplets of each batch."""
        rng = np.random.default_rng(self.seed)
        return _evenly(len(self.triplets), self.triplets_per_batch, rng)

    def drawn(self, choice: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.triplets[choice].reshape(-1)


class WeightedSampler(Sampler):
    """Draws images with replacement, each as often as its weight says.

    The weights may be how often a miner chose each image, so that hard images come more often.

    Args:
        weights: Floats `(N,)`, proportional to the probability of each image; not negative, not
            all 0.
        batch_size: Number of images in a batch.
        seed: Seed of the sequence.

    Example:
        >>> WeightedSampler([0.0, 1.0, 0.0], batch_size=2, seed=0).batch(5)
        array([1, 1])
    """

    def __init__(self, weights: Sequence[float] | np.ndarray, batch_size: int, seed: int):
        weights = np.asarray(weights, "float64")
        if weights.ndim != 1 or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
            raise ValueError(
                "weights must be a vector of finite numbers, not negative, not all 0; received "
                f"shape {weights.shape} from {weights.min(initial=np.inf)} to "
                f"{weights.max(initial=-np.inf)}."
            )
        check_sizes(batch_size=batch_size)
        super().__init__(batch_size, seed)
        self._shares = weights / weights.sum()

    def choices(self) -> Iterator[None]:
        """Nothing: every batch is drawn from all images."""
        return itertools.repeat(None)

    def drawn(self, choice: None, rng: np.random.Generator) -> np.ndarray:
        return rng.choice(len(self._shares), self.batch_size, p=self._shares)
