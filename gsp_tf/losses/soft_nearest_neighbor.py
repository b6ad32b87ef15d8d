"""Soft nearest neighbour loss (Salakhutdinov and Hinton 2007; Frosst et al., ICML 2019)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf._typing import Tensor
from gsp_tf.losses._log_sums import log_sum_exp
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class SoftNearestNeighborLoss(PairLoss):
    """Cross-entropy of drawing a neighbour of one's own class, near ones most likely.

    `mean_i -log( Σ_positives exp(-d_ij / T) / Σ_{j≠i} exp(-d_ij / T) )` over the anchors that have
    a positive. "Analyzing and Improving Representations with the Soft Nearest Neighbor Loss" (ICML
    2019), eq. 1, with squared Euclidean distances d.

    Args:
        temperature: T > 0, in units of the distance.
        distance: one of `PairLoss`; `None` is "squared_euclidean".

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(SoftNearestNeighborLoss()([0, 0, 1], embeddings)), 3)
        0.063
    """

    takes_grades = True

    temperature: float = 1.0
    distance: Distance | DistanceName | None = "squared_euclidean"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(temperature=self.temperature)

    def terms(self, pairs: Pairs) -> Terms:
        yield neighbor_terms(-pairs.squared_distances / self.temperature, pairs)


def neighbor_terms(logits: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Terms `log Σ_j exp(z_ij) - log Σ_positives exp(z_ij)` of logits z, and their weights."""
    among_own = log_sum_exp(logits, pairs.positives)
    among_all = log_sum_exp(logits, pairs.positives + pairs.negatives)
    return among_all - among_own, ops.any(pairs.positives > 0, axis=1)
