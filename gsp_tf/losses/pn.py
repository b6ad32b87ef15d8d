"""PN loss: triplets whose negative is far from anchor and positive (Szubert et al. 2019)."""

from dataclasses import dataclass
from typing import Literal

from keras import ops

from gsp_tf._arguments import check_choice
from gsp_tf._backend import argmax, softplus
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName, Euclidean

Positive = Literal["hard", "easy"]
Negative = Literal["hard", "semi_hard", "easy"]


@dataclass(eq=False, repr=False)
class PNLoss(PairLoss):
    """One triplet per anchor, whose negative must be far from the anchor and from the positive.

    `mean_a [m + d_ap - min(d_an, d_pn)]_+` over the anchors that have a positive and a negative.
    "Structure-Preserving Visualisation of High Dimensional Single-Cell Datasets" (Scientific
    Reports 9, 2019), and TensorFlow Similarity. The positive is the farthest ("hard") or the
    nearest ("easy"). The negative is the nearest ("hard"), the farthest ("easy"), or the nearest
    beyond the farthest positive ("semi_hard"), and the farthest if there is none.

    Args:
        margin: m, in units of the distance.
        positive: which positive of an anchor.
        negative: which negative of an anchor.
        distance: "euclidean", "squared_euclidean", "angular", 1 minus the cosine similarity, or
            another one of `PairLoss`.
        soft: `log(1 + exp(d_ap - min(d_an, d_pn)))` instead of the hinge, without a margin.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(PNLoss()([0, 0, 1], embeddings)), 3)
        0.1
    """

    margin: float = 1.0
    positive: Positive = "hard"
    negative: Negative = "semi_hard"
    distance: Distance | DistanceName | None = "angular"
    soft: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("positive", self.positive, Positive)
        check_choice("negative", self.negative, Negative)

    def terms(self, pairs: Pairs) -> Terms:
        distances = pairs.distances
        is_positive, is_negative = pairs.positives > 0, pairs.negatives > 0
        fixed = ops.stop_gradient(distances)

        def place_of_largest(scores, candidates):
            return argmax(ops.where(candidates, scores, -float("inf")))[:, None]

        farthest = place_of_largest(fixed, is_positive)
        positive = farthest if self.positive == "hard" else place_of_largest(-fixed, is_positive)
        candidates = is_negative
        negative = place_of_largest(fixed, is_negative)
        if self.negative != "easy":
            if self.negative == "semi_hard":
                beyond = fixed > ops.take_along_axis(fixed, farthest, axis=1)
                candidates = ops.logical_and(is_negative, beyond)
            some = ops.any(candidates, axis=1, keepdims=True)
            negative = ops.where(some, place_of_largest(-fixed, candidates), negative)
        near, far = (ops.take_along_axis(distances, x, axis=1)[:, 0] for x in (positive, negative))
        if pairs.references is pairs.anchors:
            of_positive = ops.take(distances, positive[:, 0], axis=0)
            between = ops.take_along_axis(of_positive, negative, axis=1)[:, 0]
        else:
            chosen = (ops.take(pairs.references, x[:, 0], axis=0) for x in (positive, negative))
            between = ops.diagonal((self._distance or Euclidean())(*chosen))
        complete = ops.logical_and(ops.any(is_positive, axis=1), ops.any(is_negative, axis=1))
        violation = ops.where(complete, near - ops.minimum(far, between), 0.0)
        terms = softplus(violation) if self.soft else ops.relu(self.margin + violation)
        yield terms, complete
