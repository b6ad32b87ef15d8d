import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.ops.positive_definite import solve_positive_definite

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
