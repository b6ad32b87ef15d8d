"""Zero-shot prediction loss of GSP (Gürbüz, Şener, Alatan, ICCV 2023, section 4.3)."""

from typing import Any, Literal

from keras import ops

from gsp_tf._arguments import check_choice, check_positive, check_sizes
from gsp_tf.losses._layer import LossLayer
from gsp_tf.losses._proxy import cross_entropies
from gsp_tf.losses._rows import first_equals
from gsp_tf.ops import ridge_regression

_Reduction = Literal["mean", "sum_of_means"]


class ZeroShotLoss(LossLayer):
    """Error of predicting the semantics of classes from attributes, fitted on other classes.

    L_ZS, eq. 4.4 of the GSP paper (thesis, eq. 5.2.4). The classes of a batch are split into two
    halves. The linear map from attributes z to class embeddings υ is fitted on one half in closed
    form (P3), `A = argmin Σ ||A z_i - υ_{y_i}||^2 + ridge ||A||^2`. It predicts on the other half,
    and the prediction is scored by the cross-entropy of `softmax_c(scale · (A z)ᵀ υ_c)` over all
    classes. Then the halves swap roles. The classes go to the halves alternately in order of first
    appearance, so the order of a batch determines the halves. A batch of one class costs 0. For
    attributes with norms beyond 100, float32 rounding loses the ridge, and the loss may be NaN.

    The paper has no scale and adds the means over the two halves: use `scale=1.0` and
    `reduction="sum_of_means"`. The defaults are those of the authors' program, which takes one mean
    over the batch. This is half the paper's loss if the halves are equal. The paper's weight λ is
    then `2 λ / (1 + λ)` here, up to a factor of the total loss: 0.2 / 1.1 for λ = 0.1.

    Args:
        num_classes: number of classes; labels are 0 to num_classes - 1.
        embedding_dim: dimension of the class embeddings.
        ridge: weight of the ridge penalty, > 0.
        scale: factor of the logits.
        reduction: "mean" over the batch, or "sum_of_means", the sum of the means over the halves.

    Weight: `class_embeddings (num_classes, embedding_dim)`, υ.

    Call: `loss(labels, attributes)` takes labels `(B,)` or `(B, 1)` and attributes `(B, m)`, and
    returns a scalar.

    Example:
        >>> import numpy as np
        >>> loss = ZeroShotLoss(num_classes=4, embedding_dim=8)
        >>> attributes = np.eye(4, dtype="float32")
        >>> float(loss([3, 3, 3, 3], attributes))
        0.0
    """

    normalize = False

    unscheduled = ("ridge",)

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        ridge: float = 0.05,
        scale: float = 9.5,
        reduction: _Reduction = "mean",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, **kwargs)
        check_sizes(embedding_dim=embedding_dim)
        check_positive(ridge=ridge)
        check_choice("reduction", reduction, _Reduction)
        self.embedding_dim = embedding_dim
        self.ridge = ridge
        self.scale = scale
        self.reduction = reduction

    def build(self, labels_shape, attributes_shape):
        self.class_embeddings = self.add_weight(
            name="class_embeddings",
            shape=(self.num_classes, self.embedding_dim),
            initializer="he_normal",
        )

    def call(self, labels, attributes):
        in_second, num_classes_present = _alternate_classes(labels)
        second = ops.cast(in_second, attributes.dtype)[:, None]
        halves = ops.stack([1.0 - second, second])
        targets = ops.take(self.class_embeddings, labels, axis=0)
        maps = ridge_regression(halves * attributes, halves * targets, self.ridge)
        predictions = second * ops.matmul(attributes, maps[0]) + (1.0 - second) * ops.matmul(
            attributes, maps[1]
        )
        logits = self.scale * ops.matmul(predictions, ops.transpose(self.class_embeddings))
        losses = cross_entropies(labels, logits)
        if self.reduction == "mean":
            total = ops.mean(losses)
        else:
            sums = ops.sum(halves[..., 0] * losses, axis=1)
            total = ops.sum(sums / ops.maximum(ops.sum(halves[..., 0], axis=1), 1.0))
        return ops.where(num_classes_present > 1, total, 0.0)


def _alternate_classes(labels):
    """Mask `(B,)` of the samples of every second class to appear, and the number of classes."""
    first, is_first = first_equals(labels[:, None] == labels[None, :])
    is_first = ops.cast(is_first, "int32")
    rank = ops.take(ops.cumsum(is_first) - 1, first)
    return ops.equal(rank % 2, 1), ops.sum(is_first)
