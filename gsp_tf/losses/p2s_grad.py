"""P2SGrad loss (Zhang et al., CVPR 2019)."""

from typing import Any

from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._proxy import ProxyLoss, own_class_mask
from gsp_tf.losses.reduction import Reduction, ReductionName


class P2SGradLoss(ProxyLoss):
    """Mean squared error between cosine similarities and the labels, 1 for the own class, else 0.

    `mean_i mean_c (cos θ_ic - [c = y_i])^2`. "P2SGrad: Refined Gradients for Optimizing Deep Face
    Models" (CVPR 2019), eq. 11, which prints the gradient `Σ_c (cos θ_ic - [c = y_i]) ∇cos θ_ic` of
    a sample: this one times C / 2. The gradient of a proxy is tangent to the sphere.

    Args:
        num_classes: C, number of classes; labels are 0 to num_classes - 1.
        reduction, kwargs: as in `ProxyLoss`.

    Weight: `proxies (num_classes, D)`, one per class.

    Example:
        >>> loss = P2SGradLoss(num_classes=2)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> round(float(loss([0], [[0.8, 0.6]])), 3)
        0.2
    """

    def __init__(
        self,
        num_classes: int,
        reduction: Reduction | ReductionName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, None, reduction, **kwargs)

    def sample_losses(
        self, labels: Tensor, similarities: Tensor, is_class: Tensor | None = None
    ) -> Tensor:
        own = own_class_mask(labels, ops.shape(similarities)[1])
        errors = ops.square(similarities - ops.cast(own, similarities.dtype))
        if is_class is None:
            return ops.mean(errors, axis=1)
        counted = ops.cast(is_class, errors.dtype)[None, :]
        return ops.sum(counted * errors, axis=1) / ops.sum(counted)
