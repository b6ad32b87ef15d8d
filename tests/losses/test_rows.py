import numpy as np

from gsp_tf.losses._rows import smallest_above, weight_at, weight_below


def test_a_long_row_takes_no_matrix():
    size = 60_000  # whose comparisons would be 3.6e9 numbers
    values = np.random.default_rng(0).permutation(size).astype("float32")[None]
    ones, every = np.ones_like(values), np.ones(values.shape, bool)
    np.testing.assert_array_equal(weight_below(values, ones, values), values)
    above = np.where(values == size - 1, np.inf, values + 1)
    np.testing.assert_array_equal(smallest_above(values, every, values), above)
    found = weight_at(values, every, above.astype("float32"), ones)
    np.testing.assert_array_equal(found, values > 0)
