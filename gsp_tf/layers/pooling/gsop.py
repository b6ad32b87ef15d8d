"""Second-order channel attention, then the average (Gao, Xie, Wang, Li, CVPR 2019)."""

from typing import Any

import keras
from keras import backend, ops

from gsp_tf._arguments import check_sizes
from gsp_tf._numerics import at_least_float32, average_weights, scaled_down
from gsp_tf.layers._local_features import DataFormat, with_finite_variance
from gsp_tf.layers.pooling._base import LocalFeaturePooling

_FILTERS_PER_ROW = 4


class GSoPPooling(LocalFeaturePooling):
    """Average of the local features, with channels scaled according to their covariance.

    "Global Second-order Pooling Convolutional Networks", section 3, the channel-wise block:

        X = ReLU(BN(V f + a)), reduced to c channels      Σ = covariance of X over space (c, c)
        r = row-wise convolution of BN(Σ)                 s = σ(W max(r, 0.1 r) + b)

    The output is `s ⊗ mean_j f_j`. The normalisation and the convolution of Σ are row-wise: each
    row has its own mean and variance, and its own 4 filters over all c columns. The position-wise
    block of the GSP authors' code depends on the size of the map and is left out. X is
    limited to values of 7e16, at which the gates s of an ordinary layer are 0 or 1. In training,
    V f + a is limited to 1e15, so that its statistics are finite.

    Args:
        reduced_dim: c, number of channels in the covariance.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map or a set. Output: pooled `(B, C)`.

    Example:
        >>> import numpy as np
        >>> GSoPPooling(reduced_dim=4)(np.ones((2, 5, 5, 8), "float32")).shape
        TensorShape([2, 8])
    """

    def __init__(
        self, reduced_dim: int = 128, data_format: DataFormat | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(reduced_dim=reduced_dim)
        self.reduced_dim = int(reduced_dim)

    def build(self, input_shape):
        channels, reduced = self.num_channels(input_shape), self.reduced_dim
        self.reduction = self.add_dense("reduction", channels, reduced)
        self.reduction_normalization = self.add_normalization(
            "reduction_normalization", (None, None, reduced)
        )
        # A covariance has the squared scale of the features, which may overflow half precision.
        wide = backend.result_type(self.compute_dtype, "float32")
        self.row_normalization = self.add_normalization(
            "row_normalization", (None, reduced, reduced), axis=1, dtype=wide
        )
        self.row_convolution = keras.layers.EinsumDense(
            "bij,ijk->bik",
            output_shape=(reduced, _FILTERS_PER_ROW),
            bias_axes="ik",
            kernel_initializer=keras.initializers.RandomNormal(stddev=reduced**-0.5),
            dtype=wide,
            name="row_convolution",
        )
        self.row_convolution.build((None, reduced, reduced))
        self.excitation = self.add_dense(
            "excitation", _FILTERS_PER_ROW * reduced, channels, activation="sigmoid", dtype=wide
        )

    def call(self, features, mask=None, training=None):
        features, mask, _ = self.as_set(features, mask)
        reduced = with_finite_variance(self.reduction(features), training)
        reduced = self.reduction_normalization(reduced, mask=mask, training=training)
        reduced, features = at_least_float32(ops.relu(reduced), features)
        # The gates are saturated long before a covariance overflows.
        reduced, _ = scaled_down(reduced, axis=(1, 2))
        shares = ops.expand_dims(average_weights(features, mask), -1)
        centred = reduced - ops.sum(shares * reduced, axis=1, keepdims=True)
        covariance = ops.matmul(ops.swapaxes(shares * centred, -1, -2), centred)
        rows = self.row_convolution(self.row_normalization(covariance, training=training))
        rows = ops.reshape(rows, (-1, _FILTERS_PER_ROW * self.reduced_dim))
        scale = self.excitation(ops.maximum(rows, 0.1 * rows))
        return ops.cast(scale * ops.sum(shares * features, axis=1), self.compute_dtype)
