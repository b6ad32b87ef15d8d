"""Proxy-Anchor (Kim et al., CVPR 2020)."""

from typing import Any

from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf._typing import Tensor
from gsp_tf.losses._log_sums import log1p_sum_exp
from gsp_tf.losses._proxy import ProxyLoss, own_class_mask
from gsp_tf.losses.distances import Distance, DistanceName


class ProxyAnchorLoss(ProxyLoss):
    """Multi-similarity of each class proxy with the samples of a batch.

    `(1/|P⁺|) Σ_{p in P⁺} log(1 + Σ_{x of p} exp(-α (s - δ))) + (1/|P|) Σ_{p in P} log(1 + Σ_{x not
    of p} exp(α (s + δ)))` with cosine similarities s, where P holds all proxies and P⁺ those of the
    classes in the batch. "Proxy Anchor Loss for Deep Metric Learning" (CVPR 2020), eq. 4.

    Args:
        margin: δ, a similarity.
        alpha: α > 0, scale of the similarities.
        num_classes, distance, kwargs: as in `ProxyLoss`.

    Weight: `proxies (num_classes, D)`, one per class.

    Example:
        >>> loss = ProxyAnchorLoss(num_classes=2, alpha=2.0)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> round(float(loss([0], [[1.0, 0.0]])), 3)
        0.552
    """

    def __init__(
        self,
        num_classes: int,
        margin: float = 0.1,
        alpha: float = 32.0,
        distance: Distance | DistanceName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, distance, None, **kwargs)
        check_positive(alpha=alpha)
        self.margin = margin
        self.alpha = alpha

    def similarity_loss(
        self, labels: Tensor, similarities: Tensor, is_class: Tensor | None = None
    ) -> Tensor:
        own = own_class_mask(labels, ops.shape(similarities)[1])
        counted = ops.ones_like(own[0]) if is_class is None else is_class
        own, counted = (ops.cast(x, similarities.dtype) for x in (own, counted))
        attraction = log1p_sum_exp(-self.alpha * (similarities - self.margin), own, axis=0)
        repulsion = log1p_sum_exp(self.alpha * (similarities + self.margin), 1.0 - own, axis=0)
        num_present = ops.sum(counted * ops.max(own, axis=0))
        return ops.sum(counted * attraction) / num_present + ops.sum(counted * repulsion) / ops.sum(
            counted
        )
