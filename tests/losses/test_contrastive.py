import keras
import numpy as np
import pytest
from gradients import value_and_gradient

from gsp_tf.losses import ContrastiveLoss, LpDistance


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("coordinate", [0.0, 1.0, 6e4, 6e-8])
def test_coincident_negatives_cost_the_margin_and_have_no_direction(coordinate, dtype):
    embeddings = keras.ops.full((4, 3), coordinate, dtype)
    loss = ContrastiveLoss(negative_margin=0.5)
    value, gradient = value_and_gradient(loss, np.arange(4), embeddings)
    assert value == 0.5
    np.testing.assert_array_equal(gradient, np.zeros((4, 3)))


@pytest.mark.parametrize(
    "distance",
    ["euclidean", "squared_euclidean", "angular", "signal_to_noise", LpDistance(3.0)],
)
def test_coincident_positives_cost_nothing_whatever_the_rounding(distance):
    x = np.repeat(np.random.default_rng(0).normal(size=(40, 64)), 2, axis=0).astype("float32")
    loss = ContrastiveLoss(negative_margin=0.0, distance=distance)
    assert float(loss(np.arange(80) // 2, x)) == 0.0
