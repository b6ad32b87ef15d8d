"""Threshold-consistent margin loss (Zhang et al., ICLR 2024)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms


@dataclass(eq=False, repr=False)
class ThresholdConsistentMarginLoss(PairLoss):
    """Keeps hard pairs beyond two thresholds that all classes share (TCM).

    `λ_p mean [m_p - s_p] over the positives with s_p <= m_p, + λ_n mean [s_n - m_n] over the
    negatives with s_n >= m_n`, with cosine similarities s. "Threshold-Consistent Margin Loss for
    Open-World Deep Metric Learning" (ICLR 2024), a regulariser to add to another loss, as
    `WeightedSumLoss` does.

    Args:
        positive_margin: m_p, a similarity.
        negative_margin: m_n, a similarity.
        positive_weight: λ_p.
        negative_weight: λ_n.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> loss = ThresholdConsistentMarginLoss()
        >>> round(float(loss([0, 0, 1], embeddings)), 3)
        0.68
    """

    takes_grades = True

    positive_margin: float = 0.9
    negative_margin: float = 0.5
    positive_weight: float = 1.0
    negative_weight: float = 1.0

    def terms(self, pairs: Pairs) -> Terms:
        lack = self.positive_margin - pairs.similarities
        excess = pairs.similarities - self.negative_margin
        yield self.positive_weight * lack, ops.where(lack >= 0, pairs.positives, 0.0)
        yield self.negative_weight * excess, ops.where(excess >= 0, pairs.negatives, 0.0)
