"""Pooling for selective match kernels (Tolias, Jeníček, Chum, ECCV 2020)."""

from typing import Any

from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling._base import WeightedPooling, as_distribution


class SMKPooling(WeightedPooling):
    """Average of smoothed local features, weighted by their norms before smoothing.

    "Learning and Aggregating Deep Local Descriptors for Instance-Level Recognition" (ECCV 2020),
    section 4, trains a selective match kernel through the global descriptor `Σ_j w_j s_j` with the
    attention `w_j = ||f_j||`. s_j is the average of the features in a neighbourhood, cut off at the
    border of the map. This is the descriptor of the GSP authors' code, with these details:

    - The weights are scaled to sum to 1, a factor per image that L2 normalisation removes.
    - No gradient flows through the weights, as in that code.
    - The whitening of the local features is left to a `Dense` layer after the pooling. It is affine
      and so commutes with a weighted average.

    Args:
        smoothing_size: side of the neighbourhood, at least 1; 1 does not smooth.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map, or with `smoothing_size=1` also a set. Output: `(B, C)`.

    Example:
        >>> import numpy as np
        >>> features = np.array([[[3.0, 4.0], [0.0, 0.0], [5.0, 0.0]]])
        >>> SMKPooling(smoothing_size=1)(features).numpy().tolist()
        [[4.0, 2.0]]
    """

    def __init__(
        self, smoothing_size: int = 3, data_format: DataFormat | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(smoothing_size=smoothing_size)
        self.smoothing_size = int(smoothing_size)

    def num_channels(self, input_shape: tuple[int | None, ...]) -> int:
        if len(input_shape) == 3 and self.smoothing_size > 1:
            raise ValueError(
                f"SMKPooling smooths maps (B, H, W, C), received shape {tuple(input_shape)}; "
                "with smoothing_size=1 it pools sets (B, n, C)."
            )
        return super().num_channels(input_shape)

    def call(self, features, mask=None):
        features, average, positions = self.as_weighted_set(features, mask)
        weights = self.weigh(features, average, positions)
        if self.smoothing_size > 1:
            features = self._smooth(features, average, positions)
        return ops.cast(ops.einsum("bn,bnc->bc", weights, features), self.compute_dtype)

    def weigh(self, features: Tensor, average: Tensor, positions: tuple) -> Tensor:
        # Norms of features scaled by their largest value, so that no square overflows.
        features = ops.stop_gradient(features)
        largest = ops.max(ops.abs(features), axis=(1, 2), keepdims=True)
        norms = ops.norm(ops.divide_no_nan(features, largest), axis=-1)
        return as_distribution(norms, average)

    def _smooth(self, features, average, positions):
        """Mean of the present features in the neighbourhood of every position."""
        present = ops.cast(ops.expand_dims(average, -1) > 0, features.dtype)
        total, count = (
            ops.average_pool(
                ops.reshape(x, (ops.shape(x)[0], *positions, ops.shape(x)[-1])),
                self.smoothing_size,
                strides=1,
                padding="same",
                data_format="channels_last",
            )
            for x in (features, present)
        )
        return ops.reshape(ops.divide_no_nan(total, count), ops.shape(features))
