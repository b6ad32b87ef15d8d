"""Contrastive loss on cosine similarities (C1 in the CCP thesis; the pair loss of XBM)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms


@dataclass(eq=False, repr=False)
class CosineContrastiveLoss(PairLoss):
    """Pulls positives together and pushes negatives below a cosine similarity (C1).

    `(1/A) Σ_i ( Σ_positives [1 - s_ij]_+ + Σ_negatives [s_ij - m]_+ )` with cosine similarities s
    and A anchors. "Cross-Batch Memory for Embedding Learning" (Wang et al., CVPR 2020), section 3.
    Eq. 3.1 of the GSP paper takes the mean over all pairs of a batch, which is 1/A of this loss.

    Args:
        margin: m, similarity below which a negative pair costs nothing.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(CosineContrastiveLoss()([0, 0, 1], embeddings)), 3)
        0.773
    """

    takes_grades = True

    margin: float = 0.5

    @property
    def sums_over_references(self):
        """As in `PairLoss`; terms of whole anchors cannot be chosen in parts."""
        return self.reducer.name != "nonzero_mean" and self.reducer.thresholds is None

    def terms(self, pairs: Pairs) -> Terms:
        attraction = pairs.positives * ops.relu(1.0 - pairs.similarities)
        repulsion = pairs.negatives * ops.relu(pairs.similarities - self.margin)
        yield ops.sum(attraction + repulsion, axis=1), pairs.every_anchor
