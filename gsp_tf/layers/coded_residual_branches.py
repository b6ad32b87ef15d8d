"""Two coded residual transforms that must agree (Kan et al., NeurIPS 2022)."""

from typing import Any

import keras

from gsp_tf._arguments import check_at_least
from gsp_tf._typing import Tensor
from gsp_tf.layers.batch_losses import add_batch_loss
from gsp_tf.layers.coded_residual import CodedResidualTransform
from gsp_tf.layers.local_features import DataFormat, InitializerLike, LocalFeatureLayer, check_pair
from gsp_tf.ops import similarity_consistency


@keras.saving.register_keras_serializable("gsp_tf")
class CodedResidualBranches(LocalFeatureLayer):
    """Two coded residual transforms of one feature map, trained to agree on similarities.

    "Coded Residual Transform for Generalizable Deep Metric Learning" (NeurIPS 2022), section 3.3.
    The branches differ in the number of prototypes K and the dimension D. In training the layer
    adds to the loss the difference between the branches in the similarities within the batch
    (`similarity_consistency`, eqs. 4 and 5). Each branch adds the diversity of its prototypes
    (eq. 3). With a metric loss on both embeddings, the total loss is `L_DIV + λ1 L_MS + λ2 L_CON`.
    Inference uses the first embedding.

    The paper shares the weights of the branches (section 4.4). It does not say which weights two
    branches of different D can share. Here they share the prototypes and the hidden layers, and
    only the last layers differ.

    Args:
        num_prototypes: pair of K, the numbers of prototypes.
        embedding_dim: pair of D, the sizes of the embeddings.
        hidden_dim: width of the embedding networks.
        shared_network: as in `CodedResidualTransform`.
        share_weights: share everything between the branches that does not depend on D. The branch
            with fewer prototypes uses the first ones of the other branch, with their hidden layers.
        diversity_weight: weight of the diversity of each branch's prototypes; shared prototypes
            count once.
        consistency_weight: λ2, weight of the consistency of the embeddings.
        prototypes_initializer: initialiser of the prototypes.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Attributes: `first` and `second`, the two `CodedResidualTransform`.

    Input: a map or a set. Output: the pair of first `(B, D_1)` and second `(B, D_2)`.

    Raises:
        ValueError: if a parameter is out of range or not a pair where one is needed.

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
        check_pair(num_prototypes=num_prototypes, embedding_dim=embedding_dim)
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
                self.prototypes_initializer,
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
        if training and self.consistency_weight:
            add_batch_loss(self, self._consistency, first, second)
        return first, second

    def _consistency(self, first, second):
        """Weighted loss of the embeddings of a whole batch."""
        return self.consistency_weight * similarity_consistency(first, second)

    def correlation_maps(self, features: Tensor) -> Tensor:
        """Correlations of the local features with the prototypes of the first branch.

        Args:
            features: map or set, as for the layer.

        Returns:
            `(B, H, W, K_1)` for a map, `(B, n, K_1)` for a set.

        Example:
            >>> import numpy as np
            >>> layer = CodedResidualBranches((3, 4), (2, 2), 2)
            >>> layer.correlation_maps(np.ones((1, 5, 6, 7))).shape
            TensorShape([1, 5, 6, 3])
        """
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
