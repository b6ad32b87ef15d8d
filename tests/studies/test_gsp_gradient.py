import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.layers import GeneralizedSumPooling

FEATURES = tf.constant(np.random.default_rng(0).normal(size=(3, 2, 2, 5)), tf.float32)
SLOPE = np.arange(1.0, 6.0, dtype="float32")


class Weighed:
    """A pooling whose weights are a function of the features."""

    def __init__(self, pooling_weights):
        self.pooling_weights = pooling_weights


def norms(script, pooling):
    def after(pooled):
        return pooled * SLOPE

    return script.gradient_norms(FEATURES, None, pooling, after, lambda _, x: tf.reduce_sum(x))


def test_weights_that_are_fixed_pass_no_gradient(script):
    fixed = tf.constant(np.tile([[0.5, 0.5], [0.0, 0.0]], (3, 1, 1)), tf.float32)
    by_weights, direct, average = norms(script, Weighed(lambda features: fixed))
    assert by_weights == 0
    assert direct == pytest.approx(np.linalg.norm(SLOPE) * np.sqrt(3 * 2 * 0.5**2), rel=1e-5)
    assert average == pytest.approx(np.linalg.norm(SLOPE) * np.sqrt(3 * 4 * 0.25**2), rel=1e-5)


def test_weights_that_are_features_pass_the_slope_of_the_features(script):
    by_weights, *_ = norms(script, Weighed(lambda features: features[..., 0]))
    assert by_weights == pytest.approx(np.linalg.norm(FEATURES.numpy() @ SLOPE), rel=1e-5)


def test_gsp_with_a_ratio_of_one_is_an_average(script):
    by_weights, direct, average = norms(script, GeneralizedSumPooling(4, transport_ratio=1.0))
    assert by_weights < 1e-4 * direct
    assert direct == pytest.approx(average, rel=1e-4)


def test_gsp_that_selects_passes_gradient_by_its_weights(script):
    pooling = GeneralizedSumPooling(4, transport_ratio=0.3, entropy_smoothing=20.0)
    by_weights, direct, _ = norms(script, pooling)
    assert by_weights > 0.1 * direct
