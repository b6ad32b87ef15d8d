"""Triplet loss with semi-hard negatives (Schroff et al., CVPR 2015)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs
from gsp_tf.losses._rows import fold_marked
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class TripletSemiHardLoss(PairLoss):
    """Triplet loss of every positive pair with the nearest negative beyond the positive.

    `mean_ap [m + d_ap - d_an]_+` over all positive pairs, including those that cost 0. The negative
    n is the one with the smallest `d_an > d_ap`, or the farthest if none lies beyond the positive.
    Anchors without a negative cost nothing. "FaceNet" (Schroff, Kalenichenko, Philbin, CVPR 2015),
    section 3.2. With `normalize=False` it equals `tfa.losses.TripletSemiHardLoss`.

    Args:
        margin: m, in units of the distance.
        distance: "euclidean", "squared_euclidean", "angular", 1 minus the cosine similarity, or
            another one of `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(TripletSemiHardLoss()([0, 0, 1], embeddings)), 3)
        0.053
    """

    margin: float = 1.0
    distance: Distance | DistanceName | None = "euclidean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reducer.name == "none":
            raise ValueError("TripletSemiHardLoss takes no reduction='none'.")

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        distances = pairs.distances
        is_negative = pairs.negatives > 0
        has_negative = ops.any(is_negative, axis=1, keepdims=True)
        positives = ops.where(has_negative, pairs.positives, 0.0)
        fixed = ops.stop_gradient(distances)
        farthest = ops.max(ops.where(is_negative, fixed, -float("inf")), axis=1, keepdims=True)

        def choose(columns, is_active, is_positive, count, as_positive, as_negative):
            own, weight = (ops.take_along_axis(x, columns, axis=1) for x in (fixed, positives))
            lies_beyond = ops.logical_and(is_negative, fixed > own)
            beyond = ops.where(lies_beyond, fixed, float("inf"))
            chosen = ops.min(beyond, axis=1, keepdims=True)
            chosen = ops.where(chosen < float("inf"), chosen, farthest)
            weight = ops.where(is_active, weight, 0.0)
            costs = ops.relu(self.margin + own - chosen)
            weight = self.reducer.counted(costs, weight)
            count = count + weight
            weight = ops.where(costs > 0, weight, 0.0)
            equal = ops.cast(ops.logical_and(is_negative, fixed == chosen), weight.dtype)
            num_equal = ops.maximum(ops.sum(equal, axis=1, keepdims=True), 1.0)
            as_positive = ops.where(is_positive, weight, as_positive)
            return count, as_positive, as_negative + weight / num_equal * equal

        # Terms that are not 0 are linear, so the sum needs only how many of them contain each pair.
        none = ops.zeros_like(positives)
        count, as_positive, as_negative = fold_marked(
            positives > 0, choose, (none[:, :1], none, none)
        )
        terms = as_positive * (self.margin + distances) - as_negative * distances
        sums = ops.sum(terms, axis=1)
        if self.reducer.class_weights is not None:
            sums = sums * self.reducer.class_factors(pairs.anchor_labels, sums.dtype)
        return self.reducer.of_anchors(sums, count[:, 0], pairs.every_anchor)
