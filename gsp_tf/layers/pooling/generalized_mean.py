"""Generalised-mean pooling (Radenović, Tolias, Chum, TPAMI 2019)."""

from typing import Any

import keras

from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling.base import LocalFeaturePooling
from gsp_tf.ops import generalized_mean


@keras.saving.register_keras_serializable("gsp_tf")
class GeneralizedMeanPooling(LocalFeaturePooling):
    """Power mean of every channel over space: `((1/n) Σ_j f_j^p)^(1/p)`.

    "Fine-tuning CNN Image Retrieval with No Human Annotation" (TPAMI 2019), eq. 3, with one p for
    all channels. It is meant for features that are not negative, as after a ReLU: values below
    1e-6 count as 1e-6. p = 1 is the average, p to infinity the maximum.

    Args:
        p: power > 0 to start from. It is learned unless the layer is made with `trainable=False`.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weight: `power`, the scalar p.

    Input: a map `(B, H, W, C)` (or `(B, C, H, W)` with "channels_first"), or a set `(B, n, C)`,
    whose Keras mask `(B, n)` leaves features out.

    Output: `(B, C)`.

    Raises:
        ValueError: if p is not positive or the input is neither a map nor a set.

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
        check_power(p)
        self.p = p
        self.supports_masking = True

    def build(self, input_shape):
        self.power = add_power(self, self.p)

    def call(self, features, mask=None):
        features, average, _ = self.as_weighted_set(features, mask)
        power = keras.ops.cast(self.power, features.dtype)
        pooled = generalized_mean(features, power, average)
        return keras.ops.cast(pooled, self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "p": self.p}


def check_power(p):
    """Refuse a power for which the mean is not defined.

    Args:
        p: must be positive and finite.

    Raises:
        ValueError: saying what was received and what is accepted.

    Example:
        >>> check_power(3.0)
    """
    if not 0.0 < p < float("inf"):
        raise ValueError(f"p must be positive and finite, received {p}.")


def add_power(layer, p):
    """Scalar weight `power` of a layer, p to start from.

    Args:
        layer: a Keras layer.
        p: initial value.

    Example:
        >>> float(add_power(keras.layers.Layer(), 3.0))
        3.0
    """
    initializer = keras.initializers.Constant(p)
    return layer.add_weight(name="power", shape=(), initializer=initializer, autocast=False)
