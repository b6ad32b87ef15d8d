"""CosFace (Wang et al., CVPR 2018)."""

from typing import Any

from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf._typing import Tensor
from gsp_tf.losses._proxy import SoftmaxProxyLoss, own_class_mask
from gsp_tf.losses.reduction import Reduction, ReductionName


class CosFaceLoss(SoftmaxProxyLoss):
    """Normalised softmax in which the own class must lead by a cosine margin.

    `L = -mean_i log( exp(s (cos θ_y - m)) / (exp(s (cos θ_y - m)) + Σ_{c≠y} exp(s cos θ_c)) )`.
    "CosFace: Large Margin Cosine Loss for Deep Face Recognition" (CVPR 2018), eq. 4.

    Args:
        margin: m, a cosine.
        scale: s > 0.
        num_classes, reduction, kwargs: as in `ProxyLoss`.

    Weight: `proxies (num_classes, D)`, one per class.

    Example:
        >>> loss = CosFaceLoss(num_classes=2, scale=2.0)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> round(float(loss([0], [[1.0, 0.0]])), 3)
        0.241
    """

    def __init__(
        self,
        num_classes: int,
        margin: float = 0.35,
        scale: float = 64.0,
        reduction: Reduction | ReductionName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, None, reduction, **kwargs)
        check_positive(scale=scale)
        self.margin = margin
        self.scale = scale

    def logits(self, labels: Tensor, similarities: Tensor) -> Tensor:
        own = own_class_mask(labels, ops.shape(similarities)[1])
        cosines = ops.where(own, similarities - self.margin, similarities)
        return self.scale * cosines
