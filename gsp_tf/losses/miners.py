"""Miners: which pairs a loss counts, and how often."""

from collections.abc import Sequence
from dataclasses import dataclass

import keras
from keras import ops

from gsp_tf._integers import checked_seed
from gsp_tf._typing import Tensor
from gsp_tf.losses._pairs import Miner, Pairs
from gsp_tf.losses._rows import smallest_above, weight_at, weight_below


@keras.saving.register_keras_serializable("gsp_tf")
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
        """Probability that each negative is drawn for its anchor.

        Args:
            pairs: `Pairs`.

        Returns:
            tensor `(A, R)`. Its rows sum to 1, or to 0 where the anchor has no negative.
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
        lowest = ops.min(log_weights, axis=1, keepdims=True)
        largest = ops.max(ops.where(near > 0, log_weights, lowest), axis=1, keepdims=True)
        weights = near * ops.exp(ops.minimum(log_weights - largest, 0.0))
        some_near = ops.any(near > 0, axis=1, keepdims=True)
        weights = ops.where(some_near, weights, pairs.negatives)
        total = ops.sum(weights, axis=1, keepdims=True)
        return weights / ops.where(total > 0, total, 1.0)


@keras.saving.register_keras_serializable("gsp_tf")
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


@keras.saving.register_keras_serializable("gsp_tf")
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
        is_positive, is_negative = pairs.positives > 0, pairs.negatives > 0
        highest = ops.max(similarities, axis=1, keepdims=True)
        lowest = ops.min(similarities, axis=1, keepdims=True)
        least_positive = ops.min(ops.where(is_positive, similarities, highest), axis=1)[:, None]
        most_negative = ops.max(ops.where(is_negative, similarities, lowest), axis=1)[:, None]
        hard_negative = ops.logical_and(
            similarities > least_positive - self.epsilon, ops.any(is_positive, axis=1)[:, None]
        )
        hard_positive = ops.logical_and(
            similarities < most_negative + self.epsilon, ops.any(is_negative, axis=1)[:, None]
        )
        return (
            ops.where(hard_positive, pairs.positives, 0.0),
            ops.where(hard_negative, pairs.negatives, 0.0),
        )


@keras.saving.register_keras_serializable("gsp_tf")
@dataclass(eq=False)
class NHardMiner(Miner):
    """Keeps, for each anchor, its farthest positives and its nearest negatives, by their ranks.

    Ranks count from 1, the hardest. A range of ranks that begins later leaves out the very hardest
    pairs, which wrong labels make. With a loss over triplets this is `NHardTripletsMiner` of
    OpenMetricLearning. Anchors that keep no positive or no negative keep none. Samples that are
    equally far share the weights of their ranks.

    Args:
        positive_ranks: n for the n farthest positives, or the first and last of their ranks.
        negative_ranks: the same for the nearest negatives.

    Raises:
        ValueError: if these are not a number of at least 1, or two that do not decrease.

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
            first, *last = (1, ranks) if isinstance(ranks, int) else ranks
            if len(last) != 1 or not 1 <= first <= last[0]:
                raise ValueError(
                    f"{name} must be a number of at least 1, or a first and a last rank, received "
                    f"{ranks!r}."
                )
            setattr(self, name, ranks if isinstance(ranks, int) else (first, *last))

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        positives = _ranked(-pairs.distances, pairs.positives, self.positive_ranks)
        negatives = _ranked(pairs.distances, pairs.negatives, self.negative_ranks)
        complete = ops.logical_and(
            *(ops.any(weights > 0, axis=1, keepdims=True) for weights in (positives, negatives))
        )
        return ops.where(complete, positives, 0.0), ops.where(complete, negatives, 0.0)


def _ranked(values, weights, ranks):
    """Weights `(A, R)` of the pairs whose values have these ranks in their rows, smallest first."""
    first, last = (1, ranks) if isinstance(ranks, int) else ranks
    counted = ops.cast(weights > 0, weights.dtype)
    before = weight_below(values, counted, values)
    until = ops.sum(counted, axis=1, keepdims=True) - weight_below(-values, counted, -values)
    kept = ops.minimum(until, last) - ops.maximum(before, first - 1)
    return counted * ops.relu(kept) / ops.maximum(until - before, 1.0)


@keras.saving.register_keras_serializable("gsp_tf")
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
