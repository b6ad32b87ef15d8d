import numpy as np
import pytest
from gradients import compiled, differentiated
from sklearn.linear_model import Ridge

from gsp_tf.ops import ridge_regression


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(
    ("n", "d", "jit_compile"), [(20, 5, None), (4, 9, None), (1, 1, None), (4, 9, True)]
)
def test_equals_scikit_learn(n, d, jit_compile):
    x, y = random(n, d), random(n, 3, seed=1)
    run = compiled(lambda x, y: ridge_regression(x, y, 0.05), jit_compile)
    expected = Ridge(alpha=0.05, fit_intercept=False).fit(x, y).coef_.reshape(3, d).T
    np.testing.assert_allclose(run(x, y), expected, rtol=1e-6, atol=1e-9)


def test_rows_of_zeros_change_nothing():
    x, y = random(2, 8, 4), random(2, 8, 2, seed=1)
    keep = np.array([1, 1, 0, 1, 0, 1, 1, 0.0])[:, None]
    np.testing.assert_allclose(
        ridge_regression(x * keep, y * keep, 0.1),
        ridge_regression(x[:, keep[:, 0] > 0], y[:, keep[:, 0] > 0], 0.1),
        rtol=1e-10,
    )


def test_finite_without_any_information():
    y = np.ones((6, 2), "float32")
    weights, (gradient,) = differentiated(
        lambda x: ridge_regression(x, y, 0.05), np.zeros((6, 4), "float32")
    )
    assert (weights == 0).all() and np.isfinite(gradient).all()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_nan_in_nan_out(jit_compile):
    x, y = np.ones((2, 6, 4)), np.ones((2, 6, 3))
    x[1, 0, 0] = np.nan
    weights = compiled(lambda x: ridge_regression(x, y, 0.05), jit_compile)(x)
    assert np.isfinite(weights[0]).all() and np.isnan(weights[1]).all()
