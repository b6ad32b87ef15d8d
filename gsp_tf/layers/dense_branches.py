"""Two dense layers that must agree (Kan et al., NeurIPS 2022, Table 6)."""

from typing import Any

import keras

from gsp_tf._arguments import check_at_least
from gsp_tf._config import constructor_config
from gsp_tf.layers.batch_losses import add_batch_loss
from gsp_tf.layers.local_features import check_pair
from gsp_tf.ops import similarity_consistency


@keras.saving.register_keras_serializable("gsp_tf")
class DenseBranches(keras.layers.Layer):
    """Two dense layers on one feature, trained to agree on similarities.

    This is `CodedResidualBranches` without the coded residual transform: the row "-CRT" in the
    ablation of "Coded Residual Transform for Generalizable Deep Metric Learning" (NeurIPS 2022),
    Table 6. In training the layer adds `similarity_consistency` (eqs. 4 and 5) to the loss.

    Args:
        embedding_dim: pair of D, the sizes of the embeddings.
        consistency_weight: λ2, weight of the consistency of the embeddings.

    Attributes: `first` and `second`, two `keras.layers.Dense` without bias.

    Input: pooled features `(B, C)`. Output: the pair of first `(B, D_1)` and second `(B, D_2)`.

    Raises:
        ValueError: if a parameter is out of range or not a pair where one is needed.

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
        check_pair(embedding_dim=embedding_dim)
        check_at_least(0, consistency_weight=consistency_weight)
        self.embedding_dim = tuple(embedding_dim)
        self.consistency_weight = consistency_weight
        self.first, self.second = (
            keras.layers.Dense(dim, use_bias=False, dtype=self.dtype_policy, name=name)
            for name, dim in zip(("first", "second"), embedding_dim, strict=True)
        )

    def build(self, input_shape):
        self.first.build(input_shape)
        self.second.build(input_shape)

    def call(self, features, training=None):
        first, second = self.first(features), self.second(features)
        if training and self.consistency_weight:
            add_batch_loss(self, self._consistency, first, second)
        return first, second

    def _consistency(self, first, second):
        """Weighted loss of the embeddings of a whole batch."""
        return self.consistency_weight * similarity_consistency(first, second)

    def compute_output_shape(self, input_shape):
        return tuple((input_shape[0], branch.units) for branch in (self.first, self.second))

    def get_config(self):
        return {**super().get_config(), **constructor_config(self)}
