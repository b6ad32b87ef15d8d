"""Hybrid loss of multi-head embeddings (Ebrahimpour, Qian, Beach)."""

import operator
from typing import Any

from gsp_tf._arguments import check_at_least
from gsp_tf._typing import Tensor
from gsp_tf.losses._layer import LossLayer
from gsp_tf.losses.multi_similarity import MultiSimilarityLoss
from gsp_tf.losses.proxy_anchor import ProxyAnchorLoss


class HybridLoss(LossLayer):
    """Multi-similarity among the samples plus Proxy-Anchor between samples and classes.

    `L = ℓ_m + λ ℓ_p`. "Multi-Head Deep Metric Learning Using Global and Local Representations"
    (WACV 2022), eqs. 5 to 7; the defaults are those of section 4.2. The exponent of the negatives
    in ℓ_m is `β (S - σ)`, as in `MultiSimilarityLoss`; eq. 6 prints `β (S + σ)`. The second mean of
    ℓ_p runs over all proxies, as in `ProxyAnchorLoss`.

    Args:
        num_classes: number of classes; labels are 0 to num_classes - 1.
        proxy_weight: λ >= 0; 0 gives multi-similarity alone.
        alpha: γ of ℓ_m, scale of the positives.
        beta: β of ℓ_m, scale of the negatives.
        base: σ of ℓ_m, the similarity that positives and negatives are compared with.
        margin: δ of ℓ_p.
        proxy_alpha: α of ℓ_p.

    Weight: `proxies (num_classes, D)`, one per class.

    Example:
        >>> loss = HybridLoss(num_classes=2)
        >>> float(loss([0, 1], [[1.0, 0.0], [0.0, 1.0]])) > 0
        True
        >>> tuple(loss.proxies.shape)
        (2, 2)
    """

    unscheduled = ("alpha", "beta", "base", "margin", "proxy_alpha")

    def __init__(
        self,
        num_classes: int,
        proxy_weight: float = 0.03,
        alpha: float = 2.0,
        beta: float = 50.0,
        base: float = 1.0,
        margin: float = 0.1,
        proxy_alpha: float = 32.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, **kwargs)
        check_at_least(0, proxy_weight=proxy_weight)
        self.proxy_weight = proxy_weight
        self.alpha, self.beta, self.base = alpha, beta, base
        self.margin, self.proxy_alpha = margin, proxy_alpha
        self.multi_similarity = MultiSimilarityLoss(alpha, beta, base)
        self.proxy_anchor = ProxyAnchorLoss(
            num_classes, margin, proxy_alpha, dtype=self.dtype_policy, name="proxy_anchor"
        )

    proxies = property(operator.attrgetter("proxy_anchor.proxies"))

    def call(self, labels, embeddings):
        return self.proxies_loss(labels, embeddings, self.proxies)

    def proxies_loss(self, labels: Tensor, embeddings: Tensor, proxies: Tensor) -> Tensor:
        """Loss with other proxies, as in `ProxyLoss`."""
        of_proxies = self.proxy_anchor.proxies_loss(labels, embeddings, proxies)
        return self.multi_similarity(labels, embeddings) + self.proxy_weight * of_proxies
