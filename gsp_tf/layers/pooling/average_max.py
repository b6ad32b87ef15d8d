"""Average and max pooling together."""

import math

from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.layers.pooling._base import LocalFeaturePooling


class AverageMaxPooling(LocalFeaturePooling):
    """Sum of global average and global max pooling: `(1/n) Σ_j f_j + max_j f_j`.

    It is known as GAP+GMP. `GeneralizedSumMaxPooling` uses GSP instead of the average.

    Args:
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map or a set. Output: `(B, C)`.

    Example:
        >>> import numpy as np
        >>> AverageMaxPooling()(np.array([[[1.0, 0.0], [3.0, 4.0]]])).numpy().tolist()
        [[5.0, 6.0]]
    """

    def pool(self, features: Tensor, average: Tensor) -> Tensor:
        return ops.einsum("bn,bnc->bc", average, features) + maximum(features, average)


def maximum(features, average):
    """Largest value `(B, C)` of each channel of a set, or 0 for a set without features."""
    present = ops.expand_dims(ops.convert_to_tensor(average), -1) > 0
    largest = ops.max(ops.where(present, features, -math.inf), axis=1)
    return ops.where(ops.any(present, axis=1), largest, 0.0)
