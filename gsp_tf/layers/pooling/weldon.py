"""WELDON pooling (Durand, Thome, Cord, CVPR 2016)."""

import math
from typing import Any

from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling._base import LocalFeaturePooling


class WeldonPooling(LocalFeaturePooling):
    """Sum of the largest and of the smallest values of every channel.

    "WELDON: Weakly Supervised Learning of Deep Convolutional Neural Networks" (CVPR 2016), section
    3: the k_max highest scores are the evidence for a channel, and the k_min lowest are the
    evidence against it. The values are added, not averaged, as in the GSP authors' code. If there
    are fewer features than k_max (or k_min), all are taken.

    Args:
        k_max: number of largest values, at least 1.
        k_min: number of smallest values, at least 0.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map or a set. Output: `(B, C)`.

    Example:
        >>> import numpy as np
        >>> features = np.array([[[1.0], [2.0], [4.0], [8.0]]])
        >>> WeldonPooling(k_max=2, k_min=1)(features).numpy().tolist()
        [[13.0]]
    """

    def __init__(
        self, k_max: int = 3, k_min: int = 3, data_format: DataFormat | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(k_max=k_max)
        check_sizes(0, k_min=k_min)
        self.k_max = k_max
        self.k_min = k_min

    def pool(self, features: Tensor, average: Tensor) -> Tensor:
        present = ops.expand_dims(average, -1) > 0
        pooled = _sum_of_largest(features, present, self.k_max)
        return pooled - _sum_of_largest(-features, present, self.k_min)


def _sum_of_largest(features, present, k):
    """Sum `(B, C)` of the k largest present values of a set `(B, n, C)`, or of all if fewer."""
    values = ops.where(present, features, -math.inf)
    values = ops.pad(values, ((0, 0), (0, k), (0, 0)), constant_values=-math.inf)
    largest = ops.top_k(ops.swapaxes(values, 1, 2), k)[0]
    pooled = ops.sum(ops.where(ops.equal(largest, -math.inf), 0.0, largest), axis=-1)
    # The order of NaNs is undefined, so the largest values may not include them.
    return ops.where(ops.any(ops.isnan(values), axis=1), math.nan, pooled)
