"""Miners: which pairs or triplets a loss counts, and how often."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import check_choice, check_positive, check_sizes, checked_seed
from gsp_tf._backend import available, segment_sum
from gsp_tf._config import Guarded, elementary
from gsp_tf._typing import Tensor
from gsp_tf.losses._pairs import Pairs
from gsp_tf.losses._rows import fold_marked, smallest_above, weight_at, weight_below
from gsp_tf.ops import pairwise_distances

Strategy = Literal["hard", "semi_hard", "easy", "all"]
Triplets = Literal["all", "hard", "semi_hard", "easy"]


class Miner(Guarded):
    """Base of the miners, which weigh all positive and negative pairs.

    A subclass implements `__call__(pairs) -> (positives, negatives)`. Both are weights `(A, R)`
    with the shape and type of `pairs.positives`, 0 for a pair that does not count. Losses do not
    differentiate them. Every constructor argument is an attribute of the same name; these form the
    config.

    Example:
        >>> class NoNegatives(Miner):
        ...     def __call__(self, pairs):
        ...         return pairs.positives, 0.0 * pairs.negatives
        >>> import numpy as np
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> float(ContrastiveLoss(miner=NoNegatives())([0, 1], np.ones((2, 3))))
        0.0
    """

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        raise NotImplementedError


class TripletMiner(Miner):
    """Base of the miners that choose triplets of an anchor, a positive and a negative.

    A subclass implements `chosen(pairs)`. A loss over triplets, such as `TripletLoss` or
    `MarginLoss`, counts exactly these. For any other loss, the weight of a pair is the number of
    chosen triplets that hold it.

    Example:
        >>> class NearNegatives(TripletMiner):
        ...     def chosen(self, pairs):
        ...         is_near = pairs.distances < 1.0
        ...         return lambda columns: is_near
        >>> import numpy as np
        >>> from gsp_tf.losses import TripletLoss
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> round(float(TripletLoss(miner=NearNegatives())([0, 0, 1], embeddings)), 3)
        0.537
    """

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        pairs = copy.copy(pairs)
        pairs.is_triplet = self.chosen(pairs)

        def count(columns, is_active, is_positive, as_positive, as_negative):
            weights = ops.where(is_active, pairs.triplets(columns), 0.0)
            num_triplets = ops.sum(weights, axis=1, keepdims=True)
            return ops.where(is_positive, num_triplets, as_positive), as_negative + weights

        none = ops.zeros_like(pairs.positives)
        return fold_marked(pairs.positives > 0, count, (none, none))

    def chosen(self, pairs: Pairs) -> Callable[[Tensor], Tensor]:
        """Which triplets to keep.

        Args:
            pairs: `Pairs`.

        Returns:
            function of int columns `(A, 1)`, the positive of each anchor, to booleans `(A, R)`:
            whether the anchor, this positive and each negative are such a triplet. What it says of
            pairs that are not negative is not used.
        """
        raise NotImplementedError


@dataclass(eq=False)
class DistanceWeightedMiner(Miner):
    """Draws negatives evenly over their distances, one per positive pair.

    A negative of an anchor is drawn with probability proportional to `1 / q(max(d, cutoff))`. Here
    `q(d) ∝ d^(D-2) (1 - d²/4)^((D-3)/2)` is the density of the distance d between points spread
    evenly on the unit sphere of D dimensions, so d is Euclidean whatever distance the loss has.
    Negatives beyond `nonzero_loss_cutoff` are drawn only if the anchor has no others; then all are
    equally likely. The weight of a negative is the number of times it was drawn. All positives
    stay. "Sampling Matters in Deep Embedding Learning" (ICCV 2017), section 4.

    Args:
        cutoff: smaller distances are replaced by this one.
        nonzero_loss_cutoff: distance beyond which a negative costs nothing anyway.
        seed: integer seed of the draws (XLA draws other ones); `None` for new draws each time.

    Raises:
        ValueError: if the cutoffs are not `0 < cutoff < nonzero_loss_cutoff`.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x = np.array([[1, 0, 0], [0.8, 0.6, 0], [0.6, 0.8, 0], [-1, 0, 0]])
        >>> pairs = Pairs(x, x, np.arange(4) // 2, np.arange(4) // 2, exclude_self=True)
        >>> _, negatives = DistanceWeightedMiner(seed=0)(pairs)
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    cutoff: float = 0.5
    nonzero_loss_cutoff: float = 1.4
    seed: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.cutoff < self.nonzero_loss_cutoff:
            raise ValueError(
                "The cutoffs must be 0 < cutoff < nonzero_loss_cutoff, received "
                f"cutoff={self.cutoff} and nonzero_loss_cutoff={self.nonzero_loss_cutoff}."
            )
        self.seed_generator = keras.random.SeedGenerator(checked_seed(self.seed))

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        probabilities = self.probabilities(pairs)
        cumulated = ops.cumsum(probabilities, axis=1)
        draws = keras.random.uniform(
            ops.shape(cumulated), dtype=cumulated.dtype, seed=self.seed_generator
        )
        draws = draws * cumulated[:, -1:]
        # A draw selects the first negative with a cumulative probability above it.
        drawn_until = weight_below(draws, pairs.positives, cumulated)
        counts = drawn_until - ops.pad(drawn_until[:, :-1], [[0, 0], [1, 0]])
        return pairs.positives, ops.where(probabilities > 0, counts, 0.0)

    def probabilities(self, pairs: Pairs) -> Tensor:
        """Probability `(A, R)` that each negative is drawn for its anchor.

        Rows sum to 1, or to 0 where the anchor has no negative.
        """
        dim, exact = float(pairs.anchors.shape[-1]), pairs.euclidean_distances
        # PyTorch would round numbers to float32.
        nearest, farthest, most = (
            ops.convert_to_tensor(x, exact.dtype)
            for x in (self.cutoff, self.nonzero_loss_cutoff, 1.99)
        )
        distances = ops.clip(exact, nearest, farthest)
        inside = 1.0 - 0.25 * ops.square(ops.minimum(distances, most))
        log_weights = (2.0 - dim) * ops.log(distances) - 0.5 * (dim - 3.0) * ops.log(inside)
        near = pairs.negatives * ops.cast(exact < self.nonzero_loss_cutoff, exact.dtype)
        largest = ops.max(ops.where(near > 0, log_weights, -math.inf), axis=1, keepdims=True)
        weights = near * ops.exp(ops.minimum(log_weights - largest, 0.0))
        some_near = ops.any(near > 0, axis=1, keepdims=True)
        weights = ops.where(some_near, weights, pairs.negatives)
        total = ops.sum(weights, axis=1, keepdims=True)
        return weights / ops.where(total > 0, total, 1.0)


@dataclass(eq=False)
class HardNegativeMiner(Miner):
    """Keeps, for each anchor, as many of its nearest negatives as it has positives.

    At least one negative is kept, and equally near ones are kept together. All positives stay.
    "Novel Optimization Models to Generalize Deep Metric Learning" (Gürbüz, thesis, METU 2022),
    chapter 3. The author's program keeps for every anchor as many as the anchor with the most
    positives has. The loss is the same if all classes in a batch have equally many images, and
    differs otherwise.

    Args:
        common_count: keep as many negatives per anchor as the anchor with the most positives has.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([0, 0, 1, 2])
        >>> _, negatives = HardNegativeMiner()(Pairs(x, x, labels, labels, exclude_self=True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    common_count: bool = False

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        num_nearer = weight_below(pairs.distances, pairs.negatives, pairs.distances)
        num_kept = ops.maximum(ops.sum(pairs.positives, axis=1, keepdims=True), 1.0)
        if self.common_count:
            num_kept = ops.max(num_kept)
        return pairs.positives, ops.where(num_nearer < num_kept, pairs.negatives, 0.0)


@dataclass(eq=False)
class MultiSimilarityMiner(Miner):
    """Keeps negatives nearer than the farthest positive and positives beyond the nearest negative.

    A negative stays if `s_an > min_p s_ap - ε`, a positive if `s_ap < max_n s_an + ε`, with inner
    products s. An anchor without positives keeps no negatives, and vice versa. "Multi-Similarity
    Loss with General Pair Weighting" (CVPR 2019), eqs. 11 and 12.

    Args:
        epsilon: ε, a similarity.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [-1.0, 0.0]])
        >>> pairs = Pairs(x, x, np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]), exclude_self=True)
        >>> MultiSimilarityMiner()(pairs)[1].numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    epsilon: float = 0.1

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        similarities = pairs.similarities
        of_positives = ops.where(pairs.positives > 0, similarities, math.inf)
        of_negatives = ops.where(pairs.negatives > 0, similarities, -math.inf)
        least_positive = ops.min(of_positives, axis=1, keepdims=True)
        most_negative = ops.max(of_negatives, axis=1, keepdims=True)
        return (
            ops.where(similarities < most_negative + self.epsilon, pairs.positives, 0.0),
            ops.where(similarities > least_positive - self.epsilon, pairs.negatives, 0.0),
        )


