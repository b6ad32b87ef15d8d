"""Pooling for selective match kernels (Tolias, Jeníček, Chum, ECCV 2020)."""

from typing import Any

import keras
from keras import ops

from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling.base import LocalFeaturePooling, as_distribution
from gsp_tf.layers.sizes import check_sizes


@keras.saving.register_keras_serializable("gsp_tf")
class SMKPooling(LocalFeaturePooling):
    """Average of smoothed local features, weighted by the norms of those before smoothing.

    "Learning and Aggregating Deep Local Descriptors for Instance-Level Recognition" (ECCV 2020),
    section 4: a selective match kernel is trained through the global descriptor `Σ_j w_j s_j`, of
    attention `w_j = ||f_j||` and features s_j smoothed by an average over their neighbourhood, cut
    off at the border of the map. This is the descriptor of the GSP authors' code. Here

    - the weights are scaled to sum 1, a factor for each image that L2 normalisation takes away;
    - no gradient flows through the weights, as there;
    - the whitening of the local features, which is affine and so commutes with a weighted average,
      is left to a `Dense` layer after the pooling.

    Args:
        smoothing_size: side of the neighbourhood, at least 1, which is no smoothing.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map `(B, H, W, C)` (or `(B, C, H, W)` with "channels_first"); with
    `smoothing_size=1` also a set `(B, n, C)`, whose Keras mask `(B, n)` leaves features out.

    Output: `(B, C)`.

    Raises:
        ValueError: if the size is out of range or the input is no map (or no set).

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
        self.smoothing_size = smoothing_size
        self.supports_masking = True

    def num_channels(self, input_shape):
        if len(input_shape) == 3 and self.smoothing_size > 1:
            raise ValueError(
                f"SMKPooling smooths maps (B, H, W, C), received shape {tuple(input_shape)}; "
                "with smoothing_size=1 it pools sets (B, n, C)."
            )
        return super().num_channels(input_shape)

    def call(self, features, mask=None):
        features, average, places = self.as_weighted_set(features, mask)
        weights = _attention(features, average)
        if self.smoothing_size > 1:
            features = self._smooth(features, average, places)
        pooled = ops.einsum("bn,bnc->bc", weights, features)
        return ops.cast(pooled, self.compute_dtype)

    def pooling_weights(self, features, mask=None):
        """Weight of every place, `||f_j|| / Σ_j ||f_j||`; that of average pooling where all are 0.

        Args:
            features: map or set, as for the layer.
            mask: optional boolean mask of a set, `(B, n)`.

        Returns:
            `(B, H, W)` for a map, `(B, n)` for a set; each sums to 1.

        Example:
            >>> import numpy as np
            >>> smk = SMKPooling()
            >>> smk.pooling_weights(np.array([[[[3.0, 4.0]], [[0.0, 15.0]]]])).numpy().tolist()
            [[[0.25], [0.75]]]
        """
        features, average, places = self.as_weighted_set(features, mask)
        weights = _attention(features, average)
        return ops.reshape(weights, (ops.shape(features)[0], *places))

    def _smooth(self, features, average, places):
        """Mean of the features in the neighbourhood of every place that are there."""
        present = ops.cast(average[..., None] > 0, features.dtype)
        total, count = (
            ops.average_pool(
                ops.reshape(x, (ops.shape(x)[0], *places, ops.shape(x)[-1])),
                self.smoothing_size,
                strides=1,
                padding="same",
                data_format="channels_last",
            )
            for x in (features, present)
        )
        return ops.reshape(ops.divide_no_nan(total, count), ops.shape(features))

    def get_config(self):
        return {**super().get_config(), "smoothing_size": self.smoothing_size}


def _attention(features, average):
    """Norms `(B, n)` of the features `(B, n, C)`, scaled to sum 1, without a gradient."""
    features = ops.stop_gradient(features)
    largest = ops.max(ops.abs(features), axis=(1, 2), keepdims=True)
    norms = ops.norm(ops.divide_no_nan(features, largest), axis=-1)
    return as_distribution(norms, average)
