import keras
import numpy as np
import pytest
from gradients import gradients

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


@ops_of_rows
def test_values_and_thresholds_get_no_gradient(op):
    rng = np.random.default_rng(0)
    values, thresholds, weights = rng.integers(0, 5, (3, 3, 7)).astype("float64")
    candidates = rng.random((3, 7)) < 0.5
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


def test_no_gradient_flows():
    values = np.array([[1.0, 2.0]])
    (total,), (gradient,) = gradients(
        lambda x: fold_marked(x > 0, lambda columns, is_active, is_mark, total: (total * x,), (x,)),
        values,
    )
    np.testing.assert_array_equal(total, [[1, 8]])
    assert not np.asarray(gradient).any()
