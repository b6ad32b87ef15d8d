"""Second-order attention, then the generalised mean (Ng, Balntas, Tian, Mikolajczyk, ECCV 2020)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_positive, check_sizes
from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling._base import LocalFeaturePooling
from gsp_tf.layers.pooling.generalized_mean import generalized_mean
from gsp_tf.layers.second_order_attention import SecondOrderAttention


class SolarPooling(LocalFeaturePooling):
    """Generalised mean of local features enhanced by second-order attention.

    "SOLAR: Second-Order Loss and Attention for Image Retrieval", section 3:
    `(mean_j (f_so)_j^p)^(1/p)` with the features `f_so = f + ψ(z v)` of `SecondOrderAttention`,
    with scale `key_dim ** -0.5` and batch normalisation. Values below 1e-6 count as 1e-6. It starts
    as the generalised mean of f.

    Args:
        key_dim: channels of the queries, keys and values; `None` takes half the channels of the
            features, as SOLAR's model does after its last stage. The GSP authors' code takes all.
        p: initial exponent, > 0; it is learned.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weight: `power`, the scalar p.

    Input: a map or a set. Output: pooled `(B, C)`.

    Example:
        >>> import numpy as np
        >>> SolarPooling()(np.ones((2, 5, 5, 8), "float32")).shape
        TensorShape([2, 8])
    """

    def __init__(
        self,
        key_dim: int | None = None,
        p: float = 3.0,
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        if key_dim is not None:
            check_sizes(key_dim=key_dim)
        check_positive(p=p)
        self.key_dim = key_dim
        self.p = p

    def build(self, input_shape):
        key_dim = self.key_dim or max(self.num_channels(input_shape) // 2, 1)
        self.attention = SecondOrderAttention(
            key_dim,
            scale=key_dim**-0.5,
            batch_normalization=True,
            data_format=self.data_format,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.attention.build(input_shape)
        self.power = self.add_kernel("power", (), keras.initializers.Constant(self.p))

    def call(self, features, mask=None, training=None):
        enhanced = self.attention(features, mask=mask, training=training)
        enhanced, average, _ = self.as_weighted_set(enhanced, mask)
        pooled = generalized_mean(enhanced, ops.cast(self.power, enhanced.dtype), average)
        return ops.cast(pooled, self.compute_dtype)
