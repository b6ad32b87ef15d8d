"""Tuplet margin loss (Yu and Tao, ICCV 2019)."""

import math

import keras

from gsp_tf._typing import Tensor
from gsp_tf.losses._pairs import Miner, PairLoss, Pairs
from gsp_tf.losses._reductions import sines
from gsp_tf.losses.nt_xent import mean_cross_entropy


@keras.saving.register_keras_serializable("gsp_tf")
class TupletMarginLoss(PairLoss):
    """Compares every positive pair, given a slack angle, with all negatives of its anchor.

    `mean over positive pairs of log(1 + Σ_negatives exp(s (cos θ_in - cos(θ_ip - β))))` with the
    angles θ between embeddings. "Deep Metric Learning With Tuplet Margin Loss" (ICCV 2019).
    A pair whose anchor has no negative costs 0.

    Args:
        margin_degrees: β, in degrees.
        scale: s > 0.
        miner, name: as in `PairLoss`.

    Embeddings are always L2-normalised: the loss has angles.

    Raises:
        ValueError: if the scale is not positive.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], "float32")
        >>> round(float(TupletMarginLoss(scale=1.0)(np.array([0, 0, 1]), embeddings)), 3)
        0.209
    """

    def __init__(
        self,
        margin_degrees: float = 5.73,
        scale: float = 64.0,
        miner: Miner | None = None,
        name: str = "tuplet_margin_loss",
    ) -> None:
        super().__init__(normalize=True, miner=miner, name=name)
        if not scale > 0:
            raise ValueError(f"scale must be positive, received {scale}.")
        self.margin_degrees = margin_degrees
        self.scale = scale

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        margin, cosines = math.radians(self.margin_degrees), pairs.similarities
        moved = math.cos(margin) * cosines + math.sin(margin) * sines(cosines)
        return mean_cross_entropy(self.scale * moved, self.scale * cosines, pairs)
