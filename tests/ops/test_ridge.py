import numpy as np
import pytest
import tensorflow as tf
from sklearn.linear_model import Ridge

from gsp_tf.ops import ridge_regression


@pytest.mark.parametrize(("n", "d"), [(20, 5), (4, 9), (1, 1)])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_equals_scikit_learn(n, d, jit_compile):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(n, 3))
    run = tf.function(lambda x, y: ridge_regression(x, y, 0.05), jit_compile=jit_compile)
    expected = Ridge(alpha=0.05, fit_intercept=False).fit(x, y).coef_.reshape(3, d).T
    np.testing.assert_allclose(run(x, y), expected, rtol=1e-6, atol=1e-9)


def test_rows_of_zeros_change_nothing():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 8, 4)), rng.normal(size=(2, 8, 2))
    keep = np.array([1, 1, 0, 1, 0, 1, 1, 0.0])[:, None]
    np.testing.assert_allclose(
        ridge_regression(x * keep, y * keep, 0.1),
        ridge_regression(x[:, keep[:, 0] > 0], y[:, keep[:, 0] > 0], 0.1),
        rtol=1e-10,
    )


def test_finite_without_any_information():
    x = tf.zeros((6, 4))
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(ridge_regression(x, tf.ones((6, 2)), 0.05))
    assert total == 0
    assert np.isfinite(tape.gradient(total, x)).all()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_nan_in_nan_out(jit_compile):
    x, y = np.ones((2, 6, 4)), np.ones((2, 6, 3))
    x[1, 0, 0] = np.nan
    weights = tf.function(lambda x: ridge_regression(x, y, 0.05), jit_compile=jit_compile)(x)
    assert np.isfinite(weights[0]).all() and np.isnan(weights[1]).all()


@pytest.mark.parametrize("ridge", [0.0, -1.0, float("nan")])
def test_refuses_a_ridge_that_is_not_positive(ridge):
    with pytest.raises(ValueError, match="ridge > 0"):
        ridge_regression(np.ones((2, 2)), np.ones((2, 2)), ridge)