@dataclass(eq=False)
class NHardMiner(Miner):
    """Keeps, for each anchor, its farthest positives and its nearest negatives, by their ranks.

    Ranks count from 1, the hardest. A range of ranks that begins later leaves out the very hardest
    pairs, which wrong labels make. With a loss over triplets this is `NHardTripletsMiner` of
    OpenMetricLearning. Anchors that keep no positive or no negative keep none. Samples that are
    equally far share the weights of their ranks.

    Args:
        positive_ranks: n >= 1 for the n farthest positives, or the first and last of their ranks.
        negative_ranks: the same for the nearest negatives.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([0, 0, 1, 2])
        >>> pairs = Pairs(x, x, labels, labels, exclude_self=True)
        >>> NHardMiner(1, (2, 2))(pairs)[1].numpy()[0].tolist()
        [0.0, 0.0, 0.0, 1.0]
    """

    positive_ranks: int | Sequence[int] = 1
    negative_ranks: int | Sequence[int] = 1

    def __post_init__(self) -> None:
        ranges = {"positive_ranks": self.positive_ranks, "negative_ranks": self.negative_ranks}
        for name, ranks in ranges.items():
            is_range = isinstance(ranks, Sequence) and len(ranks) == 2
            for rank in ranks if is_range else (ranks,):
                check_sizes(**{name: rank})
            if is_range and ranks[0] > ranks[1]:
                raise ValueError(f"{name} must not decrease, received {ranks!r}.")
            setattr(self, name, tuple(ranks) if is_range else ranks)

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        positives = _ranked(-pairs.distances, pairs.positives, self.positive_ranks)
        negatives = _ranked(pairs.distances, pairs.negatives, self.negative_ranks)
        return _of_complete_anchors(positives, negatives)


