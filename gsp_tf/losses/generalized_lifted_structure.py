"""Generalised lifted structure loss (Hermans, Beyer, Leibe 2017)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf.losses._log_sums import log_sum_exp
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class GeneralizedLiftedStructureLoss(PairLoss):
    """Compares a soft maximum of an anchor's positives with a soft minimum of its negatives.

    `mean_i [ log Σ_positives exp(d_ij - m_p) + log Σ_negatives exp(m - d_ij) ]_+` with Euclidean
    distances d. "In Defense of the Triplet Loss for Person Re-Identification" (2017), section 2. An
    empty sum counts as 0, as in pytorch-metric-learning.

    Args:
        margin: m, a distance, of the negatives.
        positive_margin: m_p, a distance, of the positives.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(GeneralizedLiftedStructureLoss()([0, 0, 1], embeddings)), 3)
        1.375
    """

    takes_grades = True

    margin: float = 1.0
    positive_margin: float = 0.0
    distance: Distance | DistanceName | None = None

    def terms(self, pairs: Pairs) -> Terms:
        distances = pairs.distances
        attraction = log_sum_exp(distances - self.positive_margin, pairs.positives)
        repulsion = log_sum_exp(self.margin - distances, pairs.negatives)
        yield ops.relu(attraction + repulsion), pairs.every_anchor
