"""Batch-hard triplet loss (Hermans, Beyer, Leibe 2017)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._backend import softplus
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class TripletHardLoss(PairLoss):
    """Triplet loss of every anchor with its farthest positive and its nearest negative.

    `mean_a [m + max_p d_ap - min_n d_an]_+` over the anchors that have a positive and a negative.
    "In Defense of the Triplet Loss for Person Re-Identification" (2017), eq. 5. With
    `normalize=False` it equals `tfa.losses.TripletHardLoss`, except that Addons counts an anchor
    without a positive as if it had one at distance 0.

    Args:
        margin: m, in units of the distance.
        distance: "euclidean", "squared_euclidean", "angular", 1 minus the cosine similarity, or
            another one of `PairLoss`.
        soft: `log(1 + exp(max_p d_ap - min_n d_an))` instead of the hinge, without a margin.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(TripletHardLoss()([0, 0, 1], embeddings)), 3)
        0.053
    """

    margin: float = 1.0
    distance: Distance | DistanceName | None = "euclidean"
    soft: bool = False

    def terms(self, pairs: Pairs) -> Terms:
        distances = pairs.distances
        is_positive, is_negative = pairs.positives > 0, pairs.negatives > 0
        farthest = ops.max(ops.where(is_positive, distances, -float("inf")), axis=1)
        nearest = ops.min(ops.where(is_negative, distances, float("inf")), axis=1)
        complete = ops.logical_and(ops.any(is_positive, axis=1), ops.any(is_negative, axis=1))
        violation = ops.where(complete, farthest - nearest, 0.0)
        terms = softplus(violation) if self.soft else ops.relu(self.margin + violation)
        yield terms, complete
