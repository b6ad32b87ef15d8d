"""N-pairs loss (Sohn, NIPS 2016)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._backend import argmax
from gsp_tf.losses._log_sums import log_sum_exp
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses._rows import first_equals
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class NPairsLoss(PairLoss):
    """Cross-entropy of one positive of each class among the positives of all classes.

    `mean_i log( Σ_j exp(s_ij) ) - s_ii` with inner products s between the anchor of class i and the
    positive of class j. These are the first two samples of each class in a batch, or the first
    anchor and the first reference of each class; other samples are not used. "Improved Deep Metric
    Learning with Multi-class N-pair Loss Objective" (NIPS 2016), eq. 7. Classes with one sample are
    left out. The paper bounds the norms of the embeddings; here they are normalised unless
    `normalize=False`.

    Args:
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]
        >>> round(float(NPairsLoss(normalize=False)([0, 0, 1, 1], embeddings)), 3)
        0.088
    """

    distance: Distance | DistanceName | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relation != "equal":
            raise ValueError(f"NPairsLoss needs classes, received relation={self.relation!r}.")

    def terms(self, pairs: Pairs) -> Terms:
        labels = pairs.anchor_labels
        _, is_first = first_equals(labels[:, None] == labels[None, :])
        is_positive = pairs.positives > 0
        is_anchor = ops.logical_and(is_first, ops.any(is_positive, axis=1))
        chosen = argmax(ops.cast(is_positive, "int32"))
        own = chosen[:, None] == ops.arange(ops.shape(is_positive)[1], dtype="int32")
        own = ops.logical_and(own, is_anchor[:, None])
        shown = ops.any(own, axis=0)[None, :]
        weights = ops.where(own, 1.0, ops.where(shown, pairs.negatives, 0.0))
        own_similarity = ops.sum(ops.where(own, pairs.similarities, 0.0), axis=1)
        yield log_sum_exp(pairs.similarities, weights) - own_similarity, is_anchor
