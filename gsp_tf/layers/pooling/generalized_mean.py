"""Generalised-mean pooling (Radenović, Tolias, Chum, TPAMI 2019)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.layers.local_features import DataFormat, check_positive
from gsp_tf.layers.pooling.base import LocalFeaturePooling
from gsp_tf.ops import generalized_mean


@keras.saving.register_keras_serializable("gsp_tf")
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

    Raises:
        ValueError: if p is not positive.

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
        self.power = add_power(self, self.p)

    def pool(self, features: Tensor, average: Tensor) -> Tensor:
        return generalized_mean(features, ops.cast(self.power, features.dtype), average)


def add_power(layer, p):
    """Scalar weight `power` of a layer, with the initial value p."""
    initializer = keras.initializers.Constant(p)
    return layer.add_weight(name="power", shape=(), initializer=initializer, autocast=False)
