"""Counting what lies below a threshold, row by row."""

from keras import ops


def weight_below(values, weights, thresholds):
    """Sum of the weights of the values strictly below each threshold.

    `Σ_j w_j [v_j < t_k]` for every row. One row is compared at a time, so the memory is that of one
    comparison matrix `(v, t)`, not of all. No gradient flows.

    Args:
        values: float tensor `(rows, v)`.
        weights: float tensor `(rows, v)`.
        thresholds: float tensor `(rows, t)`.

    Returns:
        tensor `(rows, t)` of the type of the weights.

    Example:
        >>> weight_below([[1.0, 2.0, 3.0]], [[1.0, 1.0, 5.0]], [[2.0, 9.0]]).numpy()
        array([[1., 7.]], dtype=float32)
    """
    rows = tuple(ops.stop_gradient(ops.convert_to_tensor(x)) for x in (values, weights, thresholds))

    def of_row(row):
        values, weights, thresholds = row
        below = ops.cast(values[None, :] < thresholds[:, None], weights.dtype)
        return ops.matmul(below, weights)

    return ops.map(of_row, rows)


def smallest_above(values, candidates, thresholds):
    """Smallest value above each threshold, row by row.

    One row is compared at a time, as in `weight_below`. No gradient flows.

    Args:
        values: float tensor `(rows, v)`.
        candidates: boolean tensor `(rows, v)`, the values that may be chosen.
        thresholds: float tensor `(rows, t)`.

    Returns:
        tensor `(rows, t)`; infinity where no candidate lies above.

    Example:
        >>> smallest_above([[1.0, 3.0, 2.0]], [[True, True, True]], [[1.5, 3.0]]).numpy()
        array([[ 2., inf]], dtype=float32)
    """
    values, thresholds = (ops.stop_gradient(ops.convert_to_tensor(x)) for x in (values, thresholds))
    values = ops.where(candidates, values, float("inf"))

    def of_row(row):
        values, thresholds = row
        above = values[None, :] > thresholds[:, None]
        return ops.min(ops.where(above, values[None, :], float("inf")), axis=1)

    return ops.map(of_row, (values, thresholds))


def weight_at(values, candidates, targets, weights):
    """Give the weight of each target to the candidates of just that value, in equal shares.

    One row is compared at a time, as in `weight_below`. No gradient flows.

    Args:
        values: float tensor `(rows, v)`.
        candidates: boolean tensor `(rows, v)`, the values that may receive weight.
        targets: float tensor `(rows, t)`.
        weights: float tensor `(rows, t)`.

    Returns:
        tensor `(rows, v)` of the type of the weights.

    Example:
        >>> weight_at([[1.0, 2.0, 2.0]], [[True, True, True]], [[2.0]], [[1.0]]).numpy()
        array([[0. , 0.5, 0.5]], dtype=float32)
    """
    rows = tuple(ops.stop_gradient(ops.convert_to_tensor(x)) for x in (values, targets, weights))

    def of_row(row):
        values, candidates, targets, weights = row
        equal = ops.logical_and(values[None, :] == targets[:, None], candidates[None, :])
        equal = ops.cast(equal, weights.dtype)
        return ops.matmul(weights / ops.maximum(ops.sum(equal, axis=1), 1.0), equal)

    return ops.map(of_row, (rows[0], ops.convert_to_tensor(candidates), *rows[1:]))
