"""Multi-similarity loss (Wang et al., CVPR 2019)."""

from dataclasses import dataclass

from gsp_tf._arguments import check_positive
from gsp_tf.losses._log_sums import log1p_sum_exp
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class MultiSimilarityLoss(PairLoss):
    """Weighs every pair by its similarity and by those of its anchor's other pairs (MS).

    `mean_i ( (1/α) log(1 + Σ_positives exp(-α (s_ij - λ))) + (1/β) log(1 + Σ_negatives
    exp(β (s_ij - λ))) )` with cosine similarities s. "Multi-Similarity Loss with General Pair
    Weighting for Deep Metric Learning" (CVPR 2019), eq. 15; its mining (eqs. 11, 12) is
    `MultiSimilarityMiner`.

    Args:
        alpha: α > 0, scale of the positives.
        beta: β > 0, scale of the negatives.
        base: λ, the similarity at which the exponents are 0.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(MultiSimilarityLoss()([0, 0, 1], embeddings)), 3)
        0.606
    """

    takes_grades = True

    alpha: float = 2.0
    beta: float = 50.0
    base: float = 0.5
    distance: Distance | DistanceName | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(alpha=self.alpha, beta=self.beta)

    def terms(self, pairs: Pairs) -> Terms:
        shifted = pairs.similarities - self.base
        attraction = log1p_sum_exp(-self.alpha * shifted, pairs.positives) / self.alpha
        repulsion = log1p_sum_exp(self.beta * shifted, pairs.negatives) / self.beta
        yield attraction + repulsion, pairs.every_anchor
