"""Neighbourhood components analysis (Goldberger et al., NeurIPS 2004)."""

from dataclasses import dataclass

from gsp_tf._arguments import check_positive
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName
from gsp_tf.losses.soft_nearest_neighbor import neighbor_terms


@dataclass(eq=False, repr=False)
class NCALoss(PairLoss):
    """Log-likelihood of drawing a neighbour of one's own class by squared distance (NCA).

    `mean_i -log( Σ_positives exp(-σ d_ij²) / Σ_{j≠i} exp(-σ d_ij²) )` over the anchors that have a
    positive, with Euclidean distances d. "Neighbourhood Components Analysis" (NeurIPS 2004),
    section 2, the form with logarithms, whose distances are those of the network's embeddings. It
    is `SoftNearestNeighborLoss` at a temperature of 1 / σ.

    Args:
        scale: σ > 0.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(NCALoss()([0, 0, 1], embeddings)), 3)
        0.063
    """

    takes_grades = True

    scale: float = 1.0
    distance: Distance | DistanceName | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(scale=self.scale)

    def terms(self, pairs: Pairs) -> Terms:
        yield neighbor_terms(-self.scale * pairs.squared_distances, pairs)
