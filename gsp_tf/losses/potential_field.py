"""Potential field loss (Bhatnagar and Ahuja, CVPR 2025)."""

from typing import Any

from keras import ops

from gsp_tf._arguments import check_positive, check_sizes
from gsp_tf.losses._pairs import Pairs
from gsp_tf.losses._proxy import ProxyLayer
from gsp_tf.ops import l2_normalize

_NEAREST = 1e-2


class PotentialFieldLoss(ProxyLayer):
    """Energy of samples and proxies that attract their class and repel others, near ones most.

    `U = Σ_r ( Σ_own -1 / max(d, δ)^α + Σ_others 1 / min(d, δ)^α )` over the points r, the samples
    of the batch and k proxies per class, with the distances d of r to all other points of its own
    class and of the others. "Potential Field Based Deep Metric Learning" (CVPR 2025):
    the attraction decays with the distance and ends within δ, so that a class does not collapse;
    the repulsion decays too and ends at δ. Points lie on the unit sphere.

    The loss is U divided by the number of points, so that its scale does not depend on the size of
    the batch, and distances between classes below 0.01 count as 0.01. The authors have published no
    program; α and δ are our defaults. The paper tunes α for each data set, and has 15 proxies per
    class on CUB-200-2011 and Cars196, and 2 on SOP.

    The loss takes the distances of all pairs of points, `(B + k num_classes)²` numbers.

    Args:
        num_classes: number of classes; labels are 0 to num_classes - 1.
        proxies_per_class: k.
        alpha: α > 0, how fast the field decays.
        delta: δ > 0, a distance.

    Weight: `proxies (num_classes * k, D)`, class by class.

    Example:
        >>> loss = PotentialFieldLoss(num_classes=2, proxies_per_class=1, alpha=1.0, delta=0.5)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> round(float(loss([0], [[0.8, 0.6]])), 3)
        1.613
    """

    unscheduled = ("delta",)

    def __init__(
        self,
        num_classes: int,
        proxies_per_class: int = 15,
        alpha: float = 4.0,
        delta: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, None, **kwargs)
        check_sizes(proxies_per_class=proxies_per_class)
        check_positive(alpha=alpha, delta=delta)
        self.proxies_per_class = proxies_per_class
        self.alpha = alpha
        self.delta = delta

    def call(self, labels, embeddings):
        points = l2_normalize(ops.concatenate([embeddings, self.proxies]))
        of_proxies = ops.repeat(ops.arange(self.num_classes), self.proxies_per_class)
        labels = ops.concatenate([labels, ops.cast(of_proxies, labels.dtype)])
        pairs = Pairs(points, points, labels, labels, exclude_self=True)
        nearest, delta = (
            ops.convert_to_tensor(x, pairs.distances.dtype)
            for x in (min(_NEAREST, self.delta), self.delta)
        )
        near = ops.maximum(pairs.distances, delta)
        attraction = ops.sum(ops.sum(pairs.positives * near**-self.alpha, axis=1))
        far = ops.clip(pairs.distances, nearest, delta)
        repulsion = ops.sum(ops.sum(pairs.negatives * far**-self.alpha, axis=1))
        return (repulsion - attraction) / ops.cast(ops.shape(points)[0], points.dtype)
