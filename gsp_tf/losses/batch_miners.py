"""Miners that choose pairs by their distances in the batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import keras
from keras import ops

from gsp_tf._backend import available, segment_sum
from gsp_tf._typing import Tensor
from gsp_tf.losses._inputs import check_at_least, check_choice, check_positive
from gsp_tf.losses._pairs import Miner, Pairs

Strategy = Literal["hard", "semi_hard", "easy", "all"]


@keras.saving.register_keras_serializable("gsp_tf")
@dataclass(eq=False)
class BatchEasyHardMiner(Miner):
    """Keeps one positive and one negative of each anchor, or all, as two strategies say.

    A "hard" positive is the farthest and an "easy" one the nearest; a "hard" negative is the
    nearest and an "easy" one the farthest. A "semi_hard" negative is the nearest beyond the chosen
    positive, and a "semi_hard" positive the farthest within the chosen negative. "Improved
    Embeddings with Easy Positive Triplet Mining" (Xuan, Stylianou, Pless, WACV 2020), whose
    setting is the default. Anchors that lack either pair keep none, unless a strategy is "all".
    Equally near samples share the weight of one.

    Args:
        positive: "hard", "semi_hard", "easy", or "all", which keeps every positive of its range.
        negative: the same for negatives.
        positive_range: smallest and largest distance of a positive; `None` allows any.
        negative_range: smallest and largest distance of a negative; `None` allows any.

    Raises:
        ValueError: if a strategy is none of these, if "semi_hard" is given twice or with "all", or
            if a range is not two increasing numbers.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([0, 0, 1, 2])
        >>> _, negatives = BatchEasyHardMiner("easy", "hard")(Pairs(x, x, labels, labels, True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    positive: Strategy = "easy"
    negative: Strategy = "semi_hard"
    positive_range: Sequence[float] | None = None
    negative_range: Sequence[float] | None = None

    def __post_init__(self) -> None:
        strategies = {"positive": self.positive, "negative": self.negative}
        for name, strategy in strategies.items():
            check_choice(name, strategy, Strategy)
        if "semi_hard" in strategies.values() and {*strategies.values()} <= {"semi_hard", "all"}:
            raise ValueError(
                "A semi_hard sample is compared with the hard or easy sample of the other kind, "
                f"received positive={self.positive!r} and negative={self.negative!r}."
            )
        for name, limits in (("positive", self.positive_range), ("negative", self.negative_range)):
            if limits is not None and (len(limits) != 2 or not limits[0] < limits[1]):
                raise ValueError(
                    f"{name}_range must be a smaller and a larger distance, received {limits!r}."
                )
        self.positive_range = None if self.positive_range is None else tuple(self.positive_range)
        self.negative_range = None if self.negative_range is None else tuple(self.negative_range)

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        distances = pairs.distances
        near = _allowed(distances, pairs.positives, self.positive_range)
        far = _allowed(distances, pairs.negatives, self.negative_range)
        if self.positive == "semi_hard":
            negatives = _chosen(distances, far, largest=self.negative == "easy")
            within = distances < _distance_of(distances, negatives)
            positives = _chosen(distances, ops.logical_and(near, within), largest=True)
        else:
            positives = _chosen(distances, near, self.positive == "hard")
            beyond = far
            if self.negative == "semi_hard":
                beyond = ops.logical_and(far, distances > _distance_of(distances, positives))
            negatives = _chosen(distances, beyond, self.negative == "easy")
        if self.positive == "all":
            positives = ops.where(near, pairs.positives, 0.0)
        if self.negative == "all":
            negatives = ops.where(far, pairs.negatives, 0.0)
        if "all" in (self.positive, self.negative):
            return positives, negatives
        complete = ops.logical_and(
            *(ops.any(weights > 0, axis=1, keepdims=True) for weights in (positives, negatives))
        )
        return ops.where(complete, positives, 0.0), ops.where(complete, negatives, 0.0)


@keras.saving.register_keras_serializable("gsp_tf")
class BatchHardMiner(Miner):
    """Keeps the farthest positive and the nearest negative of each anchor that has both.

    "In Defense of the Triplet Loss for Person Re-Identification" (Hermans, Beyer, Leibe 2017).
    Equally near samples share the weight of one. With `TripletLoss` it differs from
    `TripletHardLoss` in the mean, which runs over the triplets that cost something.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([0, 0, 1, 0])
        >>> positives, _ = BatchHardMiner()(Pairs(x, x, labels, labels, exclude_self=True))
        >>> positives.numpy()[0].tolist()
        [0.0, 0.0, 0.0, 1.0]
    """

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        return BatchEasyHardMiner("hard", "hard")(pairs)


@keras.saving.register_keras_serializable("gsp_tf")
@dataclass(eq=False)
class HDCMiner(Miner):
    """Keeps a share of the positives, the farthest, and of the negatives, the nearest.

    The share is that of all pairs together, whatever their anchor, rounded up to whole pairs. Pairs
    as far as the last one share its weight. "Hard-Aware Deeply Cascaded Embedding" (Yuan, Yang,
    Zhang, ICCV 2017), for one level of its cascade.

    Args:
        share: share of the pairs to keep, above 0 and at most 1.

    Raises:
        ValueError: if the share is out of range.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
        >>> HDCMiner(0.5)(Pairs(x, x, labels, labels, exclude_self=True))[1].numpy()
        array([[0., 0., 0.],
               [0., 0., 1.],
               [0., 1., 0.]])
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie above 0 and up to 1, received {self.share}.")

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        return (
            self._smallest(-pairs.distances, pairs.positives),
            self._smallest(pairs.distances, pairs.negatives),
        )

    def _smallest(self, values, weights):
        counted = weights > 0
        size = ops.sum(ops.cast(counted, available("int64")))
        num_kept = ops.ceil(self.share * ops.cast(size, available("float64")))
        values = ops.where(counted, values, math.inf)
        ordered = ops.sort(ops.reshape(values, (-1,)))
        last = ops.take(ordered, ops.maximum(ops.cast(num_kept, "int32") - 1, 0))
        first = ops.cast(ops.logical_and(counted, values < last), weights.dtype)
        equal = ops.cast(ops.logical_and(counted, values == last), weights.dtype)
        left = ops.cast(num_kept, weights.dtype) - ops.sum(first)
        return first + equal * left / ops.maximum(ops.sum(equal), 1.0)


@keras.saving.register_keras_serializable("gsp_tf")
@dataclass(eq=False)
class PairMarginMiner(Miner):
    """Keeps positives beyond one distance and negatives within another.

    A positive stays if `d_ap > m_p`, a negative if `d_an < m_n`.

    Args:
        positive_margin: m_p, a distance.
        negative_margin: m_n, a distance.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [0.5], [5.0]]), np.array([0, 0, 1, 2])
        >>> _, negatives = PairMarginMiner()(Pairs(x, x, labels, labels, exclude_self=True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    positive_margin: float = 0.2
    negative_margin: float = 0.8

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        return (
            ops.where(pairs.distances > self.positive_margin, pairs.positives, 0.0),
            ops.where(pairs.distances < self.negative_margin, pairs.negatives, 0.0),
        )


@keras.saving.register_keras_serializable("gsp_tf")
@dataclass(eq=False)
class UniformHistogramMiner(Miner):
    """Weighs pairs so that all distances count alike, however many pairs have them.

    The range from the smallest to the largest distance of the positives is cut into bins. The pairs
    of a bin that is not empty share the weight `positives_per_bin`. The same holds for the
    negatives and their range. pytorch-metric-learning instead draws that many pairs of each bin,
    with replacement: these weights are how often it draws each pair on average.

    Args:
        num_bins: number of bins.
        positives_per_bin: weight of a bin of positives.
        negatives_per_bin: weight of a bin of negatives.

    Raises:
        ValueError: if there is no bin, or if a weight is not positive.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [1.2], [3.0]]), np.arange(4)
        >>> _, negatives = UniformHistogramMiner(4)(Pairs(x, x, labels, labels, exclude_self=True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 2.5, 2.5, 5.0]
    """

    num_bins: int = 100
    positives_per_bin: float = 10
    negatives_per_bin: float = 10

    def __post_init__(self) -> None:
        check_at_least(1, num_bins=self.num_bins)
        check_positive(
            positives_per_bin=self.positives_per_bin, negatives_per_bin=self.negatives_per_bin
        )

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        distances = pairs.distances
        return (
            self._spread(distances, pairs.positives, self.positives_per_bin),
            self._spread(distances, pairs.negatives, self.negatives_per_bin),
        )

    def _spread(self, distances, weights, per_bin):
        counted = weights > 0
        least = ops.min(ops.where(counted, distances, ops.max(distances)))
        most = ops.max(ops.where(counted, distances, ops.min(distances)))
        width = (most - least) / self.num_bins
        places = ops.floor((distances - least) / ops.where(width > 0, width, 1.0))
        # Equal distances all lie in one bin, whichever it is.
        bins = ops.clip(ops.reshape(ops.cast(places, "int32"), (-1,)), 0, self.num_bins - 1)
        ones = ops.cast(counted, weights.dtype)
        sizes = segment_sum(ops.reshape(ones, (-1,)), bins, self.num_bins)
        of_pairs = ops.reshape(ops.take(sizes, bins), ops.shape(distances))
        return per_bin * ones / ops.maximum(of_pairs, 1.0)


def _allowed(distances, weights, limits):
    """Which pairs count and have a distance within the limits."""
    if limits is None:
        return weights > 0
    inside = ops.logical_and(distances >= limits[0], distances <= limits[1])
    return ops.logical_and(weights > 0, inside)


def _chosen(distances, candidates, largest):
    """Weights of the largest or smallest candidates of each row, which share a weight of 1."""
    scores = distances if largest else -distances
    best = ops.max(ops.where(candidates, scores, -math.inf), axis=1, keepdims=True)
    equal = ops.cast(ops.logical_and(candidates, scores == best), distances.dtype)
    return equal / ops.maximum(ops.sum(equal, axis=1, keepdims=True), 1.0)


def _distance_of(distances, weights):
    """Distance `(A, 1)` of the chosen samples of each row; 0 where there are none."""
    return ops.max(ops.where(weights > 0, distances, 0.0), axis=1, keepdims=True)
