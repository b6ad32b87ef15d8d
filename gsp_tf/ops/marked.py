"""Going through marked entries, one of each row at a time."""

from keras import ops


def fold_marked(marked, step, state):
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
