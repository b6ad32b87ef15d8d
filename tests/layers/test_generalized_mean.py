import keras
import numpy as np
import pytest
from gradients import EAGERLY

from gsp_tf.layers import GeneralizedMeanPooling

FEATURES = np.random.default_rng(0).normal(size=(2, 3, 4, 5))


def test_values_below_a_millionth_count_as_one():
    pooled = GeneralizedMeanPooling(p=2.5, dtype="float64")(FEATURES)
    for row, channel in np.ndindex(2, 5):
        powers = [max(value, 1e-6) ** 2.5 for value in FEATURES[row, ..., channel].ravel()]
        assert float(pooled[row, channel]) == pytest.approx((sum(powers) / 12) ** 0.4, rel=1e-12)


def test_lies_between_average_and_maximum():
    features = np.abs(FEATURES).astype("float32")
    average = GeneralizedMeanPooling(p=1.0)(features)
    np.testing.assert_allclose(average, features.mean((1, 2)), rtol=1e-6)
    largest = GeneralizedMeanPooling(p=1000.0)(features)
    np.testing.assert_allclose(largest, features.max((1, 2)), rtol=4e-3)


def test_the_power_is_learned_unless_the_layer_is_frozen():
    features = np.abs(FEATURES).astype("float32")
    powers = {}
    for trainable in (True, False):
        layer = GeneralizedMeanPooling(trainable=trainable)
        model = keras.Sequential([keras.Input((3, 4, 5)), layer])
        model.compile("sgd", "mse", jit_compile=not EAGERLY)
        model.fit(features, np.ones((2, 5)), verbose=0)
        powers[trainable] = float(layer.power)
    assert powers[True] != 3.0 and powers[False] == 3.0
