"""Intra-pair variance loss (Yu and Tao, ICCV 2019)."""

from dataclasses import dataclass

import keras
from keras import ops

from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName
from gsp_tf.losses.reduction import weighted_mean


@keras.saving.register_keras_serializable("gsp_tf")
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
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> round(float(IntraPairVarianceLoss()(np.array([0, 0, 1]), embeddings)), 4)
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
