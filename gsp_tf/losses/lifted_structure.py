"""Lifted structured loss (Oh Song et al., CVPR 2016)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf.losses._log_sums import log_sum_exp
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class LiftedStructureLoss(PairLoss):
    """Compares every positive pair with all negatives of both its samples.

    `mean over positives of (1/2) [ d_ij + log( Σ_{k negative of i} exp(m - d_ik) + Σ_{l negative of
    j} exp(m - d_jl) ) ]_+^2` with Euclidean distances d. "Deep Metric Learning via Lifted
    Structured Feature Embedding" (CVPR 2016), eq. 4; equal to `tfa.losses.LiftedStructLoss`. A pair
    without any negative costs 0.

    With a miner, the positives are the mined pairs, and the negatives of i and of j are those mined
    for i and for j. A weight multiplies the term of its pair. Nothing is mined for a reference
    outside the batch, such as one in a memory, because it is not an anchor. Its negatives are the
    anchors that have it among their negatives.

    Args:
        margin: m, a distance.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(LiftedStructureLoss()([0, 0, 1], embeddings)), 3)
        2.301
    """

    margin: float = 1.0
    distance: Distance | DistanceName | None = None

    def terms(self, pairs: Pairs) -> Terms:
        exponents = self.margin - pairs.distances
        of_anchor, anchor_has = self._negatives_of(exponents, pairs.negatives, axis=1)
        if pairs.references is pairs.anchors:
            of_reference, reference_has = of_anchor, anchor_has
        else:
            of_reference, reference_has = self._negatives_of(exponents, pairs.negatives, axis=0)
        of_anchor, anchor_has = of_anchor[:, None], anchor_has[:, None]
        repulsion = ops.where(
            ops.logical_and(anchor_has, reference_has),
            ops.logaddexp(of_anchor, of_reference),
            of_anchor + of_reference,
        )
        terms = ops.where(
            ops.logical_or(anchor_has, reference_has), ops.relu(pairs.distances + repulsion), 0.0
        )
        yield 0.5 * ops.square(terms), pairs.positives

    def _negatives_of(self, exponents, negatives, axis):
        """Log of the sum over the negatives along an axis, and whether there are any."""
        return log_sum_exp(exponents, negatives, axis), ops.any(negatives > 0, axis=axis)
