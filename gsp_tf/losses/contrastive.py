"""Contrastive loss with two margins (Hadsell et al. 2006; C2 in the GSP and CCP papers)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class ContrastiveLoss(PairLoss):
    """Pulls positives within one margin and pushes negatives beyond another (C2).

    `mean [d_ij - m_p]_+ over positives + mean [m_n - d_ij]_+ over negatives`, with Euclidean
    distances d between L2-normalised embeddings. Each mean runs over its non-zero terms and is 0 if
    there are none. "Dimensionality Reduction by Learning an Invariant Mapping" (Hadsell, Chopra,
    LeCun, CVPR 2006) with the positive margin and the means of Musgrave et al. (2020). The terms
    are those of the thesis, eq. 2.1.1 with m_n = ε, and those of the generalised contrastive loss
    (eqs. 2.1.3 and 3.2.2, Lemma 3.2.1) with m_p = β - α and m_n = β + α. For A-grouping (Xu et
    al.), eq. 1 and Table 1, use `positive_margin=0.0, negative_margin=1.0`, and
    `mean_over_pairs=True` for its eq. 14.

    Args:
        positive_margin: m_p, distance below which a positive pair costs nothing.
        negative_margin: m_n, distance above which a negative pair costs nothing.
        mean_over_pairs: one mean over all pairs, including those that cost nothing.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> loss = ContrastiveLoss(positive_margin=0.0, negative_margin=0.5)
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(loss([0, 0, 1], embeddings)), 3)
        0.894
    """

    takes_grades = True

    positive_margin: float = 0.0
    negative_margin: float = 0.5
    mean_over_pairs: bool = False
    distance: Distance | DistanceName | None = None

    @property
    def default_reduction(self):
        """One mean over all pairs, or one over those of each kind that cost something."""
        return "mean" if self.mean_over_pairs else "nonzero_mean"

    def terms(self, pairs: Pairs) -> Terms:
        attraction = ops.relu(pairs.distances - self.positive_margin)
        repulsion = ops.relu(self.negative_margin - pairs.distances)
        if self.mean_over_pairs:
            terms = pairs.mixed(attraction, repulsion)
            yield terms, pairs.positives + pairs.negatives
        else:
            yield attraction, pairs.positives
            yield repulsion, pairs.negatives
