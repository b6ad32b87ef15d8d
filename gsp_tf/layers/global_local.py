"""The two heads of multi-head embeddings (Ebrahimpour, Qian, Beach, WACV 2022)."""

import keras
from keras import ops

from gsp_tf.layers.local_features import LocalFeatureLayer
from gsp_tf.layers.second_order_attention import SecondOrderAttention
from gsp_tf.ops.precision import at_least_float32


@keras.saving.register_keras_serializable("gsp_tf")
class GlobalLocalEmbedding(LocalFeatureLayer):
    """Embedding of which one half describes the whole image and the other one its parts.

    "Multi-Head Deep Metric Learning Using Global and Local Representations", section 3. The global
    head takes the last map of a backbone (conv5), the local head an earlier one (conv4), enhanced
    by second-order attention. Each is pooled by average plus maximum and projected to D/2 by a
    whitening layer, which is a fully connected layer with a bias, learned with the rest; the
    embedding is both halves side by side, the global one first.

    Args:
        dim: D, even dimension of the embedding.
        key_dim: channels of the queries, keys and values of the attention.
        scale: factor of the correlations of the attention.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: the pair of the local map `(B, H, W, C)` and the global map `(B, H', W', C')`, in the
    order in which `gsp_tf.backbones.create(..., intermediate=True)` gives them.

    Output: `(B, D)`.

    Raises:
        ValueError: if `dim` is not even and positive, or the input is no pair of maps.

    Example:
        >>> from gsp_tf import backbones
        >>> backbone = backbones.create("bn_inception", (64, 64, 3), intermediate=True)
        >>> embeddings = GlobalLocalEmbedding(dim=128, key_dim=256)(backbone.output)
        >>> keras.Model(backbone.input, embeddings).output_shape
        (None, 128)
    """

    def __init__(self, dim, key_dim, scale=1.0, data_format=None, **kwargs):
        super().__init__(data_format=data_format, **kwargs)
        if dim < 2 or dim % 2:
            raise ValueError(f"dim must be even and at least 2, received {dim}.")
        self.dim = dim
        self.attention = SecondOrderAttention(
            key_dim, scale, data_format=data_format, dtype=self.dtype_policy, name="attention"
        )

    def build(self, input_shape):
        if len(input_shape) != 2 or not isinstance(input_shape[0], (tuple, list)):
            raise ValueError(
                "GlobalLocalEmbedding takes the pair of a local and a global map, "
                f"received shape {input_shape}."
            )
        local_shape, global_shape = input_shape
        self.attention.build(local_shape)
        self.local_whitening = self._whitening(local_shape, "local_whitening")
        self.global_whitening = self._whitening(global_shape, "global_whitening")

    def call(self, maps, training=None):
        local_map, global_map = maps
        local_map = self.attention(local_map, training=training)
        halves = [
            self.global_whitening(self._average_and_maximum(global_map)),
            self.local_whitening(self._average_and_maximum(local_map)),
        ]
        return ops.concatenate(halves, axis=-1)

    def compute_output_shape(self, input_shape):
        return (input_shape[0][0], self.dim)

    def get_config(self):
        return {
            **super().get_config(),
            "dim": self.dim,
            "key_dim": self.attention.key_dim,
            "scale": self.attention.scale,
        }

    def _average_and_maximum(self, features):
        features = at_least_float32(self.as_set(features)[0])
        return ops.mean(features, axis=1) + ops.max(features, axis=1)

    def _whitening(self, input_shape, name):
        layer = keras.layers.Dense(self.dim // 2, dtype=self.dtype_policy, name=name)
        layer.build((None, self.num_channels(input_shape)))
        return layer
