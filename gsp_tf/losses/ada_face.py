"""AdaFace (Kim, Jain, Liu, CVPR 2022)."""

import math
from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_positive, check_share
from gsp_tf.losses._proxy import ProxyLayer, cross_entropies, own_class_mask
from gsp_tf.losses.reduction import Reduction, ReductionName

_NEAR = 1e-3


class AdaFaceLoss(ProxyLayer):
    """Normalised softmax with a margin that depends on the norm of the embedding.

    Cross-entropy of `s cos θ_c`, with `s (cos(θ_y - m ẑ) - m ẑ - m)` for the own class: an angular
    margin for samples of small norm, such as blurred ones, and an additive one for large norms. `ẑ
    = clip(h (||x|| - μ) / σ, -1, 1)`, with the mean μ and the standard deviation σ of the norms,
    carries no gradient. "AdaFace: Quality Adaptive Margin for Face Recognition" (CVPR 2022). As in
    the authors' program, cosines keep 1e-3 from -1 and 1, angles 1e-3 from 0 and π, and norms are
    clipped to 0.001 to 100.

    The model must not normalise its embeddings, whose norms tell the quality of the images.

    Args:
        margin: m.
        concentration: h.
        scale: s > 0.
        momentum: share of the batch in μ and σ, in 0 to 1; the rest is the last value. 0.01 is the
            default of the authors' program.
        num_classes, reduction, kwargs: as in `ProxyLoss`.

    Weights: `proxies (num_classes, D)`, one per class; not trained, the scalars `norm_mean` and
    `norm_deviation`, μ and σ, which start at 20 and 100.

    Call: `loss(labels, embeddings, training=True)`; evaluation leaves μ and σ as they are.

    Example:
        >>> loss = AdaFaceLoss(num_classes=2, scale=2.0)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> round(float(loss([0], [[0.8, 0.6]])), 3)
        0.901
    """

    normalize = False

    def __init__(
        self,
        num_classes: int,
        margin: float = 0.4,
        concentration: float = 0.333,
        scale: float = 64.0,
        momentum: float = 0.01,
        reduction: Reduction | ReductionName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, reduction, **kwargs)
        check_positive(scale=scale)
        check_share(momentum=momentum)
        self.margin = margin
        self.concentration = concentration
        self.scale = scale
        self.momentum = momentum

    def build(self, labels_shape, embeddings_shape):
        super().build(labels_shape, embeddings_shape)
        for name, start in (("norm_mean", 20.0), ("norm_deviation", 100.0)):
            initializer = keras.initializers.Constant(start)
            weight = self.add_weight(name=name, shape=(), initializer=initializer, trainable=False)
            setattr(self, name, weight)

    def call(self, labels, embeddings, training=True):
        cosines = self.similarities(embeddings, self.proxies)
        cosines = ops.clip(cosines, _NEAR - 1.0, 1.0 - _NEAR)
        quality = self.margin * self._quality(ops.stop_gradient(embeddings), training)[:, None]
        own = own_class_mask(labels, self.num_classes)
        angles = ops.arccos(cosines) - ops.where(own, quality, 0.0)
        moved = ops.cos(ops.clip(angles, _NEAR, math.pi - _NEAR))
        logits = self.scale * ops.where(own, moved - self.margin - quality, moved)
        return self.reduced_samples(labels, cross_entropies(labels, logits))

    def _quality(self, embeddings, training):
        def running(weight, of_batch):
            old = ops.convert_to_tensor(weight)  # times a variable, PyTorch rounds to floatx
            value = self.momentum * of_batch + (1.0 - self.momentum) * old
            if training:
                weight.assign(value)
            return value

        norms = ops.clip(ops.sqrt(ops.sum(ops.square(embeddings), axis=1)), 0.001, 100.0)
        mean, size = ops.mean(norms), ops.shape(norms)[0]
        squares = ops.sum(ops.square(norms - mean))
        deviation = ops.sqrt(squares / ops.cast(ops.maximum(size - 1, 1), squares.dtype))
        mean, deviation = running(self.norm_mean, mean), running(self.norm_deviation, deviation)
        return ops.clip(self.concentration * (norms - mean) / (deviation + _NEAR), -1.0, 1.0)
