"""VICReg (Bardes, Ponce, LeCun, ICLR 2022)."""

import math
from typing import Any

from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf._typing import Tensor
from gsp_tf.losses._views import TwoViewLoss
from gsp_tf.ops import l2_normalize


class VICRegLoss(TwoViewLoss):
    """Pulls two views together and keeps the dimensions varied and uncorrelated.

    `λ s(Z, Z') + μ (v(Z) + v(Z')) / 2 + ν (c(Z) + c(Z'))`: the mean squared difference s, the mean
    hinge `v = mean_j [1 - sqrt(Var(z_j) + ε)]_+` and `c = (1 / D) Σ_{i≠j} Cov(z_i, z_j)^2`, over
    the batch. "VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised Learning"
    (ICLR 2022), eqs. 1 to 6, with half of v as in the authors' program and in
    pytorch-metric-learning. The paper does not normalise embeddings.

    Args:
        invariance_weight: λ.
        variance_weight: μ.
        covariance_weight: ν.
        epsilon: ε > 0.
        normalize: give embeddings the length sqrt(D) first. A deviation of 1, which v asks for, is
            then that of directions spread evenly. Without it, embeddings of length 1 can never
            reach it.

    Call: `loss(labels, embeddings)` with every label twice, or `loss.views(first, second)`.

    Example:
        >>> import numpy as np
        >>> first = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], "float32")
        >>> round(float(VICRegLoss().views(first, -first)), 3)
        55.282
    """

    def __init__(
        self,
        invariance_weight: float = 25.0,
        variance_weight: float = 25.0,
        covariance_weight: float = 1.0,
        epsilon: float = 1e-4,
        normalize: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(epsilon=epsilon)
        self.invariance_weight = invariance_weight
        self.variance_weight = variance_weight
        self.covariance_weight = covariance_weight
        self.epsilon = epsilon
        self.normalize = normalize

    def views_loss(self, first: Tensor, second: Tensor) -> Tensor:
        if self.normalize:
            length = math.sqrt(first.shape[1])
            first, second = length * l2_normalize(first), length * l2_normalize(second)
        loss = self.invariance_weight * ops.mean(ops.square(first - second))
        for view in (first, second):
            size, num_columns = ops.shape(view)
            centred = view - ops.mean(view, axis=0)
            covariance = ops.matmul(ops.transpose(centred), centred)
            covariance = covariance / ops.cast(ops.maximum(size - 1, 1), view.dtype)
            variances = ops.diagonal(covariance)
            hinge = ops.mean(ops.relu(1.0 - ops.sqrt(variances + self.epsilon)))
            others = (1.0 - ops.eye(num_columns, dtype=view.dtype)) * covariance
            loss = loss + 0.5 * self.variance_weight * hinge
            loss = loss + self.covariance_weight * ops.sum(ops.square(others)) / num_columns
        return loss
