"""The two heads of multi-head embeddings (Ebrahimpour, Qian, Beach, WACV 2022)."""

from collections.abc import Sequence
from typing import Any, Literal

import keras
from keras import ops, tree

from gsp_tf._arguments import check_choice, check_sizes
from gsp_tf._numerics import at_least_float32
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import DataFormat, LocalFeatureLayer
from gsp_tf.layers.second_order_attention import SecondOrderAttention

_Heads = Literal["both", "global", "local", "single"]
_HEADS = {
    "both": ("global", "local"),
    "global": ("global",),
    "local": ("local",),
    "single": ("single",),
}


class GlobalLocalEmbedding(LocalFeatureLayer):
    """Embedding with one half for the whole image and one half for its parts.

    "Multi-Head Deep Metric Learning Using Global and Local Representations" (WACV 2022), section 3.
    The global head takes the last map of a backbone (conv5), and the local head takes an earlier
    one (conv4). Each head enhances its map by its own second-order attention (eqs. 1 to 3) and adds
    the average and the maximum over the positions (eq. 4). A fully connected layer with a bias,
    which the paper calls whitening, maps the sum to D/2 values. The embedding is the concatenation
    of both halves, with the global one first.

    Args:
        dim: D, dimension of the embedding; even with `heads="both"`.
        key_dim: d, channels of the queries, keys and values of each attention.
        scale: ζ, factor of the correlations.
        heads: "both"; "global" or "local" for an embedding of one map; or "single" for one head on
            both maps. "single" puts the positions of the local map that lie within one position of
            the global map side by side in its channels (the focus layer of section 4.5).
        attention: whether the heads have second-order attention.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: the pair of the local map `(B, H, W, C)` and the global map `(B, H', W', C')`, in the
    order of `gsp_tf.backbones.create(..., intermediate=True)`. With `heads="global"` or `"local"`,
    the map alone is also accepted. With `"single"`, H and W are known multiples of H' and W'.

    Output: `(B, D)`.

    Example:
        >>> from gsp_tf import backbones
        >>> backbone = backbones.create("bn_inception", (64, 64, 3), intermediate=True)
        >>> embeddings = GlobalLocalEmbedding(dim=128, key_dim=256)(backbone.output)
        >>> keras.Model(backbone.input, embeddings).output_shape
        (None, 128)
    """

    def __init__(
        self,
        dim: int,
        key_dim: int,
        scale: float = 1.0,
        heads: _Heads = "both",
        attention: bool = True,
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_choice("heads", heads, _Heads)
        check_sizes(dim=dim, key_dim=key_dim)
        names = _HEADS[heads]
        if dim % len(names):
            raise ValueError(
                f"dim must be a multiple of {len(names)} with heads={heads!r}, received {dim}."
            )
        self.dim = int(dim)
        self.key_dim = key_dim
        self.scale = scale
        self.heads = heads
        self.attention = attention
        self._parts = {name: self._head(name, self.dim // len(names)) for name in names}

    def build(self, input_shape):
        is_pair = isinstance(input_shape[0], (tuple, list))
        takes_one = self.heads in ("global", "local")
        if len(input_shape) != 2 if is_pair else not takes_one:
            raise ValueError(
                "GlobalLocalEmbedding takes the pair of a local and a global map, "
                f"received shape {input_shape} with heads={self.heads!r}."
            )
        for name, head in self._parts.items():
            if name == "single":
                head.build(self._joint_shape(*input_shape))
            elif is_pair:
                head.build(input_shape[0 if name == "local" else 1])
            else:
                head.build(input_shape)

    def call(self, maps, training=None):
        outputs = [
            head(self._map_of(name, maps), training=training) for name, head in self._parts.items()
        ]
        return ops.concatenate(outputs, axis=-1)

    def attention_maps(
        self,
        maps: Tensor | Sequence[Tensor],
        head: Literal["local", "global", "single"] | None = None,
        position: Sequence[int] | None = None,
    ) -> Tensor:
        """Attention in the map of one head, as in `SecondOrderAttention.attention_maps`.

        Args:
            maps: the local and the global map, as for the layer.
            head: `None` takes the local head of two, or the only head.
            position: `(row, column)` in the head's map, to show where that position looks (Fig. 6);
                `None` for the mean over all positions.

        Returns:
            `(B, H, W)` of the head's map; each sums to 1.

        Raises:
            ValueError: if the layer has no attention, no such head or no such position.

        Example:
            >>> import numpy as np
            >>> maps = [np.ones((1, 4, 4, 6), "float32"), np.ones((1, 2, 2, 8), "float32")]
            >>> layer = GlobalLocalEmbedding(dim=4, key_dim=2)
            >>> layer.attention_maps(maps, head="global", position=(0, 1)).numpy().tolist()
            [[[0.25, 0.25], [0.25, 0.25]]]
        """
        head = head or list(self._parts)[-1]
        if not self.attention:
            raise ValueError("There are no attention maps with attention=False.")
        if head not in self._parts:
            raise ValueError(
                f"head must be one of {', '.join(self._parts)} with heads={self.heads!r}, "
                f"received {head!r}."
            )
        maps = tree.map_structure(ops.convert_to_tensor, maps)
        if not self.built:
            self.build(tree.map_structure(lambda each: tuple(each.shape), maps))
        attention = self._parts[head].attention
        return attention.attention_maps(self._map_of(head, maps), position=position)

    def compute_output_shape(self, input_shape):
        first = input_shape[0]
        return (first[0] if isinstance(first, (tuple, list)) else first, self.dim)

    def _head(self, name, dim):
        attention = None
        data_format = "channels_last" if name == "single" else self.data_format
        arguments = {"data_format": data_format, "dtype": self.dtype_policy}
        if self.attention:
            attention = SecondOrderAttention(
                self.key_dim, self.scale, name="attention", **arguments
            )
        return _Head(dim, attention, name=f"{name}_head", **arguments)

    def _map_of(self, name, maps):
        if name == "single":
            return self._joint_map(*maps)
        if not isinstance(maps, (tuple, list)):
            return maps
        return maps[0 if name == "local" else 1]

    def _joint_shape(self, local_shape, global_shape):
        """Shape `(B, H', W', C'')` of both maps side by side."""
        local_channels = self.num_channels(local_shape)
        global_channels = self.num_channels(global_shape)
        (height, width), (rows, columns) = (
            self._grid(shape) for shape in (local_shape, global_shape)
        )
        if not (rows and columns and height and width) or height % rows or width % columns:
            raise ValueError(
                'heads="single" takes maps of known height and width, those of the local one '
                f"multiples of those of the global one; received {tuple(local_shape)} and "
                f"{tuple(global_shape)}."
            )
        local_channels *= (height // rows) * (width // columns)
        return (global_shape[0], rows, columns, local_channels + global_channels)

    def _joint_map(self, local_map, global_map):
        """The local map after space to depth and the global map, side by side."""
        if self.data_format == "channels_first":
            local_map, global_map = (
                ops.transpose(each, (0, 2, 3, 1)) for each in (local_map, global_map)
            )
        _, height, width, channels = local_map.shape
        _, rows, columns, _ = global_map.shape
        down, right = height // rows, width // columns
        blocks = ops.reshape(local_map, (-1, rows, down, columns, right, channels))
        blocks = ops.transpose(blocks, (0, 1, 3, 2, 4, 5))
        focused = ops.reshape(blocks, (-1, rows, columns, down * right * channels))
        return ops.concatenate([focused, global_map], axis=-1)

    def _grid(self, shape):
        if len(shape) != 4:
            return None, None
        return tuple(shape[2:] if self._is_channels_first(shape) else shape[1:3])


class _Head(LocalFeatureLayer):
    """Attention, average plus maximum, and the fully connected layer of one map."""

    def __init__(self, dim, attention, **kwargs):
        super().__init__(**kwargs)
        self.dim = dim
        self.attention = attention
        self.whitening = keras.layers.Dense(dim, dtype=self.dtype_policy, name="whitening")

    def build(self, input_shape):
        if self.attention is not None:
            self.attention.build(input_shape)
        self.whitening.build((None, self.num_channels(input_shape)))

    def call(self, features, training=None):
        if self.attention is not None:
            features = self.attention(features, training=training)
        features = at_least_float32(self.as_set(features)[0])
        return self.whitening(ops.mean(features, axis=1) + ops.max(features, axis=1))
