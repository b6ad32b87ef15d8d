import keras
import numpy as np
import tensorflow as tf

from gsp_tf.layers import AverageMaxPooling


def test_equals_the_sum_of_both_poolings_of_keras():
    features = tf.constant(np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32"))
    average, largest = keras.layers.GlobalAveragePooling2D(), keras.layers.GlobalMaxPooling2D()
    results = []
    for pool in (AverageMaxPooling(), lambda features: average(features) + largest(features)):
        with tf.GradientTape() as tape:
            tape.watch(features)
            pooled = pool(features)
            target = tf.reduce_sum(pooled**2)
        results.append((pooled, tape.gradient(target, features)))
    for value, expected in zip(*results, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
