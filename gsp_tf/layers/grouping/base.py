"""What grouping layers share: the groups and the maps of where each one looks."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._numerics import at_least_float32, average_weights
from gsp_tf._typing import Tensor
from gsp_tf.layers.local_features import DataFormat, LocalFeatureLayer, at_positions


class LocalFeatureGrouping(LocalFeatureLayer):
    """Base of the layers that pool local features once per group.

    Group g weighs the n local features x_j channel by channel and maps their sum linearly:
    `V_g (Σ_j w_gj ⊙ x_j)`. A subclass implements `pool_groups(features, mask)`. It also implements
    `attention(features, mask)` unless its weights are the same at every position. Both receive the
    features as a set `(B, n, C)` of at least 32 bits.

    Args:
        num_groups: P, number of groups.
        group_dim: dimension of each group.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Example:
        >>> from gsp_tf.layers import LinearGrouping
        >>> isinstance(LinearGrouping(num_groups=3, group_dim=8), LocalFeatureGrouping)
        True
    """

    def __init__(
        self, num_groups: int, group_dim: int, data_format: DataFormat | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(num_groups=num_groups, group_dim=group_dim)
        self.num_groups = num_groups
        self.group_dim = group_dim

    def add_kernel(
        self, name: str, shape: tuple[int, ...], initializer: Any = "glorot_uniform"
    ) -> keras.Variable:
        """Add a weight that keeps its type under mixed precision."""
        return self.add_weight(name=name, shape=shape, initializer=initializer, autocast=False)

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

        Args:
            features: map or set, as for the layer.
            mask: optional boolean mask of a set, `(B, n)`.

        Returns:
            `(B, H, W, groups)` for a map, `(B, n, groups)` for a set; each group sums to 1 over the
            positions.

        Example:
            >>> import numpy as np
            >>> from gsp_tf.layers import ChannelGrouping
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


def average(features, mask):
    """Average `(B, C)` of the features `(B, n, C)` that the mask keeps, 0 if it keeps none."""
    return ops.einsum("bn,bnc->bc", average_weights(features, mask), features)


def share_of_channels(channels, divisor):
    """Number of channels divided by a divisor, at least 1."""
    return max(channels // divisor, 1)


def glorot_for_each_group(shape, dtype=None):
    """Glorot initialisation of a stack of kernels `(groups, inputs, outputs)`, kernel by kernel."""
    return ops.stack(
        [keras.initializers.GlorotUniform()(shape[1:], dtype) for _ in range(shape[0])]
    )
