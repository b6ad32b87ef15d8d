"""CroW pooling (Kalantidis, Mellina, Osindero, ECCV Workshops 2016)."""

from typing import Any

import keras
from keras import ops

from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling.base import LocalFeaturePooling, as_distribution
from gsp_tf.ops import l2_normalize


@keras.saving.register_keras_serializable("gsp_tf")
class CrowPooling(LocalFeaturePooling):
    """Average of local features, weighted by their strength in space and rarity in channel.

    "Cross-dimensional Weighting for Aggregated Deep Convolutional Features" (2016), section 3, on
    the positive part f of the features. The place j has the weight
    `S_j = (s_j / ||s||)^(1/2)` with `s_j = Σ_c f_jc`, the channel c the weight
    `I_c = log(Σ_d Q_d / Q_c)`, and the pooled feature is `I_c (1/n) Σ_j S_j f_jc`. As in the
    GSP authors' code, the occupancy Q_c of a channel is the mean of `sigmoid(f_jc)` over
    space, which has a gradient, where CroW counts the values that are not 0; and the mean over
    space is taken instead of the sum.

    Args:
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map `(B, H, W, C)` (or `(B, C, H, W)` with "channels_first"), or a set `(B, n, C)`,
    whose Keras mask `(B, n)` leaves features out.

    Output: `(B, C)`.

    Raises:
        ValueError: if the input is neither a map nor a set.

    Example:
        >>> import numpy as np
        >>> features = np.array([[[0.0, 0.0], [3.0, 1.0]]], "float32")
        >>> CrowPooling()(features).numpy().round(3)
        array([[0.921, 0.39 ]], dtype=float32)
    """

    def __init__(self, data_format: DataFormat | None = None, **kwargs: Any) -> None:
        super().__init__(data_format=data_format, **kwargs)
        self.supports_masking = True

    def call(self, features, mask=None):
        features, average, _ = self.as_weighted_set(features, mask)
        features = ops.relu(features)
        occupancy = ops.einsum("bn,bnc->bc", average, ops.sigmoid(features))
        # Only a set without features has channels that nothing occupies.
        occupancy = ops.where(occupancy > 0, occupancy, 1.0)
        rarity = ops.log(ops.sum(occupancy, axis=-1, keepdims=True) / occupancy)
        pooled = rarity * ops.einsum("bn,bnc->bc", average * _strength(features), features)
        return ops.cast(pooled, self.compute_dtype)

    def pooling_weights(self, features, mask=None):
        """Weight of every place, `S_j / Σ_j S_j`; that of average pooling where all are 0.

        Args:
            features: map or set, as for the layer.
            mask: optional boolean mask of a set, `(B, n)`.

        Returns:
            `(B, H, W)` for a map, `(B, n)` for a set; each sums to 1.

        Example:
            >>> import numpy as np
            >>> weights = CrowPooling().pooling_weights(np.array([[[4.0], [0.0], [1.0]]]))
            >>> weights.numpy().round(3).tolist()
            [[0.667, 0.0, 0.333]]
        """
        features, average, places = self.as_weighted_set(features, mask)
        weights = as_distribution(_strength(ops.relu(features)), average)
        return ops.reshape(weights, (ops.shape(features)[0], *places))


def _strength(features):
    """Weights S `(B, n)` of the places of a non-negative set `(B, n, C)`."""
    strength = l2_normalize(ops.sum(features, axis=-1))
    # The root has no finite gradient at 0, but what it multiplies is 0 there.
    is_zero = strength == 0
    return ops.where(is_zero, 0.0, ops.sqrt(ops.where(is_zero, 1.0, strength)))
