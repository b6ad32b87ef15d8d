"""ArcFace (Deng et al., CVPR 2019)."""

import math
from typing import Any

from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf._config import elementary
from gsp_tf._typing import Tensor
from gsp_tf.losses._log_sums import sines
from gsp_tf.losses._proxy import SoftmaxProxyLoss, own_class_mask
from gsp_tf.losses.reduction import Reduction, ReductionName


class ArcFaceLoss(SoftmaxProxyLoss):
    """Normalised softmax in which the own class must lead by an angular margin.

    `L = -mean_i log( exp(s cos(θ_y + m)) / (exp(s cos(θ_y + m)) + Σ_{c≠y} exp(s cos θ_c)) )`.
    "ArcFace: Additive Angular Margin Loss for Deep Face Recognition" (CVPR 2019), eq. 3. If
    `θ_y + m` exceeds 180 degrees, `cos θ_y - m sin m` replaces its cosine, as in the authors' code.
    The loss then keeps growing with θ_y.

    Args:
        margin_degrees: m, in degrees, 0 to 180.
        scale: s > 0.
        num_classes, reduction, kwargs: as in `ProxyLoss`.

    Weight: `proxies (num_classes, D)`, one per class.

    Example:
        >>> loss = ArcFaceLoss(num_classes=2, scale=2.0)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> round(float(loss([0], [[0.8, 0.6]])), 3)
        0.895
    """

    def __init__(
        self,
        num_classes: int,
        margin_degrees: float = 28.6,
        scale: float = 64.0,
        reduction: Reduction | ReductionName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, None, reduction, **kwargs)
        if not 0 <= margin_degrees <= 180:
            raise ValueError(f"margin_degrees must lie in 0 to 180, received {margin_degrees}.")
        check_positive(scale=scale)
        self.margin_degrees = margin_degrees
        self.scale = scale

    def logits(self, labels: Tensor, similarities: Tensor) -> Tensor:
        margin = self.margin_degrees * (math.pi / 180.0)
        sine, cosine = elementary("sin", margin), elementary("cos", margin)
        moved = ops.where(
            similarities > -cosine,
            cosine * similarities - sine * sines(similarities),
            similarities - margin * sine,
        )
        own = own_class_mask(labels, ops.shape(similarities)[1])
        return self.scale * ops.where(own, moved, similarities)
