"""Comparisons within the rows of a matrix, with little memory and no gradient."""

from keras import ops


def weight_below(values, weights, thresholds):
    """For each threshold t_k of a row, `Σ_j w_j [v_j < t_k]`; one row is compared at a time."""
    rows = tuple(ops.stop_gradient(ops.convert_to_tensor(x)) for x in (values, weights, thresholds))

    def of_row(row):
        values, weights, thresholds = row
        below = ops.cast(values[None, :] < thresholds[:, None], weights.dtype)
        return ops.matmul(below, weights)

    return ops.map(of_row, rows)


def smallest_above(values, candidates, thresholds):
    """Smallest candidate value above each threshold of its row, else infinity."""
    values, thresholds = (ops.stop_gradient(ops.convert_to_tensor(x)) for x in (values, thresholds))
    values = ops.where(candidates, values, float("inf"))

    def of_row(row):
        values, thresholds = row
        above = values[None, :] > thresholds[:, None]
        return ops.min(ops.where(above, values[None, :], float("inf")), axis=1)

    return ops.map(of_row, (values, thresholds))


def weight_at(values, candidates, targets, weights):
    """Split the weight of each target equally among the candidates of its row that equal it."""
    rows = tuple(ops.stop_gradient(ops.convert_to_tensor(x)) for x in (values, targets, weights))

    def of_row(row):
        values, candidates, targets, weights = row
        equal = ops.logical_and(values[None, :] == targets[:, None], candidates[None, :])
        equal = ops.cast(equal, weights.dtype)
        return ops.matmul(weights / ops.maximum(ops.sum(equal, axis=1), 1.0), equal)

    return ops.map(of_row, (rows[0], ops.convert_to_tensor(candidates), *rows[1:]))


def fold_marked(marked, step, state):
    """Update a state by `step(columns, is_active, is_mark, *state)`, one mark per row at a time."""
    # Columns and whether they hold a mark are (A, 1); the matrix is_mark is True at the marks.
    num_columns = ops.shape(marked)[1]
    positions = ops.arange(num_columns, dtype="int32")[None, :]

    def next_after(columns):
        is_next = ops.logical_and(marked, positions > columns)
        return ops.min(
            ops.where(is_next, positions, num_columns), axis=1, keepdims=True, initial=num_columns
        )

    def body(columns, *state):
        own, is_active = ops.minimum(columns, num_columns - 1), columns < num_columns
        state = step(own, is_active, positions == columns, *state)
        return next_after(columns), *map(ops.stop_gradient, state)

    first = next_after(ops.full((ops.shape(marked)[0], 1), -1, dtype="int32"))
    state = tuple(ops.stop_gradient(ops.convert_to_tensor(x)) for x in state)
    _, *state = ops.while_loop(
        lambda columns, *_: ops.any(columns < num_columns), body, (first, *state)
    )
    return tuple(state)
