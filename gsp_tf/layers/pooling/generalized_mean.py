"""Generalised-mean pooling (Radenović, Tolias, Chum, TPAMI 2019)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling._base import LocalFeaturePooling


class GeneralizedMeanPooling(LocalFeaturePooling):
    """Power mean of every channel over space: `((1/n) Σ_j f_j^p)^(1/p)`.

    "Fine-tuning CNN Image Retrieval with No Human Annotation" (TPAMI 2019), eq. 3, with one p for
    all channels. It is meant for non-negative features, as after a ReLU: values below 1e-6 count as
    1e-6. p = 1 is the average, and p to infinity is the maximum.

    Args:
        p: initial power, > 0. It is learned unless the layer is made with `trainable=False`.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weight: `power`, the scalar p.

    Input: a map or a set. Output: `(B, C)`.

    Example:
        >>> import numpy as np
        >>> pooling = GeneralizedMeanPooling(p=2.0, trainable=False)
        >>> pooling(np.array([[[3.0], [5.0]]])).numpy().round(3).tolist()
        [[4.123]]
    """

    def __init__(
        self, p: float = 3.0, data_format: DataFormat | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_positive(p=p)
        self.p = p

    def build(self, input_shape):
        self.power = self.add_kernel("power", (), keras.initializers.Constant(self.p))

    def pool(self, features: Tensor, average: Tensor) -> Tensor:
        return generalized_mean(features, ops.cast(self.power, features.dtype), average)


def generalized_mean(x, p, weights):
    """`(Σ_j w_j max(x_j, 1e-6)^p)^(1/p)` `(..., C)`; 0 for a set without elements."""
    # On x / max_j x_j, the powers neither overflow nor all vanish.
    weights = ops.expand_dims(weights, -1)
    present = weights > 0
    x = ops.maximum(ops.where(present, x, 0.0), 1e-6)
    # The mean scales with x, so the choice of unit does not affect it and needs no gradient.
    unit = ops.stop_gradient(ops.max(x, axis=-2, keepdims=True))
    mean_power = ops.sum(weights * ops.power(x / unit, p), axis=-2)
    is_empty = ops.logical_not(ops.any(present, axis=-2))
    mean = ops.power(ops.where(is_empty, 1.0, mean_power), 1.0 / p)
    return ops.where(is_empty, 0.0, unit[..., 0, :] * mean)
