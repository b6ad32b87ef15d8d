"""SoftTriple (Qian et al., ICCV 2019)."""

from typing import Any

from keras import ops

from gsp_tf._arguments import check_at_least, check_positive, check_sizes
from gsp_tf._backend import rounded
from gsp_tf._config import is_zero
from gsp_tf._numerics import softmax
from gsp_tf._typing import Tensor
from gsp_tf.losses._proxy import SoftmaxProxyLoss, own_class_mask
from gsp_tf.losses.distances import Distance, DistanceName
from gsp_tf.losses.reduction import Reduction, ReductionName
from gsp_tf.losses.regularizers import SparseCentersRegularizer


class SoftTripleLoss(SoftmaxProxyLoss):
    """Cross-entropy over classes with several centres each, weighted towards the nearest centre.

    `S_ic = Σ_k softmax_k(x̂_iᵀŵ_ck / γ) x̂_iᵀŵ_ck`. The loss is the cross-entropy of
    `λ (S_ic - δ [c = y_i])` plus `τ Σ_c Σ_{s<t} ||ŵ_cs - ŵ_ct|| / (C K (K - 1))`, which merges
    centres that are not needed. "SoftTriple Loss: Deep Metric Learning Without Triplet Sampling"
    (ICCV 2019), eqs. 4, 7 and 12. The CCP authors' code uses Euclidean distances instead of
    similarities; this loss follows the paper.

    Args:
        num_classes: C, number of classes; labels are 0 to num_classes - 1.
        centers_per_class: K, number of centres per class.
        scale: λ > 0, scale of the logits.
        gamma: γ > 0, temperature among the centres of a class.
        tau: τ >= 0, weight of the distances between the centres of a class.
        margin: δ, a similarity.
        distance, reduction, kwargs: as in `ProxyLoss`.

    Weight: `proxies (num_classes * centers_per_class, D)`, class by class.

    Example:
        >>> loss = SoftTripleLoss(num_classes=2, centers_per_class=1, scale=2.0, margin=0.0)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> round(float(loss([0], [[1.0, 0.0]])), 3)
        0.127
    """

    def __init__(
        self,
        num_classes: int,
        centers_per_class: int = 10,
        scale: float = 20.0,
        gamma: float = 0.1,
        tau: float = 0.2,
        margin: float = 0.01,
        distance: Distance | DistanceName | None = None,
        reduction: Reduction | ReductionName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, distance, reduction, **kwargs)
        check_sizes(centers_per_class=centers_per_class)
        check_positive(scale=scale, gamma=gamma)
        check_at_least(0, tau=tau)
        self.centers_per_class = self.proxies_per_class = centers_per_class
        self.scale = scale
        self.gamma = gamma
        self.tau = tau
        self.margin = margin

    def logits(self, labels: Tensor, similarities: Tensor) -> Tensor:
        batch_size, num_proxies = ops.shape(similarities)
        num_classes = num_proxies // self.proxies_per_class
        similarities = ops.reshape(similarities, (batch_size, num_classes, self.proxies_per_class))
        shares = softmax(rounded(similarities / self.gamma))
        relaxed = ops.sum(shares * similarities, axis=-1)
        own = own_class_mask(labels, num_classes)
        return self.scale * ops.where(own, relaxed - self.margin, relaxed)

    def regularization(self, proxies: Tensor) -> Tensor | float:
        """τ times half the mean distance between two centres of a class."""
        if is_zero(self.tau) or self.proxies_per_class == 1:
            return 0.0
        regularizer = SparseCentersRegularizer(centers_per_class=self.proxies_per_class)
        return self.tau * regularizer(proxies)
