import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.ops import generalized_mean


def definition(features, p):
    return np.mean(np.maximum(features, 0) ** p, axis=-2) ** (1 / p)


def value_and_gradients(features, p, up, mask=None):
    features = tf.convert_to_tensor(features)
    p = tf.convert_to_tensor(p, features.dtype)
    with tf.GradientTape() as tape:
        tape.watch([features, p])
        pooled = generalized_mean(features, p, mask)
        target = tf.reduce_sum(pooled * up)
    return pooled, *tape.gradient(target, [features, p])


def test_equals_the_authors_layer(oracle):
    case = oracle("pooling")
    features = case["features"].reshape(2, 30, 9)
    np.testing.assert_allclose(generalized_mean(features, 3.0), case["generalized_mean_p3"], 1e-5)


@pytest.mark.parametrize("p", [0.5, 1.0, 3.0, 30.0, [0.7, 1.0, 2.0, 5.0]])
def test_equals_the_definition_and_its_finite_differences(p):
    rng = np.random.default_rng(0)
    features, direction = rng.normal(size=(2, 3, 6, 4))
    up, p = rng.normal(size=(3, 4)), np.array(p)
    pooled, gradient, gradient_p = value_and_gradients(features, p, up)
    np.testing.assert_allclose(pooled, definition(features, p), rtol=1e-12)
    step = 1e-6

    def difference(feature_step, p_step):
        ends = [definition(features + s * feature_step, p + s * p_step) for s in (step, -step)]
        return np.sum(up * (ends[0] - ends[1])) / (2 * step)

    np.testing.assert_allclose(np.sum(gradient * direction), difference(direction, 0), rtol=1e-6)
    np.testing.assert_allclose(np.sum(gradient_p), difference(0, 1), rtol=1e-6)
    assert (gradient.numpy()[features < 0] == 0).all()


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("p", [1.0, 3.0, 200.0])
def test_scales_with_the_features_in_float32(p, jit_compile):
    rng = np.random.default_rng(0)
    features = rng.uniform(0.1, 1, (2, 50, 3)).astype("float32")
    up = rng.normal(size=(2, 3)).astype("float32")
    run = tf.function(value_and_gradients, jit_compile=jit_compile)
    expected, expected_gradient, _ = run(features, p, up)
    for scale in (1e-30, 1e30):
        pooled, gradient, _ = run((scale * features).astype("float32"), p, up)
        np.testing.assert_allclose(pooled / np.float32(scale), expected, rtol=1e-4)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("p", [0.5, 1.0, 3.0])
def test_nothing_positive_is_zero_with_zero_gradients(p):
    features = np.array([[0.0, -1.0, 1.0], [0.0, 0.0, 0.0]], "float32")
    pooled, gradient, gradient_p = value_and_gradients(features, p, np.ones(3, "float32"))
    np.testing.assert_allclose(pooled, [0, 0, 0.5 ** (1 / p)], rtol=1e-6)
    assert (gradient.numpy()[:, :2] == 0).all() and np.isfinite(gradient_p)


def test_mask_leaves_features_out():
    features = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    features[:, 3] = np.nan
    mask = np.array([[1, 0, 1, 0, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], bool)
    up = np.ones((3, 4), "float32")
    pooled, gradient, _ = value_and_gradients(features, 3.0, up, mask)
    for k in range(2):
        np.testing.assert_allclose(pooled[k], definition(features[k, mask[k]], 3.0), rtol=1e-5)
    assert (pooled[2].numpy() == 0).all()
    assert (gradient.numpy()[~mask] == 0).all()


def test_nan_is_not_hidden():
    assert np.isnan(generalized_mean(np.array([[np.nan], [1.0]], "float32"), 3.0)).all()
