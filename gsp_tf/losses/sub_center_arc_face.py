"""Sub-center ArcFace (Deng et al., ECCV 2020)."""

from typing import Any

from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._typing import Tensor
from gsp_tf.losses.arc_face import ArcFaceLoss
from gsp_tf.losses.reduction import Reduction, ReductionName


class SubCenterArcFaceLoss(ArcFaceLoss):
    """ArcFace with k centres per class, of which the nearest counts.

    The cosine of a class in `ArcFaceLoss` is the largest one to its k proxies. "Sub-center ArcFace:
    Boosting Face Recognition by Large-Scale Noisy Web Faces" (ECCV 2020). Clean samples of a
    class gather at one centre, and noise at the others: after training, samples more than about 75
    degrees from the dominant centre of their class are dropped.

    Args:
        margin_degrees: m, in degrees, 0 to 180.
        scale: s > 0.
        centers_per_class: k, number of centres per class.
        num_classes, reduction, kwargs: as in `ProxyLoss`.

    Weight: `proxies (num_classes * centers_per_class, D)`, class by class.

    Example:
        >>> loss = SubCenterArcFaceLoss(num_classes=2, scale=2.0, centers_per_class=2)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        >>> round(float(loss([0], [[0.8, 0.6]])), 3)
        0.895
    """

    def __init__(
        self,
        num_classes: int,
        margin_degrees: float = 28.6,
        scale: float = 64.0,
        centers_per_class: int = 3,
        reduction: Reduction | ReductionName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, margin_degrees, scale, reduction, **kwargs)
        check_sizes(centers_per_class=centers_per_class)
        self.centers_per_class = self.proxies_per_class = centers_per_class

    def logits(self, labels: Tensor, similarities: Tensor) -> Tensor:
        batch_size, num_proxies = ops.shape(similarities)
        shape = batch_size, num_proxies // self.proxies_per_class, self.proxies_per_class
        return super().logits(labels, ops.max(ops.reshape(similarities, shape), axis=2))
