"""Smooth-AP loss (Brown et al., ECCV 2020)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses._rows import soft_counts_above


@dataclass(eq=False, repr=False)
class SmoothAPLoss(PairLoss):
    """One minus the average precision of each anchor's ranking, from sigmoids of differences.

    `1 - mean_i (1 / |P_i|) Σ_{j in P_i} R(j, P_i) / R(j, all)` over the anchors that have a
    positive, with the soft rank `R(j, S) = 1 + Σ_{k in S, k≠j} sigmoid((s_ik - s_ij) / τ)` and
    cosine similarities s. "Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval" (ECCV
    2020). As in the authors' program, the anchor itself is one of its positives in a batch.

    Args:
        temperature: τ > 0, a similarity.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(SmoothAPLoss()([0, 0, 1], embeddings)), 3)
        0.171
    """

    temperature: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(temperature=self.temperature)

    def terms(self, pairs: Pairs) -> Terms:
        own = pairs.with_itself
        among_own, among_others = soft_counts_above(
            pairs.similarities, own > 0, (own, pairs.negatives), self.temperature
        )
        lost = among_others / (1.0 + among_own + among_others)
        of_anchor = ops.sum(own * lost, axis=1) / ops.maximum(ops.sum(own, axis=1), 1e-9)
        yield of_anchor, ops.any(pairs.positives > 0, axis=1)
