"""Contrastive loss with signal-to-noise distances (Yuan et al., CVPR 2019)."""

from dataclasses import dataclass

import numpy as np
from keras import ops

from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms


@dataclass(eq=False, repr=False)
class SignalToNoiseContrastiveLoss(PairLoss):
    """Contrastive loss whose distance is the variance of the difference over that of the anchor.

    `mean [d_ij - m_p]_+ over positives + mean [m_n - d_ij]_+ over negatives` with `d_ij = var(x_j -
    x_i) / var(x_i)`, variances over the dimensions, and means over the terms that are not 0.
    "Signal-To-Noise Ratio: A Robust Distance Metric for Deep Metric Learning" (CVPR 2019), without
    its regulariser of the mean. An anchor whose components are all equal has no signal and is left
    out.

    Args:
        positive_margin: m_p, distance below which a positive pair costs nothing.
        negative_margin: m_n, distance above which a negative pair costs nothing.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]
        >>> round(float(SignalToNoiseContrastiveLoss()([0, 0, 1], embeddings)), 3)
        19.08
    """

    default_reduction = "nonzero_mean"
    distance = "signal_to_noise"
    takes_grades = True

    positive_margin: float = 0.0
    negative_margin: float = 1.0

    def terms(self, pairs: Pairs) -> Terms:
        # A distance that equals its margin but for rounding costs nothing.
        rounding = 16.0 * float(np.finfo(pairs.dtype).eps)
        for excess, weights in (
            (pairs.distances - self.positive_margin, pairs.positives),
            (self.negative_margin - pairs.distances, pairs.negatives),
        ):
            yield ops.where(excess > rounding, excess, 0.0), weights
