import numpy as np
import pytest

from gsp_tf.layers import GeneralizedMaxPooling

each_solver = pytest.mark.parametrize("solver", ["cholesky", "conjugate_gradient"])


@each_solver
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("channels", [4, 40])
def test_solves_the_least_squares_problem_at_every_scale(solver, scale, channels):
    features = np.random.default_rng(0).normal(size=(2, 30, channels)).astype("float32") * scale
    pooled = GeneralizedMaxPooling(regularization=0.1, solver=solver)(features)
    for row in range(2):
        u, s, v = np.linalg.svd(features[row].astype("float64"), full_matrices=False)
        expected = v.T @ (s / (s**2 + 0.1) * u.sum(0))
        np.testing.assert_allclose(pooled[row], expected, 1e-5, 1e-6 * np.abs(expected).max())
