import numpy as np
import pytest

from gsp_tf.ops.generalized_mean import generalized_mean


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e15])
@pytest.mark.parametrize("p", [0.5, 1.0, 3.0, 50.0])
def test_equals_the_weighted_mean_of_powers_at_every_scale(p, scale):
    x = np.random.default_rng(0).uniform(0.1, 1, size=(4, 6, 3))
    weights = np.random.default_rng(1).dirichlet(np.ones(6), size=4)
    expected = scale * np.einsum("bn,bnc->bc", weights, x**p) ** (1 / p)
    mean = generalized_mean((scale * x).astype("float32"), p, weights.astype("float32"))
    np.testing.assert_allclose(mean, expected, rtol=1e-5)
