import numpy as np
import pytest
from gradients import differentiated

from gsp_tf.ops import l2_normalize, lipschitz_normalize

POINTS, UP = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")


@pytest.mark.parametrize(
    ("scale", "jit_compile"),
    [(1e-14, None), (1.0, None), (1e30, None), (1e-14, True)],
)
def test_gradient_of_l2_normalize_at_every_scale(scale, jit_compile):
    norms = np.linalg.norm(POINTS, axis=1, keepdims=True)
    unit = POINTS / norms
    expected = (UP - np.sum(UP * unit, axis=1, keepdims=True) * unit) / norms
    _, (gradient,) = differentiated(
        l2_normalize, np.float32(scale) * POINTS, upstream=UP, jit_compile=jit_compile
    )
    np.testing.assert_allclose(scale * gradient, expected, rtol=1e-4)


def test_zero_has_no_direction():
    normalized, (gradient,) = differentiated(l2_normalize, np.zeros((2, 3), "float32"))
    assert (normalized == 0).all() and (gradient == 0).all()


@pytest.mark.parametrize("normalize", [l2_normalize, lipschitz_normalize])
def test_nan_is_not_hidden(normalize):
    assert np.isnan(normalize(np.array([[np.nan, 1.0]], "float32"))).all()


@pytest.mark.equation("thesis", "§ 3.2.4", "ops.lipschitz_normalize")
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-3, 1e10, 1e19, 1e30])
def test_vectors_of_any_size_are_pulled_into_the_unit_ball(scale):
    direction = np.array([[0.6, -0.8], [0.28, 0.96]])
    upstream = np.array([[1.0, 2.0], [-1.0, 0.5]])
    vectors = np.float32(scale) * direction.astype("float32")
    value, (gradient,) = differentiated(
        lipschitz_normalize, vectors, upstream=upstream.astype("float32")
    )
    np.testing.assert_allclose(value, direction * min(scale, 1.0), rtol=1e-6)
    along = np.sum(upstream * direction, axis=1, keepdims=True) * direction
    expected = upstream if scale < 1 else (upstream - along) / scale
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)
