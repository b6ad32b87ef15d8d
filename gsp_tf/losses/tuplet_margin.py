"""Tuplet margin loss (Yu and Tao, ICCV 2019)."""

import math
from dataclasses import dataclass

import keras

from gsp_tf._arguments import check_positive
from gsp_tf._config import elementary
from gsp_tf.losses._log_sums import sines
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.nt_xent import terms_of_negatives


@keras.saving.register_keras_serializable("gsp_tf")
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

    Raises:
        ValueError: if the scale is not positive.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], "float32")
        >>> round(float(TupletMarginLoss(scale=1.0)(np.array([0, 0, 1]), embeddings)), 3)
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
