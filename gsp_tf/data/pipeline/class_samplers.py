"""Batches of classes that belong together: of a super-class, or near each other."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gsp_tf._console import listed
from gsp_tf.data.pipeline.sampler import ClassBalancedSampler, evenly


class SuperClassSampler(ClassBalancedSampler):
    """Draws batches of a few super-classes, with several classes of each.

    A batch of one kind of product, such as shoes, holds harder negatives than a batch of all kinds.
    Super-classes are visited evenly, and so are the classes of each of them. These are the category
    balance of Open Metric Learning, with distinct categories, and the hierarchical sampling of
    pytorch-metric-learning.

    Args:
        labels: Integers `(N,)`, the class of each image.
        super_classes: The super-class of each class, `super_classes[label]`, such as the `groups`
            of an `ImageSet`.
        super_classes_per_batch: C, super-classes per batch.
        classes_per_super_class: P, classes of each.
        images_per_class: K, images per class.
        seed: Seed of the sequence.
        batches_per_choice: Number of batches in a row from the same super-classes.
        class_names: Names of the classes for error messages; without them, messages show ids.
        cycle_images: As in `ClassBalancedSampler`.

    Raises:
        ValueError: If a super-class has fewer than `classes_per_super_class` classes, or as for
            `ClassBalancedSampler`.

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
        if not 1 <= super_classes_per_batch <= len(names) or batches_per_choice < 1:
            raise ValueError(
                "super_classes_per_batch must be at most the number of super-classes, "
                f"{len(names)}, and batches_per_choice at least 1; received "
                f"{super_classes_per_batch} and {batches_per_choice}."
            )
        self.super_classes_per_batch = super_classes_per_batch
        self.classes_per_super_class = classes_per_super_class
        self.batches_per_choice = batches_per_choice

    def choices(self) -> Iterator[np.ndarray]:
        """Numbers of the classes of each batch, in the order of their labels."""
        rng = np.random.default_rng(self.seed)
        within = [evenly(len(c), self.classes_per_super_class, rng) for c in self._classes]
        for chosen in evenly(len(self._classes), self.super_classes_per_batch, rng):
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
        labels: Integers `(N,)`, the class of each image.
        neighbours: Integers `(N, k)`, the nearest images of each image, such as from
            `evaluation.nearest_neighbours`. Those of its own class and negative numbers do not
            count.
        classes_per_batch: P, classes per batch.
        images_per_class: K, images per class.
        seed: Seed of the sequence.
        num_nearest: Number of classes that each drawn class brings.
        distances: Floats `(N, k)`, the distances of the neighbours.
        min_distance: Neighbours that are nearer do not count: they are near-duplicates, whose
            labels are in doubt.
        class_names: Names of the classes for error messages; without them, messages show ids.
        cycle_images: As in `ClassBalancedSampler`.

    Raises:
        ValueError: If the neighbours do not fit the labels, `min_distance` is given without
            distances, or as for `ClassBalancedSampler`.

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
        if num_nearest < 1:
            raise ValueError(f"num_nearest must be at least 1; received {num_nearest}.")
        self.num_nearest = num_nearest
        classes, numbers = np.unique(labels, return_inverse=True)
        own, theirs = np.broadcast_arrays(numbers[:, None], numbers[neighbours])
        counts = (neighbours >= 0) & (own != theirs)
        if min_distance is not None:
            counts &= np.asarray(distances) >= min_distance
        links, strength = np.unique(own[counts] * len(classes) + theirs[counts], return_counts=True)
        first, second = np.divmod(links, len(classes))
        order = np.lexsort((second, -strength, first))
        ends = np.searchsorted(first, np.arange(1, len(classes)))
        self._nearest = np.split(second[order], ends)

    def choices(self) -> Iterator[np.ndarray]:
        """Numbers of the classes of each batch, in the order of their labels."""
        classes = evenly(len(self._members), 1, np.random.default_rng(self.seed))
        while True:
            batch = []
            while len(batch) < self.classes_per_batch:
                (first,) = next(classes)
                if first not in batch:
                    near = [c for c in self._nearest[first] if c not in batch]
                    batch += [first, *near[: self.num_nearest]]
            yield np.array(batch[: self.classes_per_batch])
