"""Tuplet margin loss (Yu and Tao, ICCV 2019)."""

import math
from collections.abc import Iterable
from typing import Unpack

import keras

from gsp_tf._config import elementary
from gsp_tf._typing import Tensor
from gsp_tf.losses._pair_loss import PairArguments, PairLoss
from gsp_tf.losses._pairs import Pairs
from gsp_tf.losses._sums import sines
from gsp_tf.losses.nt_xent import terms_of_negatives


@keras.saving.register_keras_serializable("gsp_tf")
class TupletMarginLoss(PairLoss):
    """Compares every positive pair, given a slack angle, with all negatives of its anchor.

    `mean over positive pairs of log(1 + Σ_negatives exp(s (cos θ_in - cos(θ_ip - β))))` with the
    angles θ between embeddings. "Deep Metric Learning With Tuplet Margin Loss" (ICCV 2019).
    A pair whose anchor has no negative costs 0.

    Args:
        margin_degrees: β, in degrees.
        scale: s > 0.
        kwargs: arguments of `PairLoss`, such as `miner` and `reduction`.

    Embeddings are always L2-normalised: the loss has angles.

    Raises:
        ValueError: if the scale is not positive.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], "float32")
        >>> round(float(TupletMarginLoss(scale=1.0)(np.array([0, 0, 1]), embeddings)), 3)
        0.209
    """

    fixed = ("normalize", "distance")
    takes_grades = True

    def __init__(
        self,
        margin_degrees: float = 5.73,
        scale: float = 64.0,
        **kwargs: Unpack[PairArguments],
    ) -> None:
        super().__init__(**kwargs)
        if not scale > 0:
            raise ValueError(f"scale must be positive, received {scale}.")
        self.margin_degrees = margin_degrees
        self.scale = scale

    def terms(self, pairs: Pairs) -> Iterable[tuple[Tensor, Tensor]]:
        margin, cosines = self.margin_degrees * (math.pi / 180.0), pairs.similarities
        moved = elementary("cos", margin) * cosines + elementary("sin", margin) * sines(cosines)
        yield terms_of_negatives(self.scale * moved, self.scale * cosines, pairs)
