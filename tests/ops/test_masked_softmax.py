import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.ops.masked_softmax import masked_softmax


@pytest.mark.parametrize("scale", [1.0, 1e30])
def test_equals_the_softmax_of_what_is_kept(scale):
    scores = scale * np.random.default_rng(0).normal(size=(2, 5)).astype("float32")
    mask = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1]], bool)
    shares = masked_softmax(scores, mask).numpy()
    for row, kept, share in zip(scores, mask, shares, strict=True):
        np.testing.assert_allclose(share[kept], tf.nn.softmax(row[kept]), rtol=1e-6)
        assert (share[~kept] == 0).all()


def test_nothing_kept_is_zero_with_zero_gradient():
    scores = tf.constant([[1.0, np.nan], [-2.0, 3.0]])
    with tf.GradientTape() as tape:
        tape.watch(scores)
        shares = masked_softmax(scores, np.zeros((2, 2), bool))
        target = tf.reduce_sum(shares * [[1.0, 2.0], [3.0, 4.0]])
    assert (shares.numpy() == 0).all()
    assert (tape.gradient(target, scores).numpy() == 0).all()
