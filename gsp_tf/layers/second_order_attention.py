"""Second-order attention between local features (Ng et al. 2020; Ebrahimpour et al. 2022)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
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
from gsp_tf.layers._local_features import (
    DataFormat,
    LocalFeatureLayer,
    at_positions,
    with_finite_variance,
)


class SecondOrderAttention(LocalFeatureLayer):
    """Adds to every local feature information from the features that correlate with it.

    "Multi-Head Deep Metric Learning Using Global and Local Representations" (WACV 2022), eqs. 1 to
    3, after "SOLAR: Second-Order Loss and Attention for Image Retrieval" (ECCV 2020). With queries
    q, keys k and values v, each a 1 x 1 convolution of the features f, the layer computes

        a = softmax(ζ qᵀk),      f_soa = f + φ(a v),

    where row i of a sums to 1 over the n positions, and φ is a 1 x 1 convolution back to C
    channels. As in SOLAR's model, φ (ψ there) starts at 0, so the layer starts as the identity.
    Memory grows with n². Correlations may exceed the range of float32; only their differences
    within a row are formed.

    Args:
        key_dim: d, channels of q, k and v.
        scale: ζ, factor of the correlations; SOLAR uses `key_dim ** -0.5`.
        batch_normalization: apply batch normalisation and a ReLU to q and k, as SOLAR's model does.
            In training, values beyond 1e15 count as 1e15, so that its statistics are finite.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map or a set. Features that a mask leaves out are set to 0 and get no attention.
    Output: the same shape as the input.

    Example:
        >>> import numpy as np
        >>> features = np.ones((2, 5, 5, 8), "float32")
        >>> SecondOrderAttention(key_dim=4)(features).shape
        TensorShape([2, 5, 5, 8])
    """

    def __init__(
        self,
        key_dim: int,
        scale: float = 1.0,
        batch_normalization: bool = False,
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(key_dim=key_dim)
        self.key_dim = int(key_dim)
        self.scale = scale
        self.batch_normalization = batch_normalization
        self.supports_masking = True

    def build(self, input_shape):
        channels = self.num_channels(input_shape)
        self.query = self.add_dense("query", channels, self.key_dim)
        self.key = self.add_dense("key", channels, self.key_dim)
        self.value = self.add_dense("value", channels, self.key_dim)
        self.psi = self.add_dense("psi", self.key_dim, channels, kernel_initializer="zeros")
        if self.batch_normalization:
            shape = (None, None, self.key_dim)
            self.query_normalization = self.add_normalization("query_normalization", shape)
            self.key_normalization = self.add_normalization("key_normalization", shape)

    def call(self, features, mask=None, training=None):
        local, mask, positions = self.as_set(features, mask)
        attention = self._attention(local, mask, training)
        attended = ops.matmul(ops.cast(attention, self.compute_dtype), self.value(local))
        enhanced = local + self.psi(attended)
        enhanced = at_positions(enhanced, positions)
        if self._is_channels_first(features.shape):
            return ops.transpose(enhanced, (0, 3, 1, 2))
        return enhanced

    def attention_maps(
        self,
        features: Tensor,
        mask: Tensor | None = None,
        position: int | Sequence[int] | None = None,
    ) -> Tensor:
        """Share of the attention that each position receives, from one position or from all.

        Args:
            features: map or set, as for the layer.
            mask: optional boolean mask of a set, `(B, n)`.
            position: `(row, column)` in a map or index in a set, to return its row of a (Fig. 6 of
                the multi-head paper); `None` for the mean over all rows.

        Returns:
            `(B, H, W)` for a map, `(B, n)` for a set; each sums to 1.

        Example:
            >>> import numpy as np
            >>> attention = SecondOrderAttention(key_dim=2)
            >>> attention.attention_maps(np.ones((1, 2, 2, 3), "float32")).numpy().tolist()
            [[[0.25, 0.25], [0.25, 0.25]]]
        """
        features, mask, positions = self.as_set(self._prepare(features), mask)
        attention = self._attention(features, mask, training=False)
        if position is not None:
            return at_positions(attention[:, _index(position, positions)], positions)
        # All rows count equally, except those that the mask leaves out.
        rows = average_weights(attention, mask)
        return at_positions(ops.einsum("bi,bij->bj", rows, attention), positions)

    def compute_output_shape(self, input_shape):
        return input_shape

    def _attention(self, features, mask, training):
        """Attention a `(B, n, n)` of a set `(B, n, C)`."""
        queries, keys = self.query(features), self.key(features)
        if self.batch_normalization:
            arguments = {"mask": mask, "training": training}
            queries, keys = (with_finite_variance(x, training) for x in (queries, keys))
            queries = ops.relu(self.query_normalization(queries, **arguments))
            keys = ops.relu(self.key_normalization(keys, **arguments))
        queries, keys = at_least_float32(queries, keys)
        queries, query_unit = scaled_down(self.scale * queries)
        keys, key_unit = scaled_down(keys, axis=(-2, -1))
        scores = ops.matmul(queries, ops.swapaxes(keys, -1, -2))
        if mask is not None:
            mask = ops.cast(mask, "bool")[:, None]
            scores = ops.where(mask, scores, float(np.finfo("float32").min))
        largest = ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True))
        differences = (scores - largest) * scaled_back(query_unit, key_unit)
        return masked_softmax(differences, mask)


def _index(position, positions):
    """Index in the set of a position, given the shape of the positions of its map or set."""
    position, sizes = np.atleast_1d(position), [int(size) for size in positions]
    if position.shape != (len(sizes),) or (position < 0).any() or (position >= sizes).any():
        raise ValueError(f"position must lie within {tuple(sizes)}, received {position.tolist()}.")
    return int(np.ravel_multi_index(position, sizes))
