"""Normalised softmax (Zhai and Wu, BMVC 2019)."""

from typing import Any

from gsp_tf._arguments import check_positive
from gsp_tf._typing import Tensor
from gsp_tf.losses._proxy import SoftmaxProxyLoss
from gsp_tf.losses.distances import Distance, DistanceName
from gsp_tf.losses.reduction import Reduction, ReductionName


class NormalizedSoftmaxLoss(SoftmaxProxyLoss):
    """Cross-entropy of a sample's class under a softmax of cosine similarities to class proxies.

    `L = -mean_i log( exp(x̂_iᵀp̂_y / T) / Σ_c exp(x̂_iᵀp̂_c / T) )` with unit vectors x̂, p̂.
    "Classification is a Strong Baseline for Deep Metric Learning" (BMVC 2019), eq. 2.

    Args:
        temperature: T > 0.
        num_classes, distance, reduction, kwargs: as in `ProxyLoss`.

    Weight: `proxies (num_classes, D)`, one per class.

    Example:
        >>> loss = NormalizedSoftmaxLoss(num_classes=2, temperature=1.0)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> round(float(loss([0], [[1.0, 0.0]])), 3)
        0.313
    """

    def __init__(
        self,
        num_classes: int,
        temperature: float = 0.05,
        distance: Distance | DistanceName | None = None,
        reduction: Reduction | ReductionName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, distance, reduction, **kwargs)
        check_positive(temperature=temperature)
        self.temperature = temperature

    def logits(self, labels: Tensor, similarities: Tensor) -> Tensor:
        return similarities / self.temperature
