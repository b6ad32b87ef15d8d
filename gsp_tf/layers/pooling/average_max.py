"""Average and max pooling together."""

import math
from typing import Any

import keras
from keras import ops

from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling.base import LocalFeaturePooling


@keras.saving.register_keras_serializable("gsp_tf")
class AverageMaxPooling(LocalFeaturePooling):
    """Sum of global average and global max pooling: `(1/n) Σ_j f_j + max_j f_j`.

    Known as GAP+GMP; `GeneralizedSumMaxPooling` is the same with GSP in place of the average.

    Args:
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map `(B, H, W, C)` (or `(B, C, H, W)` with "channels_first"), or a set `(B, n, C)`,
    whose Keras mask `(B, n)` leaves features out.

    Output: `(B, C)`.

    Raises:
        ValueError: if the input is neither a map nor a set.

    Example:
        >>> import numpy as np
        >>> AverageMaxPooling()(np.array([[[1.0, 0.0], [3.0, 4.0]]])).numpy().tolist()
        [[5.0, 6.0]]
    """

    def __init__(self, data_format: DataFormat | None = None, **kwargs: Any) -> None:
        super().__init__(data_format=data_format, **kwargs)
        self.supports_masking = True

    def call(self, features, mask=None):
        features, average, _ = self.as_weighted_set(features, mask)
        pooled = ops.einsum("bn,bnc->bc", average, features) + maximum(features, average)
        return ops.cast(pooled, self.compute_dtype)


def maximum(features, average):
    """Largest value of each channel of a set, 0 for a set without features.

    Args:
        features: float tensor `(B, n, C)`.
        average: `average_weights` of the features, 0 for those that are not there.

    Example:
        >>> maximum([[[1.0], [3.0], [9.0]]], [[0.5, 0.5, 0.0]]).numpy().tolist()
        [[3.0]]
    """
    present = ops.convert_to_tensor(average)[..., None] > 0
    largest = ops.max(ops.where(present, features, -math.inf), axis=1)
    return ops.where(ops.any(present, axis=1), largest, 0.0)
