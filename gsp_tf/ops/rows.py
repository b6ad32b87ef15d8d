"""Comparisons within the rows of a matrix, in little memory and without a gradient."""

from collections.abc import Callable

from keras import ops

from gsp_tf._typing import Tensor


def weight_below(values: Tensor, weights: Tensor, thresholds: Tensor) -> Tensor:
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


def smallest_above(values: Tensor, candidates: Tensor, thresholds: Tensor) -> Tensor:
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


def weight_at(values: Tensor, candidates: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
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


def fold_marked(
    marked: Tensor, step: Callable[..., tuple[Tensor, ...]], state: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Change a state by the marked entries of a matrix, from the left, one of each row at a time.

    As many steps as the fullest row has marks, of what `step` does on all rows at once: for a few
    marks a row that is far less than a step for each column. No gradient flows.

    Args:
        marked: boolean tensor `(rows, columns)`.
        step: function from `columns`, int32 `(rows, 1)`, the column of the mark of each row,
            `is_mark`, boolean `(rows, columns)`, True there, and the tensors of the state, to their
            next values. A row without a further mark has an `is_mark` of False and any column.
        state: tuple of tensors.

    Returns:
        tuple of tensors, the last state.

    Example:
        >>> marked = ops.convert_to_tensor([[True, False, True], [False, False, False]])
        >>> def count(columns, is_mark, total):
        ...     return (total + ops.cast(is_mark, "int32"),)
        >>> fold_marked(marked, count, (ops.zeros((2, 3), "int32"),))[0].numpy().tolist()
        [[1, 0, 1], [0, 0, 0]]
    """
    num_columns = ops.shape(marked)[1]
    positions = ops.arange(num_columns, dtype="int32")[None, :]

    def next_after(columns):
        is_next = ops.logical_and(marked, positions > columns)
        return ops.min(
            ops.where(is_next, positions, num_columns), axis=1, keepdims=True, initial=num_columns
        )

    def body(columns, *state):
        is_mark = positions == columns
        state = step(ops.minimum(columns, num_columns - 1), is_mark, *state)
        return next_after(columns), *map(ops.stop_gradient, state)

    first = next_after(ops.full((ops.shape(marked)[0], 1), -1, dtype="int32"))
    state = tuple(ops.stop_gradient(ops.convert_to_tensor(x)) for x in state)
    _, *state = ops.while_loop(
        lambda columns, *_: ops.any(columns < num_columns), body, (first, *state)
    )
    return tuple(state)
