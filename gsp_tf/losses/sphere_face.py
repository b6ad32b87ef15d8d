"""SphereFace (Liu et al., CVPR 2017)."""

from gsp_tf.losses.large_margin_softmax import LargeMarginSoftmaxLoss


class SphereFaceLoss(LargeMarginSoftmaxLoss):
    """Large-margin softmax with proxies of unit length (A-Softmax).

    Cross-entropy of the logits `s ||x|| cos θ_c`, with `ψ(θ) = (-1)^k cos(m θ) - 2k`, `k = floor(m
    θ / π)`, in place of the cosine of the own class. "SphereFace: Deep Hypersphere Embedding for
    Face Recognition" (CVPR 2017), eq. 7, without its annealing of ψ.

    Args:
        margin: m, a whole number of at least 1.
        scale: s > 0.
        num_classes, reduction, kwargs: as in `ProxyLoss`.

    Weight: `proxies (num_classes, D)`, one per class, normalised.

    Example:
        >>> loss = SphereFaceLoss(num_classes=2, margin=2)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 2.0]])
        >>> round(float(loss([0], [[0.8, 0.6]])), 3)
        0.866
    """

    uses_proxy_norms = False
