"""Triplet margin loss over all triplets (Weinberger and Saul 2009; Schroff et al. 2015)."""

import keras
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._pairs import Miner, PairLoss, Pairs
from gsp_tf.losses._rows import fold_marked


@keras.saving.register_keras_serializable("gsp_tf")
class TripletLoss(PairLoss):
    """Requires every positive to be nearer to the anchor than every negative, by a margin.

    `[d_ap - d_an + m]_+` over all triplets of an anchor, a positive and a negative, averaged over
    the terms that are not 0, with Euclidean distances d between L2-normalised embeddings. "FaceNet:
    A Unified Embedding for Face Recognition and Clustering" (Schroff, Kalenichenko, Philbin, CVPR
    2015), eq. 3, with distances that are not squared (Musgrave et al. 2020; thesis, eq. 2.1.2).

    The B^3 terms are never held together. A term that is not 0 is linear, so the sum follows from
    the number of triplets in which each pair is active. The count takes one positive per anchor at
    a time, and costs B^2 comparisons for each positive of an anchor. With a miner, the weight of a
    triplet is the product of the weights of its two pairs.

    Args:
        margin: m, a distance.
        normalize, miner, name: as in `PairLoss`.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> round(float(TripletLoss()(np.array([0, 0, 1]), embeddings)), 3)
        0.537
    """

    def __init__(
        self,
        margin: float = 0.1,
        normalize: bool = True,
        miner: Miner | None = None,
        name: str = "triplet_loss",
    ) -> None:
        super().__init__(normalize, miner, name)
        self.margin = margin

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        distances, positives, negatives = pairs.distances, pairs.positives, pairs.negatives
        fixed, reach = ops.stop_gradient(distances), distances + self.margin
        fixed_reach = ops.stop_gradient(reach)

        def count(columns, is_positive, as_positive, as_negative):
            limit, weight = (
                ops.take_along_axis(x, columns, axis=1) for x in (fixed_reach, positives)
            )
            active = ops.where(fixed < limit, negatives, 0.0)
            weight = ops.where(ops.any(is_positive, axis=1, keepdims=True), weight, 0.0)
            num_active = weight * ops.sum(active, axis=1, keepdims=True)
            as_positive = ops.where(is_positive, num_active, as_positive)
            return as_positive, as_negative + weight * active

        none = ops.zeros_like(positives)
        as_positive, as_negative = fold_marked(positives > 0, count, (none, none))
        num_active = ops.sum(ops.sum(as_positive, axis=1))
        total = ops.sum(ops.sum(as_positive * reach - as_negative * distances, axis=1))
        return total / ops.where(num_active > 0, num_active, 1.0)
