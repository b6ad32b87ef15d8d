"""ProxyNCA++ (Teh, DeVries, Taylor, ECCV 2020)."""

from typing import Any

from gsp_tf._typing import Tensor
from gsp_tf.losses.distances import Distance, DistanceName
from gsp_tf.losses.normalized_softmax import NormalizedSoftmaxLoss
from gsp_tf.losses.reduction import Reduction, ReductionName


class ProxyNCALoss(NormalizedSoftmaxLoss):
    """Cross-entropy of a sample's class under a softmax of distances to class proxies (ProxyNCA++).

    `L = -mean_i log( exp(-||x̂_i - p̂_y||^2 / T) / Σ_c exp(-||x̂_i - p̂_c||^2 / T) )` with unit
    vectors x̂, p̂ and temperature T, so that `||x̂ - p̂||^2 = 2 - 2 x̂ᵀp̂`. "ProxyNCA++: Revisiting
    and Revitalizing Proxy Neighborhood Component Analysis" (ECCV 2020), eq. 6. The GSP authors'
    code has cosine similarities in the exponent, which gives this loss at twice their temperature.

    Args:
        temperature: T > 0.
        num_classes, distance, reduction, kwargs: as in `ProxyLoss`.

    Weight: `proxies (num_classes, D)`, one per class.

    Example:
        >>> loss = ProxyNCALoss(num_classes=2, temperature=1.0)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> round(float(loss([0], [[1.0, 0.0]])), 3)
        0.127
    """

    def __init__(
        self,
        num_classes: int,
        temperature: float = 0.11,
        distance: Distance | DistanceName | None = None,
        reduction: Reduction | ReductionName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, temperature, distance, reduction, **kwargs)

    def similarities(self, embeddings: Tensor, proxies: Tensor) -> Tensor:
        similarities = super().similarities(embeddings, proxies)
        # The distance takes the place of the square in `2 - 2 s`.
        return similarities if self.distance is None else 0.5 * (1.0 + similarities)

    def logits(self, labels: Tensor, similarities: Tensor) -> Tensor:
        return 2.0 * super().logits(labels, similarities)
