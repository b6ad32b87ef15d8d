"""Attentive sum of local features (Noh, Araujo, Sim, Weyand, Han, ICCV 2017)."""

from typing import Any

import keras
from keras import ops

from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling.base import LocalFeaturePooling
from gsp_tf.layers.sizes import check_sizes
from gsp_tf.ops import at_least_float32, masked_softmax


@keras.saving.register_keras_serializable("gsp_tf")
class DelfPooling(LocalFeaturePooling):
    """Sum of the local features, each weighted by a learned score of its relevance.

    "Large-Scale Image Retrieval with Attentive Deep Local Features" (DELF), section 3.3:
    `Σ_j α(f_j) f_j` (eq. 1, without the linear map W of the sum, which is a layer of its own here)
    with `α(f) = softplus(w · ReLU(V f + a) + b)`, two 1 x 1 convolutions. The authors' code divides
    the sum by the number of features.

    Args:
        hidden_dim: units between the two convolutions.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map `(B, H, W, C)` (or `(B, C, H, W)` with "channels_first"), or a set `(B, n, C)`,
    whose Keras mask `(B, n)` leaves features out.

    Output: pooled `(B, C)`.

    Raises:
        ValueError: if `hidden_dim` is no positive integer or the input is neither a map nor a set.

    Example:
        >>> import numpy as np
        >>> DelfPooling(hidden_dim=4)(np.ones((2, 5, 5, 8), "float32")).shape
        TensorShape([2, 8])
    """

    def __init__(
        self, hidden_dim: int = 512, data_format: DataFormat | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(hidden_dim=hidden_dim)
        self.hidden_dim = hidden_dim
        self.supports_masking = True

    def build(self, input_shape):
        channels = self.num_channels(input_shape)
        self.hidden = keras.layers.Dense(
            self.hidden_dim, activation="relu", dtype=self.dtype_policy, name="hidden"
        )
        self.score = keras.layers.Dense(1, dtype=self.dtype_policy, name="score")
        self.hidden.build((None, channels))
        self.score.build((None, self.hidden_dim))

    def call(self, features, mask=None):
        features, mask, _ = self.as_set(features, mask)
        # Features that the mask leaves out are 0, whatever their score.
        pooled = ops.einsum(
            "bn,bnc->bc", ops.softplus(self._scores(features)), at_least_float32(features)
        )
        return ops.cast(pooled, self.compute_dtype)

    def pooling_weights(self, features, mask=None):
        """Weight of every local feature in the pooled one: its score α, scaled to sum to 1.

        Args:
            features: map or set, as for the layer.
            mask: optional boolean mask of a set, `(B, n)`.

        Returns:
            `(B, H, W)` for a map, `(B, n)` for a set; each sums to 1.

        Example:
            >>> import numpy as np
            >>> delf = DelfPooling(hidden_dim=2)
            >>> delf.pooling_weights(np.ones((1, 2, 2, 3), "float32")).numpy().tolist()
            [[[0.25, 0.25], [0.25, 0.25]]]
        """
        features, mask, places = self._prepare(features, mask)
        scores = self._scores(features)
        # Far below 0 softplus is the exponential, which underflows.
        scores = ops.where(scores < -15, scores, ops.log(ops.softplus(ops.maximum(scores, -15))))
        return ops.reshape(masked_softmax(scores, mask), (ops.shape(features)[0], *places))

    def get_config(self):
        return {**super().get_config(), "hidden_dim": self.hidden_dim}

    def _scores(self, features):
        """Scores `(B, n)` of a set, before the softplus."""
        return ops.squeeze(at_least_float32(self.score(self.hidden(features))), axis=-1)
