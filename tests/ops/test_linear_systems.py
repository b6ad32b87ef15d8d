import numpy as np
import pytest
import tensorflow as tf
from sklearn.linear_model import Ridge

from gsp_tf.ops import ridge_regression, solve_positive_definite


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


FACTOR = np.random.default_rng(0).normal(size=(2, 4, 4))
MATRIX = FACTOR @ FACTOR.swapaxes(1, 2) + np.eye(4)
RIGHT = np.random.default_rng(1).normal(size=(2, 4, 3))


def test_equals_numpy():
    np.testing.assert_allclose(
        solve_positive_definite(MATRIX, RIGHT), np.linalg.solve(MATRIX, RIGHT), rtol=1e-10
    )


def test_gradients_equal_those_of_the_inverse():
    gradients = []
    upstream = np.random.default_rng(2).normal(size=RIGHT.shape)
    for solve in (solve_positive_definite, lambda a, b: tf.linalg.inv(a) @ b):
        matrix, right = tf.constant(MATRIX), tf.constant(RIGHT)
        with tf.GradientTape() as tape:
            tape.watch([matrix, right])
            target = tf.reduce_sum(solve(matrix, right) * upstream)
        gradients.append(tape.gradient(target, [matrix, right]))
    for value, expected in zip(*gradients, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_spoils_its_own_solution_alone(bad):
    matrix = MATRIX.copy()
    matrix[0, 1, 1] = bad
    solution = solve_positive_definite(matrix, RIGHT).numpy()
    assert np.isnan(solution[0]).all() and np.isfinite(solution[1]).all()
