"""Large-margin softmax loss (Liu et al., ICML 2016)."""

import math
from typing import Any

from keras import ops

from gsp_tf._arguments import check_positive, check_sizes
from gsp_tf._numerics import safe_sqrt
from gsp_tf.losses._proxy import ProxyLayer, cross_entropies, own_class_mask
from gsp_tf.losses.reduction import Reduction, ReductionName


class LargeMarginSoftmaxLoss(ProxyLayer):
    """Softmax in which the angle to the own class counts m times (L-Softmax).

    Cross-entropy of the logits `s ||w_c|| ||x|| cos θ_c`, with `ψ(θ) = (-1)^k cos(m θ) - 2k`, `k =
    floor(m θ / π)`, in place of the cosine of the own class. "Large-Margin Softmax Loss for
    Convolutional Neural Networks" (ICML 2016), eqs. 6 and 7, without its annealing of ψ.

    Args:
        margin: m, a whole number of at least 1.
        scale: s > 0.
        num_classes, reduction, kwargs: as in `ProxyLoss`.

    Weight: `proxies (num_classes, D)`, the w, one per class.

    Example:
        >>> loss = LargeMarginSoftmaxLoss(num_classes=2, margin=2)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 2.0]])
        >>> round(float(loss([0], [[0.8, 0.6]])), 3)
        1.255
    """

    normalize = False
    uses_proxy_norms = True

    def __init__(
        self,
        num_classes: int,
        margin: int = 4,
        scale: float = 1.0,
        reduction: Reduction | ReductionName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, reduction, **kwargs)
        check_sizes(margin=margin)
        check_positive(scale=scale)
        self.margin = margin
        self.scale = scale

    def call(self, labels, embeddings):
        proxies = ops.convert_to_tensor(self.proxies)
        cosines = self.similarities(embeddings, proxies)
        own = own_class_mask(labels, self.num_classes)
        logits = self.scale * ops.where(own, self._psi(cosines), cosines) * _norms(embeddings)
        if self.uses_proxy_norms:
            logits = logits * ops.transpose(_norms(proxies))
        return self.reduced_samples(labels, cross_entropies(labels, logits))

    def _psi(self, cosines):
        previous, current = ops.ones_like(cosines), cosines  # cos(0 θ) and cos(θ)
        for _ in range(self.margin - 1):
            previous, current = current, 2.0 * cosines * current - previous
        k = sum(
            ops.cast(cosines <= math.cos(math.pi * j / self.margin), cosines.dtype)
            for j in range(1, self.margin)
        )
        return (1.0 - 2.0 * (k % 2.0)) * current - 2.0 * k


def _norms(x):
    """Norms `(n, 1)`, with zero gradient at zero."""
    return safe_sqrt(ops.sum(ops.square(x), axis=1, keepdims=True))
