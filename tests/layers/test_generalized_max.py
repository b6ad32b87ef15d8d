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


@each_solver
def test_is_equally_similar_to_rare_and_frequent_features(solver):
    rare, frequent = np.random.default_rng(0).uniform(size=(2, 6)).astype("float32")
    features = np.stack([rare] + 50 * [frequent])[None]
    pooled = GeneralizedMaxPooling(regularization=1e-6, solver=solver)(features)[0]
    pooled = np.asarray(pooled)
    np.testing.assert_allclose([pooled @ rare, pooled @ frequent], 1, rtol=1e-4)


@each_solver
def test_is_the_sum_for_strong_regularization(solver):
    features = np.random.default_rng(0).normal(size=(2, 7, 4)).astype("float32")
    pooled = GeneralizedMaxPooling(regularization=1e8, solver=solver)(features)
    np.testing.assert_allclose(1e8 * np.asarray(pooled), features.sum(1), rtol=1e-5, atol=1e-6)
