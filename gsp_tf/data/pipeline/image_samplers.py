"""Batches of fixed triplets, and of images by weight."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from gsp_tf.data.pipeline.sampler import Sampler, evenly, label_vector


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

    Raises:
        ValueError: If there is no triplet, or a number is out of range.

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
        labels = label_vector(labels)
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
        return evenly(len(self.triplets), self.triplets_per_batch, rng)

    def drawn(self, choice: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.triplets[choice].reshape(-1)


class WeightedSampler(Sampler):
    """Draws images with replacement, each as often as its weight says.

    The weights may be how often a miner chose each image, so that hard images come more often.

    Args:
        weights: Floats `(N,)`, proportional to the probability of each image; not negative.
        batch_size: Number of images in a batch.
        seed: Seed of the sequence.

    Raises:
        ValueError: If the weights are not finite and not negative with a positive sum, or the size
            is below 1.

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
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; received {batch_size}.")
        super().__init__(batch_size, seed)
        self._shares = weights / weights.sum()

    def choices(self) -> Iterator[None]:
        """Nothing: every batch is drawn from all images."""
        return itertools.repeat(None)

    def drawn(self, choice: None, rng: np.random.Generator) -> np.ndarray:
        return rng.choice(len(self._shares), self.batch_size, p=self._shares)
