import keras
import numpy as np
from gradients import differentiated

from gsp_tf.layers import AverageMaxPooling


def test_equals_the_sum_of_both_poolings_of_keras():
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32")
    average, largest = keras.layers.GlobalAveragePooling2D(), keras.layers.GlobalMaxPooling2D()
    upstream = np.arange(10, dtype="float32").reshape(2, 5)
    pooled, sums = (
        differentiated(pool, features, upstream=upstream)
        for pool in (AverageMaxPooling(), lambda features: average(features) + largest(features))
    )
    np.testing.assert_allclose(pooled[0], sums[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pooled[1], sums[1], rtol=1e-5, atol=1e-6)
