"""Diversity of groups and the objective of grouped embeddings (Xu et al., TPAMI 2022)."""

import operator
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_at_least, check_sizes
from gsp_tf._backend import softplus
from gsp_tf._config import Guarded, is_zero
from gsp_tf.losses._inputs import as_float_tensor
from gsp_tf.losses._layer import LossLayer
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.ops import l2_normalize


@dataclass(eq=False, repr=False)
class GroupDiversityLoss(Guarded, keras.losses.Loss):
    """Pushes the group embeddings of an image apart.

    `mean_i mean_{p<q} log(1 + exp(α β_0 (s_pq - μ)))` with cosine similarities s between the groups
    p and q of image i. This is the binomial deviance of negative pairs, averaged over pairs of
    groups. "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping" (Xu et
    al.), eqs. 4 and 14. Table 1 prints β_0 = 1 (`weight=1.0`); the default is 25, as in the
    authors' program and in `BinomialDevianceLoss`. The paper gives no value of μ; the default is
    the m of the metric loss, as in that program.

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

    alpha: float = 2.0
    margin: float = 0.5
    weight: float = 25.0
    name: str = "group_diversity_loss"

    def __post_init__(self) -> None:
        super().__init__(name=self.name)

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


class GroupedLoss(LossLayer):
    """Mean of a loss over the groups of an embedding, plus the diversity of the groups.

    `(1/P) Σ_g L(labels, e_g) + λ1 L_div(e_1, ..., e_P)`, where the embedding is the concatenation
    of the groups e_1 to e_P. "Towards Improved and Interpretable Deep Metric Learning via Attentive
    Grouping" (Xu et al.), eq. 14, averages over pairs of samples and over pairs of groups, so λ1
    takes the printed values. The third term, `λ2 ‖W‖²`, belongs to the optimizer. The loss
    determines its mean over pairs: `mean_over_pairs=True` of `ContrastiveLoss`,
    `BinomialDevianceLoss` and `ClassMarginLoss` gives that of eq. 14.

    All groups share a loss without weights. A loss with weights is copied, so that every group
    learns its own weights, as the authors do with the boundaries of the margin-based loss. Copies
    of a loss with a seed have other seeds, and so other draws.

    Args:
        loss: any pair loss, or any loss layer.
        num_groups: P, number of groups.
        diversity_weight: λ1 >= 0, 0.02 for three groups and 0.01 for four (sections 4.2, 4.3); 0
            leaves the diversity out.
        diversity: a `GroupDiversityLoss`; `None` for one with its default parameters.

    Weights: those of the loss, once per group.

    Call: `loss(labels, embeddings)` takes labels `(B,)` or `(B, 1)` and embeddings
    `(B, P * group_dim)`, and returns a scalar.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> loss = GroupedLoss(ContrastiveLoss(), num_groups=2)
        >>> one_direction = np.ones((2, 8), "float32")
        >>> round(float(loss([0, 1], one_direction)), 3)  # 0.5 + 0.02 · 25
        1.0
    """

    def __init__(
        self,
        loss: PairLoss | LossLayer,
        num_groups: int,
        diversity_weight: float = 0.02,
        diversity: GroupDiversityLoss | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(inner=[loss], calls_inner=True, **kwargs)
        if not isinstance(loss, (PairLoss, LossLayer)):
            raise ValueError(
                "GroupedLoss takes a pair loss such as ContrastiveLoss() or a loss layer such as "
                f"ProxyAnchorLoss(num_classes), received {loss!r}."
            )
        check_sizes(num_groups=num_groups)
        check_at_least(0, diversity_weight=diversity_weight)
        diversity = GroupDiversityLoss() if diversity is None else diversity
        if not isinstance(diversity, GroupDiversityLoss):
            raise ValueError(f"diversity must be a GroupDiversityLoss, received {diversity!r}.")
        self.num_groups = num_groups
        self.diversity_weight = diversity_weight
        self.diversity = diversity
        self.group_losses = _one_per_group(loss, num_groups)
        if isinstance(loss, PairLoss):
            self.seed_generator = loss.seed_generator

    @property
    def loss(self):
        """The loss of the first group."""
        return self.group_losses[0]

    relation = property(operator.attrgetter("loss.relation"))

    def build(self, labels_shape, embeddings_shape):
        group_shape = (embeddings_shape[0], self._group_dim(embeddings_shape))
        for loss in self.group_losses:
            if isinstance(loss, LossLayer) and not loss.built:
                loss.build(labels_shape, group_shape)

    def call(self, labels, embeddings):
        group_dim = self._group_dim(embeddings.shape)
        groups = ops.reshape(embeddings, (-1, self.num_groups, group_dim))
        losses = [loss(labels, groups[:, g]) for g, loss in enumerate(self.group_losses)]
        total = sum(losses) / self.num_groups
        if not is_zero(self.diversity_weight):
            total = total + self.diversity_weight * self.diversity(labels, groups)
        return total

    def _group_dim(self, embeddings_shape):
        dim = embeddings_shape[-1]
        if dim % self.num_groups:
            raise ValueError(
                f"Embeddings of {dim} columns do not divide into num_groups={self.num_groups} "
                "groups."
            )
        return dim // self.num_groups


def _one_per_group(loss, num_groups):
    """One loss per group: copies of a loss with weights, else the loss itself."""
    if not isinstance(loss, LossLayer):
        return [loss] * num_groups
    config = loss.get_config()
    copies = (
        type(loss).from_config(_reseeded(config, group) | {"name": f"{loss.name}_{group}"})
        for group in range(1, num_groups)
    )
    return [loss, *copies]


def _reseeded(config, group):
    """A config whose seeds, those within it too, are others than those of the other groups."""
    if isinstance(config, (list, tuple)):
        return type(config)(_reseeded(x, group) for x in config)
    if not isinstance(config, dict):
        return config
    # PyTorch would draw with the next seed what it draws with this one a step later. Its seeds are
    # int32.
    return {
        name: (value + group * 2**20) % 2**31
        if name == "seed" and value is not None
        else _reseeded(value, group)
        for name, value in config.items()
    }
