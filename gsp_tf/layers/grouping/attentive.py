"""Attentive grouping, A-grouping (Xu, Wang, Deng, Yuan, Ji, TPAMI 2022)."""

from typing import Any

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._typing import Tensor
from gsp_tf.layers.grouping.base import LocalFeatureGrouping, share_of_channels
from gsp_tf.layers.local_features import DataFormat


@keras.saving.register_keras_serializable("gsp_tf")
class AttentiveGrouping(LocalFeatureGrouping):
    """Attention pooling with one learned query for each group.

    "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping", eqs. 5 to 8.
    The n local features x_j have keys `k_j = K x_j` and values `v_j = V x_j`. Group g is
    `Σ_j a_gj v_j` with `a_gj = softmax_j(q_gᵀ k_j)`; the scores are not scaled. It does not depend
    on the order of the features (theorem 1, eq. 12). One of the authors' two modules applies a
    further linear map after the sum; here that map is part of V.

    The maps are applied in the cheaper order, `x_jᵀ (Kᵀ q_g)` and `V (Σ_j a_gj x_j)`, so the keys
    and values of the positions are never held.

    Args:
        num_groups: P, number of groups.
        group_dim: dimension of each group.
        key_dim: D_K, dimension of keys and queries; `None` takes C / 8 as in the authors' program,
            since the paper gives no value.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weights: `key_kernel (C, D_K)`, `value_kernel (C, group_dim)`, `queries (P, D_K)`.

    Input: a map or a set. Output: `(B, P, group_dim)`.

    Raises:
        ValueError: if a size is not an integer of at least 1.

    Example:
        >>> import numpy as np
        >>> layer = AttentiveGrouping(num_groups=3, group_dim=8, key_dim=4)
        >>> layer(np.ones((2, 5, 5, 16), "float32")).shape
        TensorShape([2, 3, 8])
        >>> layer.attention_maps(np.ones((2, 5, 5, 16), "float32")).shape
        TensorShape([2, 5, 5, 3])
    """

    def __init__(
        self,
        num_groups: int,
        group_dim: int,
        key_dim: int | None = None,
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_groups, group_dim, data_format, **kwargs)
        if key_dim is not None:
            check_sizes(key_dim=key_dim)
        self.key_dim = key_dim

    def build(self, input_shape):
        channels = self.num_channels(input_shape)
        key_dim = share_of_channels(channels, 8) if self.key_dim is None else self.key_dim
        self.key_kernel = self.add_kernel("key_kernel", (channels, key_dim))
        self.value_kernel = self.add_kernel("value_kernel", (channels, self.group_dim))
        self.queries = self.add_kernel("queries", (self.num_groups, key_dim))

    def pool_groups(self, features: Tensor, mask: Tensor | None) -> Tensor:
        attended = ops.einsum("bng,bnc->bgc", self.attention(features, mask), features)
        return ops.matmul(attended, self.value_kernel)

    def attention(self, features: Tensor, mask: Tensor | None) -> Tensor:
        directions = ops.matmul(self.key_kernel, ops.transpose(self.queries))
        scores = ops.matmul(features, directions)
        if mask is None:
            return ops.softmax(scores, axis=1)
        left = ops.expand_dims(ops.cast(mask, "bool"), -1)
        lowest = np.finfo(keras.backend.standardize_dtype(scores.dtype)).min
        return ops.where(left, ops.softmax(ops.where(left, scores, lowest), axis=1), 0.0)
