import keras
import numpy as np
import pytest
from gradients import BACKEND, compiled, examples, gradients
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.losses._rows import fold_marked, smallest_above, weight_at, weight_below

ops_of_rows = pytest.mark.parametrize(
    "op",
    [
        lambda v, c, t, w: weight_below(v, w, t),
        lambda v, c, t, w: smallest_above(v, c, t),
        lambda v, c, t, w: weight_at(v, c, t, w),
    ],
    ids=["weight_below", "smallest_above", "weight_at"],
)


def random_rows(rows=3, columns=7, seed=0, dtype="float64"):
    """Values, candidates, thresholds and weights of few values, so that many are equal."""
    rng = np.random.default_rng(seed)
    values, thresholds, weights = rng.integers(0, 5, (3, rows, columns)).astype(dtype)
    return values, rng.random((rows, columns)) < 0.5, thresholds, weights


few = settings(max_examples=examples(15))
random_sizes = given(rows=st.integers(1, 4), columns=st.integers(1, 8), seed=st.integers(0, 1000))


@few
@random_sizes
def test_weight_below_counts_what_is_strictly_below(rows, columns, seed):
    values, _, thresholds, weights = random_rows(rows, columns, seed)
    actual = np.asarray(weight_below(values, weights, thresholds))
    for i, k in np.ndindex(rows, columns):
        assert actual[i, k] == sum(weights[i][values[i] < thresholds[i, k]])


@few
@random_sizes
def test_smallest_above_is_the_smallest_strictly_above(rows, columns, seed):
    values, candidates, thresholds, _ = random_rows(rows, columns, seed)
    actual = np.asarray(smallest_above(values, candidates, thresholds))
    for i, k in np.ndindex(rows, columns):
        above = values[i][candidates[i] & (values[i] > thresholds[i, k])]
        assert actual[i, k] == min(above, default=np.inf)


@few
@random_sizes
def test_weight_at_shares_a_target_s_weight_among_its_equals(rows, columns, seed):
    values, candidates, targets, weights = random_rows(rows, columns, seed)
    actual = np.asarray(weight_at(values, candidates, targets, weights))
    expected = np.zeros_like(actual)
    for i, k in np.ndindex(rows, columns):
        equals = np.flatnonzero(candidates[i] & (values[i] == targets[i, k]))
        expected[i, equals] += weights[i, k] / max(1, len(equals))
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


@ops_of_rows
@pytest.mark.parametrize("jit_compile", [False, True])
def test_compiled_equals_eager(op, jit_compile):
    arguments = random_rows(dtype="float32")
    run = compiled(op, jit_compile)
    tensors = [keras.ops.convert_to_tensor(x) for x in arguments]
    if BACKEND == "tensorflow":
        assert run.get_concrete_function(*tensors).outputs[0].shape == (3, 7)
    np.testing.assert_array_equal(run(*tensors), op(*arguments))


@ops_of_rows
def test_values_and_thresholds_get_no_gradient(op):
    values, candidates, thresholds, weights = random_rows()
    total, found = gradients(
        lambda v, t, w: keras.ops.sum(op(v, candidates, t, w)), values, thresholds, weights
    )
    assert float(total) > 0 and not any(np.asarray(g).any() for g in found)


def test_huge_values_and_infinity():
    # One more is nothing to 2e8 in float32, and the first value is no candidate.
    values = np.array([[2e8, 2e8, 1.0, np.inf]], "float32")
    thresholds = np.array([[1.0, 2e8]], "float32")
    candidates = np.array([[False, True, True, True]])
    np.testing.assert_array_equal(smallest_above(values, candidates, thresholds), [[2e8, np.inf]])
    np.testing.assert_array_equal(weight_below(values, np.ones((1, 4)), thresholds), [[0, 1]])
    found = weight_at(values, candidates, np.array([[2e8]], "float32"), np.ones((1, 1), "float32"))
    np.testing.assert_array_equal(found, [[0, 1, 0, 0]])


def test_a_long_row_takes_no_matrix():
    size = 60_000  # whose comparisons would be 3.6e9 numbers
    values = np.random.default_rng(0).permutation(size).astype("float32")[None]
    ones, every = np.ones_like(values), np.ones(values.shape, bool)
    np.testing.assert_array_equal(weight_below(values, ones, values), values)
    above = np.where(values == size - 1, np.inf, values + 1)
    np.testing.assert_array_equal(smallest_above(values, every, values), above)
    found = weight_at(values, every, above.astype("float32"), ones)
    np.testing.assert_array_equal(found, values > 0)


def visits(marked):
    """When each entry is visited, from 1, and the columns of all steps."""
    marked = keras.ops.convert_to_tensor(marked)

    def visit(columns, is_active, is_mark, number, when, total):
        when = keras.ops.where(keras.ops.logical_and(is_active, is_mark), number + 1, when)
        return number + 1, when, total + columns[0, 0]

    return fold_marked(marked, visit, (0, keras.ops.zeros_like(marked, "int32"), 0))


@settings(max_examples=examples(15))
@given(rows=st.integers(1, 4), columns=st.integers(1, 8), seed=st.integers(0, 1000))
def test_every_mark_is_visited_once_from_the_left(rows, columns, seed):
    marked = np.random.default_rng(seed).random((rows, columns)) < 0.4
    steps, when, _ = visits(marked)
    np.testing.assert_array_equal(when, np.where(marked, np.cumsum(marked, axis=1), 0))
    assert int(steps) == marked.sum(axis=1).max()


def test_no_gradient_flows():
    values = np.array([[1.0, 2.0]])
    (total,), (gradient,) = gradients(
        lambda x: fold_marked(x > 0, lambda columns, is_active, is_mark, total: (total * x,), (x,)),
        values,
    )
    np.testing.assert_array_equal(total, [[1, 8]])
    assert not np.asarray(gradient).any()
