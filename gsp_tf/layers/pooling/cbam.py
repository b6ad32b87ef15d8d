"""Convolutional block attention, then the average (Woo, Park, Lee, Kweon, ECCV 2018)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._numerics import at_least_float32, masked_softmax
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling._base import WeightedPooling


class CBAMPooling(WeightedPooling):
    """Average of a map's features, refined by channel attention and then by spatial attention.

    "CBAM: Convolutional Block Attention Module", section 3. The map F becomes `F' = M_c ⊗ F` and
    then `F'' = M_s ⊗ F'` (eq. 1). The output is the average of F'', with

        M_c = σ(W_1 ReLU(W_0 F_avg) + W_1 ReLU(W_0 F_max))      (eq. 2, averages over positions)
        M_s = σ(f([F'_avg; F'_max]))                            (eq. 3, averages over channels)

    Both terms of M_c share W_0 and W_1, and the convolution f has no bias.

    Args:
        reduction: r, channels per hidden unit of the channel attention.
        kernel_size: side of the kernel of f; the GSP authors' code uses 3.
        data_format: layout of the maps, `None` for Keras' global setting.

    Input: a map. Output: pooled `(B, C)`.

    Example:
        >>> import numpy as np
        >>> CBAMPooling(reduction=2)(np.ones((2, 5, 5, 8), "float32")).shape
        TensorShape([2, 8])
    """

    def __init__(
        self,
        reduction: int = 16,
        kernel_size: int = 7,
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(reduction=reduction, kernel_size=kernel_size)
        self.reduction = int(reduction)
        self.kernel_size = int(kernel_size)

    def build(self, input_shape):
        if len(input_shape) != 4:
            raise ValueError(
                f"CBAMPooling takes maps (B, H, W, C), received shape {tuple(input_shape)}."
            )
        channels = self.num_channels(input_shape)
        hidden = max(channels // self.reduction, 1)
        self.reduce = self.add_dense("reduce", channels, hidden, activation="relu", use_bias=False)
        self.expand = self.add_dense("expand", hidden, channels, use_bias=False)
        self.spatial = keras.layers.Conv2D(
            1,
            self.kernel_size,
            padding="same",
            data_format="channels_last",
            use_bias=False,
            dtype=self.dtype_policy,
            name="spatial",
        )
        self.spatial.build((None, None, None, 2))

    def call(self, features):
        features, _, positions = self.as_set(features)
        refined, scores = self._attend(features, positions)
        pooled = ops.mean(ops.expand_dims(ops.sigmoid(scores), -1) * refined, axis=1)
        return ops.cast(pooled, self.compute_dtype)

    def weigh(self, features: Tensor, average: Tensor, positions: tuple) -> Tensor:
        scores = self._attend(features, positions)[1]
        return masked_softmax(ops.log_sigmoid(scores), average > 0)

    def _attend(self, features, positions):
        """Features F' `(B, n, C)` of a set, and scores `(B, n)` before the sigmoid of M_s."""
        features = at_least_float32(features)
        scores = self._channel_scores(ops.mean(features, axis=1))
        scores += self._channel_scores(ops.max(features, axis=1))
        refined = ops.sigmoid(scores)[:, None] * features
        summary = ops.stack([ops.mean(refined, axis=-1), ops.max(refined, axis=-1)], axis=-1)
        summary = ops.reshape(summary, (ops.shape(features)[0], *positions, 2))
        scores = ops.reshape(self.spatial(summary), ops.shape(features)[:2])
        return refined, at_least_float32(scores)

    def _channel_scores(self, descriptors):
        return at_least_float32(self.expand(self.reduce(descriptors)))
