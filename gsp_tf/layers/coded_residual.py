"""Coded residual transform (Kan et al., NeurIPS 2022)."""

import math
from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_at_least, check_sizes
from gsp_tf._backend import softplus
from gsp_tf._numerics import at_least_float32, scaled_back, scaled_down
from gsp_tf._typing import Tensor
from gsp_tf.layers.local_features import (
    DataFormat,
    InitializerLike,
    LocalFeatureLayer,
    at_positions,
)
from gsp_tf.ops import prototype_diversity

_LARGEST = 1e30


@keras.saving.register_keras_serializable("gsp_tf")
class CodedResidualTransform(LocalFeatureLayer):
    """Embeds how the local features differ from each of several learned prototypes.

    "Coded Residual Transform for Generalizable Deep Metric Learning" (NeurIPS 2022). The n local
    features x_j and the prototypes c_k have the correlations `w_kj = x_j · c_k`. The residuals
    weighted by correlation (eq. 1) are

        r_k = (1/n) Σ_j a_kj (x_j - c_k) = (1/n) (Σ_j a_kj x_j - (Σ_j a_kj) c_k)

    with `a_kj = log(1 + exp(w_kj))`. Each prototype has a network
    `Γ_k(r) = W2_k gelu(W1_k r + b_k) + b`, and the embedding (eq. 2) is the mean of their outputs,
    `(1/K) Σ_k Γ_k(r_k)`. The second form of r_k is a matrix product: it holds the weights
    `(B, n, K)` and r `(B, K, C)`, but never the residuals `(B, n, K, C)`. The paper has no 1/n.
    This factor makes embeddings independent of the number of positions, and W1 can absorb it. All
    is computed in float32 at least. r_k grows with the square of the features. A hidden value is
    limited to 1e30, so features beyond 1e15 give finite embeddings that are too short.

    Args:
        num_prototypes: K, number of prototypes.
        embedding_dim: D, size of the embedding.
        hidden_dim: width of the embedding networks.
        shared_network: use one network for all prototypes instead of one for each.
        diversity_weight: weight of `prototype_diversity` (eq. 3), which the layer adds to the loss
            in training.
        prototypes_initializer: initialiser of the prototypes.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weights: `prototypes (K, C)`, `hidden_kernel (K, C, hidden_dim)`, `hidden_bias (K, hidden_dim)`,
    `output_kernel (K, hidden_dim, D)`, `output_bias (D,)`. A shared network has no leading K.

    Input: a map or a set. Output: `(B, D)`.

    Raises:
        ValueError: if a parameter is out of range.

    Example:
        >>> import keras
        >>> images = keras.Input((32, 32, 3))
        >>> features = keras.layers.Conv2D(16, 3)(images)
        >>> CodedResidualTransform(num_prototypes=8, embedding_dim=4, hidden_dim=6)(features).shape
        (None, 4)
    """

    def __init__(
        self,
        num_prototypes: int,
        embedding_dim: int,
        hidden_dim: int,
        shared_network: bool = False,
        diversity_weight: float = 1.0,
        prototypes_initializer: InitializerLike = "glorot_uniform",
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(
            num_prototypes=num_prototypes, embedding_dim=embedding_dim, hidden_dim=hidden_dim
        )
        check_at_least(0, diversity_weight=diversity_weight)
        self.num_prototypes = num_prototypes
        self.embedding_dim = embedding_dim
        self.hidden_dim = hidden_dim
        self.shared_network = shared_network
        self.diversity_weight = diversity_weight
        self.prototypes_initializer = keras.initializers.get(prototypes_initializer)

    def build(self, input_shape):
        channels = self.num_channels(input_shape)
        self.prototypes = self.add_weight(
            name="prototypes",
            shape=(self.num_prototypes, channels),
            initializer=self.prototypes_initializer,
            autocast=False,
        )
        self.hidden_kernel = self._kernel("hidden_kernel", channels, self.hidden_dim, 2.0)
        self.hidden_bias = self.add_weight(
            name="hidden_bias",
            shape=(*self._networks, self.hidden_dim),
            initializer="zeros",
            autocast=False,
        )
        self.build_output()

    def build_output(self):
        """Make only the weights of the last layer of the networks."""
        self.output_kernel = self._kernel("output_kernel", self.hidden_dim, self.embedding_dim, 1.0)
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.embedding_dim,), initializer="zeros", autocast=False
        )
        self.built = True

    def call(self, features, mask=None, training=None):
        return self.embed(self.encode(features, mask, training))

    def encode(
        self, features: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Hidden layer of each prototype's network.

        Args:
            features: map or set, as for the layer.
            mask: optional boolean mask of a set, `(B, n)`.
            training: whether to add the diversity of the prototypes to the loss.

        Returns:
            `(B, K, hidden_dim)`.
        """
        if training and self.diversity_weight:
            self.add_loss(self.diversity_weight * prototype_diversity(self.prototypes))
        features, mask, _ = self.as_set(features, mask)
        residuals, unit = self._residuals(features, mask)
        residuals, kernel, bias = at_least_float32(residuals, self.hidden_kernel, self.hidden_bias)
        hidden = scaled_back(ops.einsum(f"bkc,{self._k}ch->bkh", residuals, kernel), unit)
        hidden = ops.clip(hidden + bias, -_LARGEST, _LARGEST)
        # The Gaussian error linear unit of TensorFlow has a constant of float32.
        return 0.5 * hidden * (1.0 + ops.erf(hidden / math.sqrt(2.0)))

    def embed(self, hidden: Tensor) -> Tensor:
        """Last layer of the networks, averaged over the prototypes.

        Args:
            hidden: float tensor `(B, K, hidden_dim)` of `encode`.

        Returns:
            `(B, D)`.
        """
        hidden, kernel, bias = at_least_float32(hidden, self.output_kernel, self.output_bias)
        total = ops.einsum(f"bkh,{self._k}hd->bd", hidden, kernel)
        embeddings = total / self.num_prototypes + bias
        return ops.cast(embeddings, self.compute_dtype)

    def correlation_maps(self, features: Tensor) -> Tensor:
        """Correlation of every local feature with every prototype, `w_kj = x_j · c_k`.

        Figure 2 of the paper shows these maps. Eq. 1 weighs a residual by `softplus(w_kj)`.

        Args:
            features: map or set, as for the layer.

        Returns:
            `(B, H, W, K)` for a map, `(B, n, K)` for a set.

        Example:
            >>> import numpy as np
            >>> layer = CodedResidualTransform(1, 2, 2, prototypes_initializer="ones")
            >>> maps = layer.correlation_maps(np.array([[[[2.0, 2.0], [-1.0, 1.0]]]]))
            >>> maps.shape, maps.numpy().ravel().round(3).tolist()
            (TensorShape([1, 1, 2, 1]), [4.0, 0.0])
        """
        features, _, positions = self.as_set(self._prepare(features))
        return at_positions(self._correlations(features), positions)

    def _correlations(self, features):
        """Correlations w `(B, n, K)` of a set `(B, n, C)`."""
        features, prototypes = at_least_float32(features, self.prototypes)
        return ops.matmul(features, ops.transpose(prototypes))

    def _residuals(self, features, mask):
        """Weighted residuals `(B, K, C)` of a set, divided by a unit, and the unit `(B, 1, 1)`."""
        features, prototypes = at_least_float32(features, self.prototypes)
        weights = softplus(self._correlations(features))
        features, unit = scaled_down(features, axis=(1, 2), limit=1.0)
        if mask is None:
            count = ops.cast(ops.shape(features)[1], features.dtype)
        else:
            mask = ops.expand_dims(ops.cast(mask, features.dtype), -1)
            count = ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1)
            weights = weights * mask
        weights = weights / count
        totals = ops.expand_dims(ops.sum(weights, axis=1), -1)
        return ops.einsum("bnk,bnc->bkc", weights, features) - totals * (prototypes / unit), unit

    @property
    def _networks(self):
        """Leading dimensions of the weights of the networks."""
        return () if self.shared_network else (self.num_prototypes,)

    @property
    def _k(self):
        """Index of the networks in an einsum."""
        return "" if self.shared_network else "k"

    def _kernel(self, name, inputs, outputs, gain):
        """Kernels of variance gain / inputs, one for each network."""
        shape = (*self._networks, inputs, outputs)
        # Keras counts the networks among the inputs.
        scale = gain if self.shared_network else gain * self.num_prototypes
        initializer = keras.initializers.VarianceScaling(scale, mode="fan_in")
        return self.add_weight(name=name, shape=shape, initializer=initializer, autocast=False)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.embedding_dim)

    def compute_mask(self, inputs, mask=None):
        return None