def _ranked(values, weights, ranks):
    """Weights `(A, R)` of the pairs whose values have these ranks in their rows, smallest first."""
    first, last = ranks if isinstance(ranks, tuple) else (1, ranks)
    counted = ops.cast(weights > 0, weights.dtype)
    before = weight_below(values, counted, values)
    until = ops.sum(counted, axis=1, keepdims=True) - weight_below(-values, counted, -values)
    kept = ops.minimum(until, last) - ops.maximum(before, first - 1)
    return counted * ops.relu(kept) / ops.maximum(until - before, 1.0)


class SemiHardNegativeMiner(Miner):
    """Counts a negative once for each positive pair in which it is the semi-hard negative.

    For each positive pair, the negative with the smallest `d_an > d_ap` is taken, if there is one.
    The weight of a negative is the number of times it was taken; equally near ones share it. All
    positives stay. "FaceNet" (CVPR 2015), section 3.2. A loss over triplets combines the positives
    and negatives of an anchor freely; use `TripletSemiHardLoss` for the triplets themselves.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [3.0], [2.0], [4.0]]), np.array([0, 0, 1, 2])
        >>> _, negatives = SemiHardNegativeMiner()(Pairs(x, x, labels, labels, exclude_self=True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 0.0, 1.0]
    """

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        is_negative = pairs.negatives > 0
        chosen = smallest_above(pairs.distances, is_negative, pairs.distances)
        return pairs.positives, weight_at(pairs.distances, is_negative, chosen, pairs.positives)


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
        return _of_complete_anchors(positives, negatives)


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


@dataclass(eq=False)
class HDCMiner(Miner):
    """Keeps a share of the positives, the farthest, and of the negatives, the nearest.

    The share is that of all pairs together, whatever their anchor, rounded up to whole pairs. Pairs
    as far as the last one share its weight. "Hard-Aware Deeply Cascaded Embedding" (Yuan, Yang,
    Zhang, ICCV 2017), for one level of its cascade.

    Args:
        share: share of the pairs to keep, above 0 and at most 1.

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
        wide = available("float64")
        # 0.55 of 20 pairs is a little more than 11 in floating point. A scheduled share is float32.
        precision = wide if isinstance(self.share, int | float) else "float32"
        exactly = 1.0 - 4.0 * float(np.finfo(precision).eps)
        share = exactly * ops.convert_to_tensor(self.share, wide)
        num_kept = ops.ceil(share * ops.cast(size, wide))
        values = ops.where(counted, values, math.inf)
        ordered = ops.sort(ops.reshape(values, (-1,)))
        last = ops.take(ordered, ops.maximum(ops.cast(num_kept, "int32") - 1, 0))
        first = ops.cast(ops.logical_and(counted, values < last), weights.dtype)
        equal = ops.cast(ops.logical_and(counted, values == last), weights.dtype)
        left = ops.cast(num_kept, weights.dtype) - ops.sum(first)
        return first + equal * left / ops.maximum(ops.sum(equal), 1.0)


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


@dataclass(eq=False)
class UniformHistogramMiner(Miner):
    """Weighs pairs so that all distances count alike, however many pairs have them.

    The range from the smallest to the largest distance of the positives is cut into bins. The pairs
    of a bin that is not empty share the weight `positives_per_bin`. The same holds for the
    negatives and their range. pytorch-metric-learning instead draws that many pairs of each bin,
    with replacement: these weights are how often it draws each pair on average.

    Args:
        num_bins: number of bins.
        positives_per_bin: weight of a bin of positives, above 0.
        negatives_per_bin: weight of a bin of negatives, above 0.

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
        check_sizes(num_bins=self.num_bins)
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


