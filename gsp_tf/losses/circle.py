"""Circle loss (Sun et al., CVPR 2020)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._backend import softplus
from gsp_tf.losses._log_sums import log_sum_exp
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms


@dataclass(eq=False, repr=False)
class CircleLoss(PairLoss):
    """Weighs every similarity by its distance from the optimum.

    `mean_i log(1 + Σ_negatives exp(γ α_n (s_n - m)) · Σ_positives exp(-γ α_p (s_p - 1 + m)))` with
    cosine similarities s, `α_p = [1 + m - s_p]_+`, `α_n = [s_n + m]_+` without gradient. The mean
    runs over the anchors that have a positive and a negative. "Circle Loss: A Unified Perspective
    of Pair Similarity Optimization" (CVPR 2020), eqs. 4, 6 and 8.

    Args:
        margin: m, relaxation of the optimum.
        scale: γ, scale of the similarities.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(CircleLoss(scale=2.0)([0, 0, 1], embeddings)), 3)
        0.693
    """

    takes_grades = True

    margin: float = 0.4
    scale: float = 80.0

    def terms(self, pairs: Pairs) -> Terms:
        similarities = pairs.similarities
        positive_factors = ops.stop_gradient(ops.relu(1.0 + self.margin - similarities))
        negative_factors = ops.stop_gradient(ops.relu(similarities + self.margin))
        positive = log_sum_exp(
            -self.scale * positive_factors * (similarities - 1.0 + self.margin), pairs.positives
        )
        negative = log_sum_exp(
            self.scale * negative_factors * (similarities - self.margin), pairs.negatives
        )
        complete = ops.logical_and(
            ops.any(pairs.positives > 0, axis=1), ops.any(pairs.negatives > 0, axis=1)
        )
        yield softplus(positive + negative), complete
