import numpy as np

from gsp_tf.losses._rows import smallest_above, weight_at, weight_below


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