def _of_complete_anchors(positives, negatives):
    """The weights of anchors that keep both a positive and a negative."""
    complete = ops.logical_and(
        *(ops.any(weights > 0, axis=1, keepdims=True) for weights in (positives, negatives))
    )
    return ops.where(complete, positives, 0.0), ops.where(complete, negatives, 0.0)


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
    """Distance `(A, 1)` of the chosen samples of each row; -infinity where there are none."""
    return ops.max(ops.where(weights > 0, distances, -math.inf), axis=1, keepdims=True)


@dataclass(eq=False)
class AngularMiner(TripletMiner):
    """Keeps the triplets whose negative sees the positive pair under a wide angle.

    A triplet stays if `atan(‖x_a - x_p‖ / (2 ‖x_n - c‖)) > α`, with the middle c of anchor and
    positive: the angle of "Deep Metric Learning with Angular Loss" (ICCV 2017), section 3.2. It
    needs the distances between all references, which it takes to be Euclidean.

    Args:
        angle: α, in degrees, between 0 and 90.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([0, 0, 1, 2])
        >>> _, negatives = AngularMiner(15.0)(Pairs(x, x, labels, labels, exclude_self=True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    angle: float = 20.0

    def __post_init__(self) -> None:
        if not 0 < self.angle < 90:
            raise ValueError(f"angle must lie between 0 and 90 degrees, received {self.angle}.")

    def chosen(self, pairs: Pairs) -> Callable[[Tensor], Tensor]:
        others = ops.square(pairs.euclidean_distances)
        is_batch = pairs.references is pairs.anchors
        between = others if is_batch else pairwise_distances(pairs.references, squared=True)
        square_tangent = elementary("tan", self.angle * (math.pi / 180.0)) ** 2

        def is_wide(columns):
            own = ops.take_along_axis(others, columns, axis=1)
            to_positive = ops.take(between, columns[:, 0], axis=0)
            to_center = 0.5 * (others + to_positive) - 0.25 * own  # the square of a median
            return own > 4.0 * square_tangent * to_center

        return is_wide


@dataclass(eq=False)
class TripletMarginMiner(TripletMiner):
    """Keeps the triplets that violate a margin, or do not.

    With `v = d_an - d_ap`: "all" triplets that violate the margin m have `v <= m`. The "hard" ones
    of them have `v <= 0`, the "semi_hard" ones `v > 0`. The "easy" triplets have `v > m`. "FaceNet"
    (Schroff, Kalenichenko, Philbin, CVPR 2015), section 3.2, names them.

    Args:
        margin: m, a distance.
        triplets: "all", "hard", "semi_hard" or "easy".

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [1.5], [5.0]]), np.array([0, 0, 1, 2])
        >>> _, negatives = TripletMarginMiner(0.6)(Pairs(x, x, labels, labels, exclude_self=True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    margin: float = 0.2
    triplets: Triplets = "all"

    def __post_init__(self) -> None:
        check_choice("triplets", self.triplets, Triplets)

    def chosen(self, pairs: Pairs) -> Callable[[Tensor], Tensor]:
        distances = pairs.distances

        def matches(columns):
            lead = distances - ops.take_along_axis(distances, columns, axis=1)
            violates = lead <= self.margin
            if self.triplets == "easy":
                return ops.logical_not(violates)
            if self.triplets == "hard":
                return ops.logical_and(violates, lead <= 0)
            if self.triplets == "semi_hard":
                return ops.logical_and(violates, lead > 0)
            return violates

        return matches
