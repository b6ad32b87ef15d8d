"""Coded residual transform, and two branches that must agree (Kan et al., NeurIPS 2022)."""

import math
from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_at_least, check_sizes
from gsp_tf._backend import softplus
from gsp_tf._config import constructor_config
from gsp_tf._numerics import at_least_float32, average_weights, scaled_back, scaled_down
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import (
    DataFormat,
    InitializerLike,
    LocalFeatureLayer,
    at_positions,
)
from gsp_tf.layers.batch_losses import add_batch_loss
from gsp_tf.ops import prototype_diversity, similarity_consistency

_LARGEST = 1e30


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
        diversity_weight: weight >= 0 of `prototype_diversity` (eq. 3), which the layer adds to the
            loss in training.
        prototypes_initializer: initialiser of the prototypes.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weights: `prototypes (K, C)`, `hidden_kernel (K, C, hidden_dim)`, `hidden_bias (K, hidden_dim)`,
    `output_kernel (K, hidden_dim, D)`, `output_bias (D,)`. A shared network has no leading K.

    Input: a map or a set. Output: `(B, D)`.

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
        self.prototypes = self.add_kernel(
            "prototypes", (self.num_prototypes, channels), self.prototypes_initializer
        )
        self.hidden_kernel = self._kernel("hidden_kernel", channels, self.hidden_dim, 2.0)
        shape = (*self._networks, self.hidden_dim)
        self.hidden_bias = self.add_kernel("hidden_bias", shape, "zeros")
        self.build_output()

    def build_output(self):
        """Make only the weights of the last layer of the networks."""
        self.output_kernel = self._kernel("output_kernel", self.hidden_dim, self.embedding_dim, 1.0)
        self.output_bias = self.add_kernel("output_bias", (self.embedding_dim,), "zeros")
        self.built = True

    def call(self, features, mask=None, training=None):
        return self.embed(self.encode(features, mask, training))

    def encode(
        self, features: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Hidden layer `(B, K, hidden_dim)` of each prototype's network, of a map or set.

        In training it adds the diversity of the prototypes to the loss.
        """
        if training and self.diversity_weight:
            self.add_loss(self.diversity_weight * prototype_diversity(self.prototypes))
        features, mask, _ = self.as_set(features, mask)
        residuals, unit = self._residuals(features, mask)
        residuals, kernel, bias = at_least_float32(residuals, self.hidden_kernel, self.hidden_bias)
        product = "bkc,ch->bkh" if self.shared_network else "bkc,kch->bkh"
        hidden = scaled_back(ops.einsum(product, residuals, kernel), unit)
        hidden = ops.clip(hidden + bias, -_LARGEST, _LARGEST)
        # The Gaussian error linear unit of TensorFlow has a constant of float32.
        return 0.5 * hidden * (1.0 + ops.erf(hidden / math.sqrt(2.0)))

    def embed(self, hidden: Tensor) -> Tensor:
        """Mean `(B, D)` of the last layers of the networks, of what `encode` gives."""
        hidden, kernel, bias = at_least_float32(hidden, self.output_kernel, self.output_bias)
        if self.shared_network:  # LiteRT has no product that also sums over the prototypes
            total = ops.matmul(ops.sum(hidden, axis=1), kernel)
        else:
            total = ops.einsum("bkh,khd->bd", hidden, kernel)
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
        average = ops.expand_dims(average_weights(features, mask), -1)
        weights = average * softplus(self._correlations(features))
        features, unit = scaled_down(features, axis=(1, 2), limit=1.0)
        totals = ops.expand_dims(ops.sum(weights, axis=1), -1)
        return ops.einsum("bnk,bnc->bkc", weights, features) - totals * (prototypes / unit), unit

    @property
    def _networks(self):
        """Leading dimensions of the weights of the networks."""
        return () if self.shared_network else (self.num_prototypes,)

    def _kernel(self, name, inputs, outputs, gain):
        """Kernels of variance gain / inputs, one for each network."""
        shape = (*self._networks, inputs, outputs)
        # Keras counts the networks among the inputs.
        scale = gain if self.shared_network else gain * self.num_prototypes
        initializer = keras.initializers.VarianceScaling(scale, mode="fan_in")
        return self.add_kernel(name, shape, initializer)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.embedding_dim)

    def compute_mask(self, inputs, mask=None):
        return None


class CodedResidualBranches(LocalFeatureLayer):
    """Two coded residual transforms of one feature map, trained to agree on similarities.

    "Coded Residual Transform for Generalizable Deep Metric Learning" (NeurIPS 2022), section 3.3.
    The branches differ in the number of prototypes K and the dimension D. In training the layer
    adds to the loss the difference between the branches in the similarities within the batch
    (`similarity_consistency`, eqs. 4 and 5). Each branch adds the diversity of its prototypes
    (eq. 3). With a metric loss on both embeddings, the total loss is `L_DIV + λ1 L_MS + λ2 L_CON`.
    Inference uses the first embedding.

    Where the paper shares the weights of the branches (section 4.4), they share the prototypes and
    the hidden layers here, and only the last layers differ.

    Args:
        num_prototypes: pair of K, the numbers of prototypes.
        embedding_dim: pair of D, the sizes of the embeddings.
        hidden_dim: width of the embedding networks.
        shared_network: as in `CodedResidualTransform`.
        share_weights: share everything between the branches that does not depend on D. The branch
            with fewer prototypes uses the first ones of the other branch, with their hidden layers.
        diversity_weight: weight of the diversity of each branch's prototypes; shared prototypes
            count once.
        consistency_weight: λ2 >= 0, weight of the consistency of the embeddings.
        prototypes_initializer: initialiser of the prototypes.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Attributes: `first` and `second`, the two `CodedResidualTransform`.

    Input: a map or a set. Output: the pair of first `(B, D_1)` and second `(B, D_2)`.

    Example:
        >>> import keras
        >>> from gsp_tf.losses import MultiSimilarityLoss
        >>> from gsp_tf.training import MetricLearner
        >>> images = keras.Input((32, 32, 3))
        >>> features = keras.layers.Conv2D(16, 3)(images)
        >>> branches = CodedResidualBranches((8, 8), (4, 5), hidden_dim=6)(features)
        >>> embedder = keras.Model(images, branches)
        >>> embedder.output_shape
        [(None, 4), (None, 5)]
        >>> losses = {"first": MultiSimilarityLoss(), "second": MultiSimilarityLoss()}
        >>> learner = MetricLearner(embedder, losses, loss_weights={"second": 0.1})
    """

    def __init__(
        self,
        num_prototypes: tuple[int, int],
        embedding_dim: tuple[int, int],
        hidden_dim: int,
        shared_network: bool = False,
        share_weights: bool = True,
        diversity_weight: float = 1.0,
        consistency_weight: float = 0.9,
        prototypes_initializer: InitializerLike = "glorot_uniform",
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        _check_pair(num_prototypes=num_prototypes, embedding_dim=embedding_dim)
        check_at_least(0, consistency_weight=consistency_weight)
        self.num_prototypes = tuple(num_prototypes)
        self.embedding_dim = tuple(embedding_dim)
        self.hidden_dim = hidden_dim
        self.shared_network = shared_network
        self.share_weights = share_weights
        self.diversity_weight = diversity_weight
        self.consistency_weight = consistency_weight
        self.prototypes_initializer = keras.initializers.get(prototypes_initializer)
        self.first, self.second = (
            CodedResidualTransform(
                count,
                dim,
                hidden_dim,
                shared_network,
                diversity_weight,
                self.prototypes_initializer.clone(),  # a second call would repeat its draws
                self.data_format,
                dtype=self.dtype_policy,
                name=name,
            )
            for name, count, dim in zip(
                ("first", "second"), num_prototypes, embedding_dim, strict=True
            )
        )

    def build(self, input_shape):
        self._wider.build(input_shape)
        if self.share_weights:
            self._narrower.build_output()
        else:
            self._narrower.build(input_shape)

    def call(self, features, mask=None, training=None):
        if self.share_weights:
            hidden = self._wider.encode(features, mask, training)
            first, second = (
                branch.embed(hidden[:, : branch.num_prototypes])
                for branch in (self.first, self.second)
            )
        else:
            first, second = (
                branch(features, mask=mask, training=training)
                for branch in (self.first, self.second)
            )
        if training:
            _add_consistency(self, first, second)
        return first, second

    def correlation_maps(self, features: Tensor) -> Tensor:
        """`CodedResidualTransform.correlation_maps` of the first branch, with its K prototypes."""
        features = self._prepare(features)
        branch = self._wider if self.share_weights else self.first
        return branch.correlation_maps(features)[..., : self.first.num_prototypes]

    @property
    def _wider(self):
        """The branch with more prototypes."""
        return max(self.first, self.second, key=lambda branch: branch.num_prototypes)

    @property
    def _narrower(self):
        return self.first if self._wider is self.second else self.second

    def compute_output_shape(self, input_shape):
        return tuple((input_shape[0], b.embedding_dim) for b in (self.first, self.second))

    def compute_mask(self, inputs, mask=None):
        return None, None


class DenseBranches(keras.layers.Layer):
    """Two dense layers on one feature, trained to agree on similarities.

    This is `CodedResidualBranches` without the coded residual transform: the row "-CRT" in the
    ablation of "Coded Residual Transform for Generalizable Deep Metric Learning" (NeurIPS 2022),
    Table 6. In training the layer adds `similarity_consistency` (eqs. 4 and 5) to the loss.

    Args:
        embedding_dim: pair of D, the sizes of the embeddings.
        consistency_weight: λ2 >= 0, weight of the consistency of the embeddings.

    Attributes: `first` and `second`, two `keras.layers.Dense` without bias.

    Input: pooled features `(B, C)`. Output: the pair of first `(B, D_1)` and second `(B, D_2)`.

    Example:
        >>> import keras
        >>> pooled = keras.Input((16,))
        >>> [branch.shape for branch in DenseBranches((4, 5))(pooled)]
        [(None, 4), (None, 5)]
    """

    def __init__(
        self, embedding_dim: tuple[int, int], consistency_weight: float = 0.9, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        _check_pair(embedding_dim=embedding_dim)
        check_at_least(0, consistency_weight=consistency_weight)
        self.embedding_dim = tuple(map(int, embedding_dim))
        self.consistency_weight = consistency_weight
        self.first, self.second = (
            keras.layers.Dense(dim, use_bias=False, dtype=self.dtype_policy, name=name)
            for name, dim in zip(("first", "second"), self.embedding_dim, strict=True)
        )

    def build(self, input_shape):
        self.first.build(input_shape)
        self.second.build(input_shape)

    def call(self, features, training=None):
        first, second = self.first(features), self.second(features)
        if training:
            _add_consistency(self, first, second)
        return first, second

    def compute_output_shape(self, input_shape):
        return tuple((input_shape[0], branch.units) for branch in (self.first, self.second))

    def get_config(self):
        return {**super().get_config(), **constructor_config(self)}


def _add_consistency(layer, first, second):
    """Add λ2 L_CON of the embeddings of a whole batch to the losses of a layer."""
    weight = layer.consistency_weight
    if weight:
        add_batch_loss(layer, lambda *both: weight * similarity_consistency(*both), first, second)


def _check_pair(**pairs):
    """Refuse a named value that is not a pair of sizes."""
    for name, pair in pairs.items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(f"{name} must be a pair, one for each branch, received {pair!r}.")
        for size in pair:
            check_sizes(**{name: size})
