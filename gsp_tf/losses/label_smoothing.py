"""Label smoothing within a super-class, around proxy losses (Szegedy et al., CVPR 2016)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from gsp_tf._arguments import check_share, integers
from gsp_tf._typing import Tensor
from gsp_tf.losses._proxy import ProxyLoss, SoftmaxWrapper, cross_entropies


class LabelSmoothing(SoftmaxWrapper):
    """Cross-entropy with a share of the target spread over the classes of the own super-class.

    The target of class c is `(1 - ε) [c = y] + ε [c in S_y] / |S_y|`, with S_y the classes of the
    super-class of y, or all classes. "Rethinking the Inception Architecture for Computer Vision"
    (CVPR 2016); within a super-class, such as all shoes, as in OpenMetricLearning. The
    loss stays `ℓ + ε mean_i (z_y - mean_{c in S_y} z_c)` with the loss ℓ and its logits z, margins
    included. In evaluation it is ℓ.

    Args:
        proxy_loss: a loss that is the cross-entropy of logits, such as `ArcFaceLoss(num_classes)`.
        smoothing: ε in 0 to 1.
        super_classes: whole number of the super-class of each class; `None` has a single one.

    Weight: `proxies` of the proxy loss.

    Example:
        >>> from gsp_tf.losses import NormalizedSoftmaxLoss
        >>> loss = LabelSmoothing(NormalizedSoftmaxLoss(3, 1.0), 0.4, super_classes=[0, 0, 1])
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
        >>> round(float(loss([0], [[1.0, 0.0]])), 3)
        0.608
    """

    def __init__(
        self,
        proxy_loss: ProxyLoss,
        smoothing: float = 0.1,
        super_classes: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(proxy_loss, **kwargs)
        check_share(smoothing=smoothing)
        if super_classes is not None and len(super_classes) != proxy_loss.num_classes:
            raise ValueError(
                f"super_classes needs one number for each of the {proxy_loss.num_classes} classes, "
                f"received {len(super_classes)}."
            )
        self.smoothing = smoothing
        self.super_classes = super_classes
        if super_classes is not None:
            self.super_classes = tuple(integers(super_classes, "super_classes").tolist())

    def augmented_loss(self, labels: Tensor, embeddings: Tensor) -> Tensor:
        logits = self.proxy_loss.logits(
            labels, self.proxy_loss.similarities(embeddings, self.proxies)
        )
        super_classes = np.zeros(self.num_classes, "int32")
        if self.super_classes is not None:
            super_classes = np.unique(self.super_classes, return_inverse=True)[1].astype("int32")
        of_samples = ops.take(ops.convert_to_tensor(super_classes), labels)
        shared = ops.cast(of_samples[:, None] == super_classes[None, :], logits.dtype)
        shared = shared / ops.sum(shared, axis=1, keepdims=True)
        own = ops.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
        gaps = own - ops.sum(shared * logits, axis=1)
        losses = cross_entropies(labels, logits) + self.smoothing * gaps
        return self.proxy_loss.reduced_samples(labels, losses)
