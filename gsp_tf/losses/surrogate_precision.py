"""Surrogate of the precision among the first k neighbours (OpenMetricLearning)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._arguments import check_positive, check_sizes
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses._rows import soft_counts_above
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class SurrogatePrecisionLoss(PairLoss):
    """One minus the precision among the first k of each anchor's ranking, made smooth.

    `1 - mean_i Σ_{j in P_i} sigmoid((k + 1/2 - r_ij) / τ_1) / min(k, |P_i|)` over the anchors that
    have a positive, with the soft rank `r_ij = 1 + Σ_{l≠j} sigmoid((d_ij - d_il) / τ_2)` and
    Euclidean distances d. This is `SurrogatePrecision` of OpenMetricLearning, after "Recall@k
    Surrogate Loss with Large Batches and Similarity Mixup" (CVPR 2022). `RecallAtKLoss` differs in
    the half, in cosine similarities, in the bound k of the sum, and in its mean over several k.

    In OpenMetricLearning the anchor takes part in its own ranking, as a positive, and k is raised
    by 1. `counts_query=True` does the same within a batch. There, anchors without a positive count
    too.

    Args:
        k: k, number of neighbours.
        rank_temperature: τ_2 > 0, a distance.
        precision_temperature: τ_1 > 0, a rank.
        counts_query: rank the anchor itself among the samples of its batch.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(SurrogatePrecisionLoss(1)([0, 0, 1], embeddings)), 3)
        0.622
    """

    k: int = 4
    rank_temperature: float = 0.01
    precision_temperature: float = 1.0
    counts_query: bool = False
    distance: Distance | DistanceName | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(k=self.k)
        check_positive(
            rank_temperature=self.rank_temperature, precision_temperature=self.precision_temperature
        )

    def terms(self, pairs: Pairs) -> Terms:
        own, k = pairs.positives, self.k
        if self.counts_query and pairs.references is pairs.anchors:
            own, k = pairs.with_itself, self.k + 1
        (before,) = soft_counts_above(
            -pairs.distances, own > 0, (own + pairs.negatives,), self.rank_temperature
        )
        within = ops.sigmoid((k - 0.5 - before) / self.precision_temperature)
        found = ops.sum(own * within, axis=1)
        precision = found / ops.clip(ops.sum(own, axis=1), 1e-9, k)
        yield 1.0 - precision, ops.any(pairs.positives > 0, axis=1)
