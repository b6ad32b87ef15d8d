import numpy as np

from gsp_tf.layers import GeneralizedSumMaxPooling, GeneralizedSumPooling

FEATURES = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32")


def test_adds_the_maximum_to_gsp_and_keeps_its_attributes():
    layer = GeneralizedSumMaxPooling(6, return_attributes=True)
    layer.adapt(FEATURES)
    gsp = GeneralizedSumPooling(6, return_attributes=True)
    gsp.adapt(FEATURES)
    (pooled, attributes), (expected, expected_attributes) = layer(FEATURES), gsp(FEATURES)
    np.testing.assert_allclose(pooled, expected + FEATURES.max((1, 2)), rtol=1e-6)
    np.testing.assert_array_equal(attributes, expected_attributes)
