import numpy as np
import pytest

from gsp_tf.layers import (
    GeneralizedSumMeanPooling,
)

FEATURES = np.abs(np.random.default_rng(0).normal(size=(2, 3, 4, 5))).astype("float32")


def test_is_the_power_mean_of_weighted_features():
    layer = GeneralizedSumMeanPooling(6, p=2.5, return_attributes=True)
    pooled, attributes = layer(FEATURES)
    weights = np.asarray(layer.pooling_weights(FEATURES))
    for row, channel in np.ndindex(2, 5):
        values = (12 * weights[row] * FEATURES[row, ..., channel]).ravel().astype("float64")
        expected = (sum(max(value, 1e-6) ** 2.5 for value in values) / 12) ** 0.4
        assert float(pooled[row, channel]) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(np.asarray(attributes).sum(1), 1, rtol=1e-5)
