"""Channel grouping, a baseline of A-grouping (Xu et al., TPAMI 2022)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._typing import Tensor
from gsp_tf.layers.grouping.base import (
    LocalFeatureGrouping,
    average,
    glorot_for_each_group,
    share_of_channels,
)
from gsp_tf.layers.local_features import DataFormat


@keras.saving.register_keras_serializable("gsp_tf")
class ChannelGrouping(LocalFeatureGrouping):
    """Global average pooling in which each group weighs the channels by squeeze and excitation.

    `V (s_g ⊙ x̄) + b` with `s_g = sigmoid(E_g relu(S_g x̄))` and `x̄ = mean_j x_j`. C-grouping of
    "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping" (section 4.3),
    with "Squeeze-and-Excitation Networks" (Hu, Shen, Sun, CVPR 2018), eq. 3. All positions have the
    same weights, so the attention maps are uniform; `channel_maps` are not.

    Args:
        num_groups: P, number of groups.
        group_dim: dimension of each group.
        hidden_dim: channels after squeezing; `None` takes C / 5, as in the authors' program.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weights: `squeeze_kernels (P, C, hidden_dim)` and `excite_kernels (P, hidden_dim, C)`. All
    groups share `kernel (C, group_dim)` and `bias (group_dim,)`.

    Input: a map or a set. Output: `(B, P, group_dim)`.

    Raises:
        ValueError: if a size is not an integer of at least 1.

    Example:
        >>> import numpy as np
        >>> layer = ChannelGrouping(num_groups=3, group_dim=8, hidden_dim=4)
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
        hidden = share_of_channels(channels, 5) if self.hidden_dim is None else self.hidden_dim
        self.squeeze_kernels = self.add_kernel(
            "squeeze_kernels", (groups, channels, hidden), glorot_for_each_group
        )
        self.excite_kernels = self.add_kernel(
            "excite_kernels", (groups, hidden, channels), glorot_for_each_group
        )
        self.kernel = self.add_kernel("kernel", (channels, self.group_dim))
        self.bias = self.add_kernel("bias", (self.group_dim,), "zeros")

    def pool_groups(self, features: Tensor, mask: Tensor | None) -> Tensor:
        pooled = average(features, mask)
        return ops.add(ops.matmul(self._scales(pooled) * pooled[:, None], self.kernel), self.bias)

    def weighted_features(self, features: Tensor, mask: Tensor | None) -> Tensor:
        return self._scales(average(features, mask))[:, None] * features[:, :, None]

    def _scales(self, pooled):
        # PyTorch multiplies numbers of one type alone.
        squeeze = ops.cast(self.squeeze_kernels, pooled.dtype)
        excite = ops.cast(self.excite_kernels, pooled.dtype)
        squeezed = ops.relu(ops.einsum("bc,gch->bgh", pooled, squeeze))
        return ops.sigmoid(ops.einsum("bgh,ghc->bgc", squeezed, excite))
