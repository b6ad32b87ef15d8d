"""Contrastive loss with signal-to-noise distances (Yuan et al., CVPR 2019)."""

import keras
import numpy as np
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._pairs import Miner, PairLoss, Pairs
from gsp_tf.losses._reductions import mean_of_nonzero
from gsp_tf.ops import pairwise_distances


@keras.saving.register_keras_serializable("gsp_tf")
class SignalToNoiseContrastiveLoss(PairLoss):
    """Contrastive loss whose distance is the variance of the difference over that of the anchor.

    `mean [d_ij - m_p]_+ over positives + mean [m_n - d_ij]_+ over negatives` with `d_ij = var(x_j -
    x_i) / var(x_i)`, variances over the dimensions, and means over the terms that are not 0.
    "Signal-To-Noise Ratio: A Robust Distance Metric for Deep Metric Learning" (CVPR 2019),
    without its regulariser of the mean. An anchor whose components are all equal has no signal and
    is left out; pytorch-metric-learning divides by 0 there.

    Args:
        positive_margin: m_p, distance below which a positive pair costs nothing.
        negative_margin: m_n, distance above which a negative pair costs nothing.
        normalize, miner, name: as in `PairLoss`.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], "float32")
        >>> round(float(SignalToNoiseContrastiveLoss()(np.array([0, 0, 1]), embeddings)), 3)
        19.08
    """

    def __init__(
        self,
        positive_margin: float = 0.0,
        negative_margin: float = 1.0,
        normalize: bool = True,
        miner: Miner | None = None,
        name: str = "signal_to_noise_contrastive_loss",
    ) -> None:
        super().__init__(normalize, miner, name)
        self.positive_margin = positive_margin
        self.negative_margin = negative_margin

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        anchors, references = (
            x - ops.mean(x, axis=1, keepdims=True) for x in (pairs.anchors, pairs.references)
        )
        signals = ops.sum(ops.square(anchors), axis=1, keepdims=True)
        powers = ops.sum(ops.square(pairs.anchors), axis=1, keepdims=True)
        limits = np.finfo(keras.backend.standardize_dtype(signals.dtype))
        # Below, the centred components are no more than the rounding error of the mean.
        rounding = 16.0 * float(limits.eps) ** 2
        # The square of a signal is part of the gradient, and must not be 0 where the signal is not.
        smallest = float(limits.tiny) ** 0.5
        has_signal = signals > ops.maximum(rounding * powers, smallest)
        counted = ops.logical_and(has_signal, pairs.positives + pairs.negatives > 0)
        noises = pairwise_distances(anchors, references, squared=True, where=counted)
        distances = noises / ops.where(has_signal, signals, 1.0)

        def cost(excess, counts):
            # A distance that equals its margin but for rounding costs nothing.
            excess = ops.where(excess > 16.0 * float(limits.eps), excess, 0.0)
            return mean_of_nonzero(excess, ops.where(has_signal, counts, 0.0))

        return cost(distances - self.positive_margin, pairs.positives) + cost(
            self.negative_margin - distances, pairs.negatives
        )
