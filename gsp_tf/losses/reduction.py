"""How the terms of a loss become one number."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from keras import ops

from gsp_tf._arguments import check_choice
from gsp_tf._config import Guarded
from gsp_tf._typing import Tensor

ReductionName = Literal["mean", "nonzero_mean", "sum", "mean_per_anchor", "none"]


@dataclass(eq=False)
class Reduction(Guarded):
    """How the terms of a loss become one number; a loss takes it, or its name alone.

    Args:
        name: of the terms of each kind, such as those of positives, their "mean", their
            "nonzero_mean", their "sum", or "mean_per_anchor", the mean over anchors of the means of
            their terms. "none" gives the loss of every pair `(A, R)`, or of every anchor `(A,)` if
            the formula has one term for each.
        class_weights: for each class a factor >= 0 of the terms of its anchors; labels are then 0
            to the number of classes - 1. A mean still divides by the number of terms.
        thresholds: smallest and largest term, both excluded, to count; `None` for no limit.

    Example:
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.6, 0.8]]
        >>> loss = ContrastiveLoss(reduction=Reduction("sum", class_weights=[1.0, 10.0]))
        >>> round(float(loss(labels, embeddings)), 3)
        7.289
    """

    name: ReductionName = "mean"
    class_weights: Sequence[float] | None = None
    thresholds: Sequence[float | None] | None = None

    unscheduled = ("class_weights",)

    def __post_init__(self) -> None:
        check_choice("reduction", self.name, ReductionName)
        weights, limits = self.class_weights, self.thresholds
        if weights is not None:
            if not len(weights) or not all(weight >= 0 for weight in weights):
                raise ValueError(
                    "class_weights must be one number for each class, and not negative; received "
                    f"{tuple(weights)}."
                )
            vars(self)["class_weights"] = tuple(map(float, weights))
        if limits is not None:
            if len(limits) != 2 or (None not in limits and not limits[0] < limits[1]):
                raise ValueError(
                    "thresholds must be a smaller and a larger number, or null for no limit; "
                    f"received {tuple(limits)}."
                )
            self.thresholds = tuple(limits)

    def check_classes(self, num_classes: int) -> None:
        """Raise ValueError unless there is a weight for each class of a loss, or none at all."""
        if self.class_weights is not None and len(self.class_weights) != num_classes:
            raise ValueError(
                f"class_weights needs one number for each of the {num_classes} classes, received "
                f"{len(self.class_weights)}."
            )

    def __call__(
        self, parts: Iterable[tuple[Tensor, Tensor]], labels: Tensor, anchors: Tensor | None = None
    ) -> Tensor:
        """The sum of the reduced parts; each has terms and weights, `(A, R)` or `(A,)`.

        `anchors` has weights `(A,)`, 1 for each anchor that counts; `None` counts all.
        """
        parts = (map(ops.convert_to_tensor, part) for part in parts)
        return sum(self._reduced(*part, labels, anchors) for part in parts)

    def _reduced(self, terms, weights, labels, anchors):
        counted = self.counted(terms, ops.cast(weights, terms.dtype))
        costs = ops.where(counted > 0, counted * terms, 0.0)
        if self.class_weights is not None:
            factors = self.class_factors(labels, terms.dtype)
            costs = costs * (factors[:, None] if len(terms.shape) == 2 else factors)
        if self.name == "none":
            return costs
        if len(terms.shape) == 1:
            return self._total(costs, counted)
        # Rows are summed first: XLA on a CPU runs a reduction to a scalar on one core.
        return self.of_anchors(ops.sum(costs, axis=1), ops.sum(counted, axis=1), anchors)

    def counted(self, terms: Tensor, weights: Tensor) -> Tensor:
        """The weights of terms, of the same shape, and 0 for those that do not count."""
        if self.name == "nonzero_mean":
            weights = ops.where(ops.not_equal(terms, 0), weights, 0.0)
        low, high = self.thresholds or (None, None)
        if low is not None:
            weights = ops.where(terms > low, weights, 0.0)
        if high is not None:
            weights = ops.where(terms < high, weights, 0.0)
        return weights

    def class_factors(self, labels: Tensor, dtype: Any) -> Tensor:
        """The weights `(A,)` of the classes of labels `(A,)`; 1 for classes that have none."""
        weights = ops.convert_to_tensor((*self.class_weights, 1.0), dtype)
        is_class = ops.logical_and(labels >= 0, labels < len(self.class_weights))
        return ops.take(weights, ops.where(is_class, labels, len(self.class_weights)))

    def of_anchors(self, sums: Tensor, weights: Tensor, anchors: Tensor | None = None) -> Tensor:
        """The reduction, from the sums `(A,)` of the terms of each anchor and of their weights.

        `anchors` are as in a call.
        """
        if self.name == "mean_per_anchor":
            sums = sums / ops.where(weights > 0, weights, 1.0)
            weights = ops.ones_like(weights) if anchors is None else anchors
        return self._total(sums, weights)

    def _total(self, sums, weights):
        if self.name == "sum":
            return ops.sum(sums)
        weight = ops.sum(weights)
        return ops.sum(sums) / ops.where(weight > 0, weight, 1.0)


def as_reduction(given: Reduction | ReductionName | None, default: ReductionName) -> Reduction:
    """The reduction of a loss that is given one, its name, or none."""
    return given if isinstance(given, Reduction) else Reduction(given or default)


def weighted_mean(terms: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean of terms; 0 if all weights are 0.

    Args:
        terms: float tensor.
        weights: float tensor of the same shape; terms of weight 0 may hold anything.

    Returns:
        scalar.

    Example:
        >>> float(weighted_mean([1.0, 4.0, 9.0], [1.0, 2.0, 0.0]))
        3.0
    """
    terms = ops.convert_to_tensor(terms)
    weights = ops.cast(weights, terms.dtype)
    # Rows are summed first: XLA on a CPU runs a reduction to a scalar on one core.
    total = ops.sum(ops.sum(ops.where(weights > 0, weights * terms, 0.0), axis=-1))
    weight = ops.sum(ops.sum(weights, axis=-1))
    return total / ops.where(weight > 0, weight, 1.0)
