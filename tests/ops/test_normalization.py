import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.ops import l2_normalize, lipschitz_normalize


@pytest.mark.parametrize("normalize", [l2_normalize, lipschitz_normalize])
@pytest.mark.parametrize("scale", [0.0, 1e-18, 1e-3, 1.0, 1e12, 1e18])
def test_finite_at_every_scale(normalize, scale):
    u = tf.constant(np.random.default_rng(0).normal(size=(5, 4)) * scale, "float32")
    with tf.GradientTape() as tape:
        tape.watch(u)
        normalized = normalize(u)
        target = tf.reduce_sum(normalized[:, 0])
    assert np.isfinite(normalized).all()
    assert np.isfinite(tape.gradient(target, u)).all()
    norms = np.linalg.norm(normalized, axis=1)
    assert (norms <= 1 + 1e-6).all()
    if normalize is l2_normalize and scale > 1e-15:
        np.testing.assert_allclose(norms, 1, rtol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("scale", [1e-14, 1e18, 1e30])
def test_gradient_of_l2_normalize_at_every_scale(scale, jit_compile):
    u, up = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")

    def gradient(u):
        with tf.GradientTape() as tape:
            tape.watch(u)
            target = tf.reduce_sum(l2_normalize(u) * up)
        return tape.gradient(target, u)

    norms = np.linalg.norm(u, axis=1, keepdims=True)
    unit = u / norms
    expected = (up - np.sum(up * unit, axis=1, keepdims=True) * unit) / norms
    run = tf.function(gradient, jit_compile=jit_compile)
    np.testing.assert_allclose(scale * run(tf.constant(scale * u)), expected, rtol=1e-4)


def test_zero_has_no_direction():
    u = tf.zeros((2, 3))
    with tf.GradientTape() as tape:
        tape.watch(u)
        target = tf.reduce_sum(l2_normalize(u))
    assert target == 0
    assert (tape.gradient(target, u).numpy() == 0).all()


@pytest.mark.parametrize("normalize", [l2_normalize, lipschitz_normalize])
def test_nan_is_not_hidden(normalize):
    assert np.isnan(normalize(np.array([[np.nan, 1.0]], "float32"))).all()
