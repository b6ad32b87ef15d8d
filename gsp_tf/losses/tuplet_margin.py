"""Tuplet margin loss and intra-pair variance loss (Yu and Tao, ICCV 2019)."""

import math
from dataclasses import dataclass

from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf._config import elementary
from gsp_tf.losses._log_sums import sines
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName
from gsp_tf.losses.nt_xent import terms_of_negatives
from gsp_tf.losses.reduction import weighted_mean


@dataclass(eq=False, repr=False)
class TupletMarginLoss(PairLoss):
    """Compares every positive pair, given a slack angle, with all negatives of its anchor.

    `mean over positive pairs of log(1 + Σ_negatives exp(s (cos θ_in - cos(θ_ip - β))))` with the
    angles θ between embeddings. "Deep Metric Learning With Tuplet Margin Loss" (ICCV 2019).
    A pair whose anchor has no negative costs 0.

    Args:
        margin_degrees: β, in degrees.
        scale: s > 0.

    Embeddings are always L2-normalised: the loss has angles.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(TupletMarginLoss(scale=1.0)([0, 0, 1], embeddings)), 3)
        0.209
    """

    takes_grades = True

    margin_degrees: float = 5.73
    scale: float = 64.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.normalize:
            raise ValueError("TupletMarginLoss takes angles of unit vectors, not normalize=False.")
        check_positive(scale=self.scale)

    def terms(self, pairs: Pairs) -> Terms:
        margin, cosines = self.margin_degrees * (math.pi / 180.0), pairs.similarities
        moved = elementary("cos", margin) * cosines + elementary("sin", margin) * sines(cosines)
        yield terms_of_negatives(self.scale * moved, self.scale * cosines, pairs)


@dataclass(eq=False, repr=False)
class IntraPairVarianceLoss(PairLoss):
    """Pulls the similarities of the positive pairs together, and those of the negative pairs.

    `mean_p [(1 - ε_p) μ_p - s_p]_+^2 + mean_n [s_n - (1 + ε_n) μ_n]_+^2` over all positive and all
    negative pairs, with cosine similarities s and their means μ. "Deep Metric Learning With Tuplet
    Margin Loss" (ICCV 2019), which adds it to `TupletMarginLoss`; `WeightedSumLoss`
    does so.

    Args:
        positive_epsilon: ε_p, share of the mean below which a positive pair costs nothing.
        negative_epsilon: ε_n, the same above the mean for a negative pair.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(IntraPairVarianceLoss()([0, 0, 1], embeddings)), 4)
        0.0025
    """

    takes_grades = True

    positive_epsilon: float = 0.01
    negative_epsilon: float = 0.01
    distance: Distance | DistanceName | None = None

    def terms(self, pairs: Pairs) -> Terms:
        similarities = pairs.similarities
        for weights, epsilon, sign in (
            (pairs.positives, self.positive_epsilon, -1.0),
            (pairs.negatives, self.negative_epsilon, 1.0),
        ):
            bound = (1.0 + sign * epsilon) * weighted_mean(similarities, weights)
            deviation = ops.relu(sign * (similarities - bound))
            yield ops.square(deviation), weights
