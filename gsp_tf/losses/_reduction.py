"""Ways to make one number of the terms of a loss."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

from keras import ops

from gsp_tf._typing import Tensor

Reduction = Literal["mean", "nonzero_mean", "sum", "mean_per_anchor", "none"]


class Reduced:
    """Base of the losses whose terms can be reduced in several ways, as `PairLoss` says."""

    default_reduction: Reduction = "mean"
    reductions: tuple[str, ...] = get_args(Reduction)
    """Those that a loss takes; a subclass may set it."""

    def set_reduction(
        self,
        reduction: Reduction | None,
        class_weights: Sequence[float] | None,
        thresholds: Sequence[float | None] | None,
        num_classes: int | None = None,
    ) -> None:
        """Check and keep the arguments of the constructor."""
        if reduction is not None and reduction not in self.reductions:
            raise ValueError(
                f"reduction of {type(self).__name__} must be one of {', '.join(self.reductions)}, "
                f"received {reduction!r}."
            )
        if class_weights is not None and (
            not len(class_weights) or not all(weight >= 0 for weight in class_weights)
        ):
            raise ValueError(
                "class_weights must be one number for each class, and not negative; received "
                f"{tuple(class_weights)}."
            )
        has_both = class_weights is not None and num_classes is not None
        if has_both and len(class_weights) != num_classes:
            raise ValueError(
                f"class_weights needs one number for each of the {num_classes} classes, received "
                f"{len(class_weights)}."
            )
        if thresholds is not None and (
            len(thresholds) != 2 or (None not in thresholds and not thresholds[0] < thresholds[1])
        ):
            raise ValueError(
                "thresholds must be a smaller and a larger number, or null for no limit; received "
                f"{tuple(thresholds)}."
            )
        self.reduction = reduction
        self.class_weights = None if class_weights is None else tuple(map(float, class_weights))
        self.thresholds = None if thresholds is None else tuple(thresholds)

    def reduced(self, parts: Iterable[tuple[Tensor, Tensor]], labels: Tensor) -> Tensor:
        """The sum of the reduced parts; each has terms and weights, `(A, R)` or `(A,)`."""
        return sum(self._reduced(*map(ops.convert_to_tensor, part), labels) for part in parts)

    def _reduced(self, terms, weights, labels):
        counted = self.counted(terms, ops.cast(weights, terms.dtype))
        costs = ops.where(counted > 0, counted * terms, 0.0)
        if self.class_weights is not None:
            factors = self.class_factors(labels, terms.dtype)
            costs = costs * (factors[:, None] if len(terms.shape) == 2 else factors)
        if self.reduction == "none":
            return costs
        if len(terms.shape) == 1:
            return self.of_anchors(costs, counted, per_anchor=False)
        # Rows are summed first: XLA on a CPU runs a reduction to a scalar on one core.
        return self.of_anchors(ops.sum(costs, axis=1), ops.sum(counted, axis=1))

    def counted(self, terms: Tensor, weights: Tensor) -> Tensor:
        """The weights of terms, 0 for those that do not count."""
        if (self.reduction or self.default_reduction) == "nonzero_mean":
            weights = ops.where(ops.not_equal(terms, 0), weights, 0.0)
        low, high = self.thresholds or (None, None)
        if low is not None:
            weights = ops.where(terms > low, weights, 0.0)
        if high is not None:
            weights = ops.where(terms < high, weights, 0.0)
        return weights

    def class_factors(self, labels: Tensor, dtype: Any) -> Tensor:
        """The weight of the class of each anchor `(A,)`; 1 for classes that have none."""
        weights = ops.convert_to_tensor((*self.class_weights, 1.0), dtype)
        is_class = ops.logical_and(labels >= 0, labels < len(self.class_weights))
        return ops.take(weights, ops.where(is_class, labels, len(self.class_weights)))

    def of_anchors(self, sums: Tensor, weights: Tensor, per_anchor: bool = True) -> Tensor:
        """The reduction, from the sum of the terms of each anchor and of their weights `(A,)`."""
        reduction = self.reduction or self.default_reduction
        if reduction == "sum":
            return ops.sum(sums)
        if reduction == "mean_per_anchor" and per_anchor:
            return ops.mean(sums / ops.where(weights > 0, weights, 1.0))
        weight = ops.sum(weights)
        return ops.sum(sums) / ops.where(weight > 0, weight, 1.0)
