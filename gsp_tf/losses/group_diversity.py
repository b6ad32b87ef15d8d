"""Diversity of the groups of A-grouping (Xu et al.)."""

import keras
from keras import ops

from gsp_tf._backend import softplus
from gsp_tf._config import Guarded, constructor_config
from gsp_tf.losses._inputs import as_float_tensor
from gsp_tf.ops import l2_normalize


@keras.saving.register_keras_serializable("gsp_tf")
class GroupDiversityLoss(Guarded, keras.losses.Loss):
    """Pushes the group embeddings of an image apart.

    `mean_i mean_{p<q} log(1 + exp(α β_0 (s_pq - μ)))` with cosine similarities s between the groups
    p and q of image i. This is the binomial deviance of negative pairs, averaged over pairs of
    groups. "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping" (Xu et
    al.), eqs. 4 and 14. Table 1 prints β_0 = 1 (`weight=1.0`); the default is 25, as in the
    authors' program and in `BinomialDevianceLoss`. The paper gives no value of μ; the default is
    the m of the metric loss, as in that program. The paper calls s a distance, but the loss pushes
    groups apart only if s is a similarity.

    Args:
        alpha: α, scale of the similarities.
        margin: μ, similarity above which a pair of groups costs much.
        weight: β_0, factor of the exponent.
        name: name of the loss.

    Call: `loss(labels, embeddings)` takes embeddings `(B, groups, D)` and returns a scalar. The
    labels are ignored and may be `None`.

    Raises:
        ValueError: if the embeddings are not `(B, groups, D)`, or `sample_weight` is given.

    Example:
        >>> import numpy as np
        >>> same = np.ones((2, 3, 8), "float32")
        >>> float(GroupDiversityLoss()(None, same))
        25.0
    """

    def __init__(
        self,
        alpha: float = 2.0,
        margin: float = 0.5,
        weight: float = 25.0,
        name: str = "group_diversity_loss",
    ) -> None:
        super().__init__(name=name)
        self.alpha = alpha
        self.margin = margin
        self.weight = weight

    def __call__(self, labels, embeddings, sample_weight=None):
        if sample_weight is not None:
            raise ValueError("GroupDiversityLoss takes no sample_weight.")
        self.keep_if_traced(embeddings)
        embeddings = as_float_tensor(embeddings)
        if len(embeddings.shape) != 3 or embeddings.shape[1] is None:
            raise ValueError(
                "GroupDiversityLoss takes embeddings (B, groups, D), "
                f"received shape {tuple(embeddings.shape)}."
            )
        num_groups = embeddings.shape[1]
        unit = l2_normalize(embeddings)
        similarities = ops.matmul(unit, ops.transpose(unit, (0, 2, 1)))
        terms = softplus(self.alpha * self.weight * (similarities - self.margin))
        pairs = ops.triu(ops.ones((num_groups, num_groups), dtype=terms.dtype), k=1)
        num_pairs = max(num_groups * (num_groups - 1) // 2, 1)
        return ops.mean(ops.sum(pairs * terms, axis=(1, 2))) / num_pairs

    def get_config(self):
        return constructor_config(self)
