"""Gate grouping, a baseline of A-grouping (Xu et al., TPAMI 2022)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._numerics import scaled_back, scaled_down
from gsp_tf._typing import Tensor
from gsp_tf.layers.grouping.base import (
    LocalFeatureGrouping,
    average,
    average_weights,
    glorot_for_each_group,
    share_of_channels,
)
from gsp_tf.layers.local_features import DataFormat


@keras.saving.register_keras_serializable("gsp_tf")
class GateGrouping(LocalFeatureGrouping):
    """Global average pooling of features that each group multiplies by its own gates.

    `V mean_j (w_gj ⊙ x_j)` with `w_gj = G_g h_j + b_g` and `h_j = S x_j + b`. Each position and
    channel has a gate of either sign. This is G-grouping of "Towards Improved and Interpretable
    Deep Metric Learning via Attentive Grouping" (section 4.3); the appendix shows its architecture.

    The sum over positions is taken first, as `mean_j h_j x_jᵀ`, so the gates are never held. The
    attention maps are the mean magnitude of the gates at each position, scaled to sum to 1. Groups
    grow with the square of the features; one that exceeds the range of float32 is its largest
    number.

    Args:
        num_groups: P, number of groups.
        group_dim: dimension of each group.
        hidden_dim: dimension of h; `None` takes C / 8, as in the authors' program.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weights: `shared_kernel (C, hidden_dim)`, `shared_bias (hidden_dim,)`,
    `group_kernels (P, hidden_dim, C)` and `group_biases (P, C)`. All groups share
    `kernel (C, group_dim)`.

    Input: a map or a set. Output: `(B, P, group_dim)`.

    Raises:
        ValueError: if a size is not an integer of at least 1.

    Example:
        >>> import numpy as np
        >>> layer = GateGrouping(num_groups=3, group_dim=8, hidden_dim=4)
        >>> layer(np.ones((2, 5, 5, 16), "float32")).shape
        TensorShape([2, 3, 8])
    """

    def __init__(
        self,
        num_groups: int,
        group_dim: int,
        hidden_dim: int | None = None,
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_groups, group_dim, data_format, **kwargs)
        if hidden_dim is not None:
            check_sizes(hidden_dim=hidden_dim)
        self.hidden_dim = hidden_dim

    def build(self, input_shape):
        groups, channels = self.num_groups, self.num_channels(input_shape)
        hidden = share_of_channels(channels, 8) if self.hidden_dim is None else self.hidden_dim
        self.shared_kernel = self.add_kernel("shared_kernel", (channels, hidden))
        self.shared_bias = self.add_kernel("shared_bias", (hidden,), "zeros")
        self.group_kernels = self.add_kernel(
            "group_kernels", (groups, hidden, channels), glorot_for_each_group
        )
        self.group_biases = self.add_kernel("group_biases", (groups, channels), "zeros")
        self.kernel = self.add_kernel("kernel", (channels, self.group_dim))

    def pool_groups(self, features: Tensor, mask: Tensor | None) -> Tensor:
        features, unit = scaled_down(features, axis=(1, 2))
        hidden = ops.matmul(features, self.shared_kernel) + self.shared_bias / unit
        weighted = ops.expand_dims(average_weights(features, mask), -1) * hidden
        products = ops.einsum("bnh,bnc->bhc", weighted, features)
        gated = ops.einsum("bhc,ghc->bgc", products, self._kernels(products.dtype))
        biases = ops.divide(self.group_biases, unit)
        gated = gated + ops.multiply(average(features, mask)[:, None], biases)
        return scaled_back(ops.matmul(gated, self.kernel), unit, unit)

    def weighted_features(self, features: Tensor, mask: Tensor | None) -> Tensor:
        return self._gates(features) * features[:, :, None]

    def attention(self, features: Tensor, mask: Tensor | None) -> Tensor:
        magnitudes = ops.mean(ops.abs(self._gates(features)), axis=-1)
        magnitudes = ops.expand_dims(average_weights(features, mask), -1) * magnitudes
        total = ops.sum(magnitudes, axis=1, keepdims=True)
        return magnitudes / ops.where(total > 0, total, 1.0)

    def _gates(self, features):
        hidden = self._hidden(features)
        gates = ops.einsum("bnh,ghc->bngc", hidden, self._kernels(hidden.dtype))
        return ops.add(gates, self.group_biases)

    def _kernels(self, dtype):
        # PyTorch multiplies numbers of one type alone.
        return ops.cast(self.group_kernels, dtype)

    def _hidden(self, features):
        return ops.add(ops.matmul(features, self.shared_kernel), self.shared_bias)
