"""Attentive grouping and its baselines (Xu, Wang, Deng, Yuan, Ji, TPAMI 2022)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._numerics import (
    at_least_float32,
    average_weights,
    masked_softmax,
    scaled_back,
    scaled_down,
)
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import DataFormat, LocalFeatureLayer, at_positions


class _Grouping(LocalFeatureLayer):
    """Base of the layers that pool local features once per group: `V_g (Σ_j w_gj ⊙ x_j)`."""

    # A subclass implements `pool_groups`, and `attention` unless its weights are the same at every
    # position. Both receive the features as a set (B, n, C) of at least 32 bits.

    def __init__(
        self, num_groups: int, group_dim: int, data_format: DataFormat | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(num_groups=num_groups, group_dim=group_dim)
        self.num_groups = num_groups
        self.group_dim = group_dim

    def call(self, features, mask=None):
        features, mask, _ = self.as_set(features, mask)
        groups = self.pool_groups(at_least_float32(features), mask)
        return ops.cast(groups, self.compute_dtype)

    def attention_maps(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Share of every position in the weights of a group: `Σ_c |w_gjc| / Σ_jc |w_gjc|`.

        Args:
            features: map or set, as for the layer.
            mask: optional boolean mask of a set, `(B, n)`.

        Returns:
            `(B, H, W, groups)` for a map, `(B, n, groups)` for a set; each group sums to 1 over the
            positions.
        """
        return self._maps(self.attention, features, mask)

    def channel_maps(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Share of every position in the strongest channel of a group, from `|w_gjc x_jc|`.

        The strongest channel of an image and group has the largest of these magnitudes. Fig. 5 of
        "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping" (Xu et al.)
        shows G-grouping and C-grouping by "the channel with the strongest response".

        Args, returns: as in `attention_maps`.

        Example:
            >>> import numpy as np
            >>> layer = ChannelGrouping(num_groups=2, group_dim=3)
            >>> layer.channel_maps(np.ones((1, 4, 5, 10), "float32")).shape
            TensorShape([1, 4, 5, 2])
        """
        return self._maps(self._strongest_channels, features, mask)

    def pool_groups(self, features: Tensor, mask: Tensor | None) -> Tensor:
        """Groups `(B, groups, group_dim)` of a set `(B, n, C)` with a mask `(B, n)` or `None`."""
        raise NotImplementedError

    def attention(self, features: Tensor, mask: Tensor | None) -> Tensor:
        """Attention `(B, n, groups)` of a set `(B, n, C)` with a mask `(B, n)` or `None`."""
        return ops.repeat(
            ops.expand_dims(average_weights(features, mask), -1), self.num_groups, axis=-1
        )

    def weighted_features(self, features: Tensor, mask: Tensor | None) -> Tensor:
        """`w_gj ⊙ x_j` up to a factor: `(B, n, groups, C)` of a set with a mask or `None`."""
        return ops.expand_dims(self.attention(features, mask), -1) * features[:, :, None]

    def _maps(self, of_set, features, mask):
        """Result `(B, n, groups)` of a function of a set and its mask, at the positions."""
        features = self._prepare(ops.convert_to_tensor(features, dtype=self.compute_dtype))
        features, mask, positions = self.as_set(features, mask)
        return at_positions(of_set(at_least_float32(features), mask), positions)

    def _strongest_channels(self, features, mask):
        responses = ops.abs(self.weighted_features(features, mask))
        strongest = ops.argmax(ops.max(responses, axis=1, keepdims=True), axis=-1, keepdims=True)
        maps = ops.take_along_axis(responses, strongest, axis=-1)[..., 0]
        total = ops.sum(maps, axis=1, keepdims=True)
        average = ops.expand_dims(average_weights(features, mask), -1)
        return ops.where(total > 0, maps / ops.where(total > 0, total, 1.0), average)

    def compute_output_shape(self, input_shape):
        self.num_channels(input_shape)
        return (input_shape[0], self.num_groups, self.group_dim)

    def compute_mask(self, inputs, mask=None):
        return None


def _average(features, mask):
    """Average `(B, C)` of the features `(B, n, C)` that the mask keeps, 0 if it keeps none."""
    return ops.einsum("bn,bnc->bc", average_weights(features, mask), features)


def _glorot_for_each_group(shape, dtype=None):
    """Glorot initialisation of a stack of kernels `(groups, inputs, outputs)`, kernel by kernel."""
    return ops.stack(
        [keras.initializers.GlorotUniform()(shape[1:], dtype) for _ in range(shape[0])]
    )


class AttentiveGrouping(_Grouping):
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
        key_dim = self.key_dim or max(channels // 8, 1)
        self.key_kernel = self.add_kernel("key_kernel", (channels, key_dim))
        self.value_kernel = self.add_kernel("value_kernel", (channels, self.group_dim))
        self.queries = self.add_kernel("queries", (self.num_groups, key_dim))

    def pool_groups(self, features: Tensor, mask: Tensor | None) -> Tensor:
        attended = ops.einsum("bng,bnc->bgc", self.attention(features, mask), features)
        return ops.matmul(attended, self.value_kernel)

    def attention(self, features: Tensor, mask: Tensor | None) -> Tensor:
        directions = ops.matmul(self.key_kernel, ops.transpose(self.queries))
        scores = ops.swapaxes(ops.matmul(features, directions), 1, 2)
        attention = masked_softmax(scores, None if mask is None else ops.expand_dims(mask, 1))
        return ops.swapaxes(attention, 1, 2)


class _HiddenGrouping(_Grouping):
    """Base of the groupings whose weights come from a hidden vector."""

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


class GateGrouping(_HiddenGrouping):
    """Global average pooling of features that each group multiplies by its own gates.

    `V mean_j (w_gj ⊙ x_j)` with `w_gj = G_g h_j + b_g` and `h_j = S x_j + b`. Each position and
    channel has a gate of either sign. This is G-grouping of "Towards Improved and Interpretable
    Deep Metric Learning via Attentive Grouping" (section 4.3); the appendix shows its architecture.

    The sum over positions is taken first, as `mean_j h_j x_jᵀ`, so the gates are never held. The
    attention maps are the mean magnitude of the gates at each position, scaled to sum to 1. Groups
    grow with the square of the features; one that exceeds the range of float32 is its largest
    number.

    Args:
        hidden_dim: dimension of h; `None` takes C / 8, as in the authors' program.
        num_groups, group_dim, data_format: as in `AttentiveGrouping`.

    Weights: `shared_kernel (C, hidden_dim)`, `shared_bias (hidden_dim,)`,
    `group_kernels (P, hidden_dim, C)` and `group_biases (P, C)`. All groups share
    `kernel (C, group_dim)`.

    Input: a map or a set. Output: `(B, P, group_dim)`.

    Example:
        >>> import numpy as np
        >>> layer = GateGrouping(num_groups=3, group_dim=8, hidden_dim=4)
        >>> layer(np.ones((2, 5, 5, 16), "float32")).shape
        TensorShape([2, 3, 8])
    """

    def build(self, input_shape):
        groups, channels = self.num_groups, self.num_channels(input_shape)
        hidden = self.hidden_dim or max(channels // 8, 1)
        self.shared_kernel = self.add_kernel("shared_kernel", (channels, hidden))
        self.shared_bias = self.add_kernel("shared_bias", (hidden,), "zeros")
        self.group_kernels = self.add_kernel(
            "group_kernels", (groups, hidden, channels), _glorot_for_each_group
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
        gated = gated + ops.multiply(_average(features, mask)[:, None], biases)
        return scaled_back(ops.matmul(gated, self.kernel), unit, unit)

    def weighted_features(self, features: Tensor, mask: Tensor | None) -> Tensor:
        return self._gates(features) * features[:, :, None]

    def attention(self, features: Tensor, mask: Tensor | None) -> Tensor:
        magnitudes = ops.mean(ops.abs(self._gates(features)), axis=-1)
        average = ops.expand_dims(average_weights(features, mask), -1)
        magnitudes = average * magnitudes
        total = ops.sum(magnitudes, axis=1, keepdims=True)
        return ops.where(total > 0, magnitudes / ops.where(total > 0, total, 1.0), average)

    def _gates(self, features):
        hidden = ops.add(ops.matmul(features, self.shared_kernel), self.shared_bias)
        gates = ops.einsum("bnh,ghc->bngc", hidden, self._kernels(hidden.dtype))
        return ops.add(gates, self.group_biases)

    def _kernels(self, dtype):
        # PyTorch multiplies numbers of one type alone.
        return ops.cast(self.group_kernels, dtype)


class ChannelGrouping(_HiddenGrouping):
    """Global average pooling in which each group weighs the channels by squeeze and excitation.

    `V (s_g ⊙ x̄) + b` with `s_g = sigmoid(E_g relu(S_g x̄))` and `x̄ = mean_j x_j`. C-grouping of
    "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping" (section 4.3),
    with "Squeeze-and-Excitation Networks" (Hu, Shen, Sun, CVPR 2018), eq. 3. All positions have the
    same weights, so the attention maps are uniform; `channel_maps` are not.

    Args:
        hidden_dim: channels after squeezing; `None` takes C / 5, as in the authors' program.
        num_groups, group_dim, data_format: as in `AttentiveGrouping`.

    Weights: `squeeze_kernels (P, C, hidden_dim)` and `excite_kernels (P, hidden_dim, C)`. All
    groups share `kernel (C, group_dim)` and `bias (group_dim,)`.

    Input: a map or a set. Output: `(B, P, group_dim)`.

    Example:
        >>> import numpy as np
        >>> layer = ChannelGrouping(num_groups=3, group_dim=8, hidden_dim=4)
        >>> layer(np.ones((2, 5, 5, 16), "float32")).shape
        TensorShape([2, 3, 8])
    """

    def build(self, input_shape):
        groups, channels = self.num_groups, self.num_channels(input_shape)
        hidden = self.hidden_dim or max(channels // 5, 1)
        self.squeeze_kernels = self.add_kernel(
            "squeeze_kernels", (groups, channels, hidden), _glorot_for_each_group
        )
        self.excite_kernels = self.add_kernel(
            "excite_kernels", (groups, hidden, channels), _glorot_for_each_group
        )
        self.kernel = self.add_kernel("kernel", (channels, self.group_dim))
        self.bias = self.add_kernel("bias", (self.group_dim,), "zeros")

    def pool_groups(self, features: Tensor, mask: Tensor | None) -> Tensor:
        pooled = _average(features, mask)
        return ops.add(ops.matmul(self._scales(pooled) * pooled[:, None], self.kernel), self.bias)

    def weighted_features(self, features: Tensor, mask: Tensor | None) -> Tensor:
        return self._scales(_average(features, mask))[:, None] * features[:, :, None]

    def _scales(self, pooled):
        # PyTorch multiplies numbers of one type alone.
        squeeze = ops.cast(self.squeeze_kernels, pooled.dtype)
        excite = ops.cast(self.excite_kernels, pooled.dtype)
        squeezed = ops.relu(ops.einsum("bc,gch->bgh", pooled, squeeze))
        return ops.sigmoid(ops.einsum("bgh,ghc->bgc", squeezed, excite))


class LinearGrouping(_Grouping):
    """Global average pooling and one linear map per group: `V_g mean_j x_j`.

    This is M-grouping, the multi-linear module of "Towards Improved and Interpretable Deep Metric
    Learning via Attentive Grouping" (section 4.3). Every group weighs all positions equally, so the
    attention maps are uniform.

    Args:
        num_groups, group_dim, data_format: as in `AttentiveGrouping`.

    Weight: `kernel (C, P * group_dim)`, group by group.

    Input: a map or a set. Output: `(B, P, group_dim)`.

    Example:
        >>> import numpy as np
        >>> LinearGrouping(num_groups=3, group_dim=8)(np.ones((2, 5, 5, 16), "float32")).shape
        TensorShape([2, 3, 8])
    """

    def build(self, input_shape):
        self.kernel = self.add_kernel(
            "kernel", (self.num_channels(input_shape), self.num_groups * self.group_dim)
        )

    def pool_groups(self, features: Tensor, mask: Tensor | None) -> Tensor:
        groups = ops.matmul(_average(features, mask), self.kernel)
        return ops.reshape(groups, (-1, self.num_groups, self.group_dim))
