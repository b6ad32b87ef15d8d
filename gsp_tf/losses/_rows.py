"""Comparisons within the rows of a matrix, with little memory."""

import math
from collections.abc import Sequence

from keras import ops

from gsp_tf._backend import argmax, custom_gradient, segment_sum
from gsp_tf._typing import Tensor


def weight_below(values, weights, thresholds):
    """For each threshold t_k of a row, `Σ_j w_j [v_j < t_k]`."""

    def of_row(values, weights, thresholds):
        order = ops.argsort(values)
        below = ops.pad(ops.cumsum(ops.take(weights, order)), [[1, 0]])
        return ops.take(below, ops.searchsorted(ops.take(values, order), thresholds))

    return _by_row(of_row, values, weights, thresholds)


def smallest_above(values, candidates, thresholds):
    """Smallest candidate value above each threshold of its row, else infinity."""

    def of_row(values, candidates, thresholds):
        ordered = ops.sort(ops.where(candidates, values, math.inf))
        places = ops.searchsorted(ordered, thresholds, side="right")
        return ops.take(ops.pad(ordered, [[0, 1]], constant_values=math.inf), places)

    return _by_row(of_row, values, candidates, thresholds)


def weight_at(values, candidates, targets, weights):
    """Split the weight of each target equally among the candidates of its row that equal it."""

    def of_row(values, candidates, targets, weights):
        values = ops.where(candidates, values, math.inf)
        ordered = ops.sort(values)
        first, end = (ops.searchsorted(ordered, targets, side) for side in ("left", "right"))
        shares = ops.where(end > first, weights / ops.cast(end - first, weights.dtype), 0.0)
        shares = segment_sum(shares, first, ops.shape(values)[0] + 1)
        return ops.where(candidates, ops.take(shares, ops.searchsorted(ordered, values)), 0.0)

    return _by_row(of_row, values, candidates, targets, weights)


def _by_row(function, *matrices):
    """What a function gives of each row of matrices, without a gradient."""
    rows = tuple(ops.stop_gradient(ops.convert_to_tensor(x)) for x in matrices)
    return ops.map(lambda row: function(*row), rows)


def first_equals(same):
    """Index `(B,)` of the first that each is the `same (B, B)` as, and whether it is that one."""
    first = argmax(ops.cast(same, "int32"))
    return first, first == ops.arange(ops.shape(first)[0], dtype="int32")


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


def soft_counts_above(
    scores: Tensor, marked: Tensor, weights: Sequence[Tensor], temperature: float
) -> Sequence[Tensor]:
    """For each marked `(i, j)`, each w: `Σ_{k≠j} w_ik sigmoid((s_ik - s_ij) / T)`; 0 elsewhere."""
    # One mark per row is compared with its row at a time, in the gradient too, so that no more than
    # a few matrices of the size of `scores` are ever held.

    def compared(scores, columns, temperature):
        own = ops.take_along_axis(scores, columns, axis=1)
        above = ops.sigmoid((scores - own) / temperature)
        places = ops.arange(ops.shape(scores)[1], dtype=columns.dtype)
        return ops.where(places[None, :] == columns, 0.0, above)

    @custom_gradient
    def counts(scores, marked, temperature, *weights):
        is_marked = marked > 0

        def count(columns, is_active, is_mark, *sums):
            above = compared(scores, columns, temperature)
            return tuple(
                ops.where(is_mark, ops.sum(w * above, axis=1, keepdims=True), s)
                for w, s in zip(weights, sums, strict=True)
            )

        def gradient(*upstreams):
            def pull(columns, is_active, is_mark, total):
                above = compared(scores, columns, temperature)
                pulls = sum(
                    w * ops.take_along_axis(u, columns, axis=1)
                    for w, u in zip(weights, upstreams, strict=True)
                )
                slopes = ops.where(is_active, above * (1.0 - above) * pulls / temperature, 0.0)
                own = ops.sum(slopes, axis=1, keepdims=True)
                return (total + slopes - ops.where(is_mark, own, 0.0),)

            (total,) = fold_marked(is_marked, pull, (ops.zeros_like(scores),))
            others = (marked, temperature, *weights)
            return total, *(ops.zeros_like(x) for x in others)

        return fold_marked(is_marked, count, [ops.zeros_like(scores) for _ in weights]), gradient

    temperature = ops.convert_to_tensor(temperature, scores.dtype)
    return counts(scores, ops.cast(marked, scores.dtype), temperature, *weights)
