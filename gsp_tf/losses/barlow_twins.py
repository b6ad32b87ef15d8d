"""Barlow Twins (Zbontar et al., ICML 2021)."""

from typing import Any

import keras
import numpy as np
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._views import TwoViewLoss


class BarlowTwinsLoss(TwoViewLoss):
    """Makes the correlation of the dimensions of two views the identity matrix.

    `Σ_i (1 - C_ii)^2 + λ Σ_{i≠j} C_ij^2` with the correlations `C_ij` over the batch of dimension i
    of the first and j of the second view. "Barlow Twins: Self-Supervised Learning via Redundancy
    Reduction" (ICML 2021), eqs. 1 and 2. A dimension that does not vary has correlation 0.
    Embeddings are not normalised.

    Args:
        redundancy_weight: λ.

    Call: `loss(labels, embeddings)` with every label twice, or `loss.views(first, second)`.

    Example:
        >>> import numpy as np
        >>> first = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], "float32")
        >>> round(float(BarlowTwinsLoss().views(first, -first)), 3)
        8.0
    """

    normalize = False

    def __init__(self, redundancy_weight: float = 5e-3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.redundancy_weight = redundancy_weight

    def views_loss(self, first: Tensor, second: Tensor) -> Tensor:
        size, num_columns = ops.shape(first)
        correlation = ops.matmul(ops.transpose(_standardized(first)), _standardized(second))
        correlation = correlation / ops.cast(size, first.dtype)
        identity = ops.eye(num_columns, dtype=first.dtype)
        weights = identity + self.redundancy_weight * (1.0 - identity)
        return ops.sum(weights * ops.square(correlation - identity))


def _standardized(x):
    """Columns of mean 0 and variance 1; 0 if a column does not vary beyond rounding."""
    mean = ops.mean(x, axis=0)
    variance = ops.mean(ops.square(x - mean), axis=0)
    rounding = float(np.finfo(keras.backend.standardize_dtype(x.dtype)).eps)
    varies = variance > 16.0 * rounding**2 * ops.square(mean)
    return ops.where(varies, (x - mean) * ops.rsqrt(ops.where(varies, variance, 1.0)), 0.0)
