import keras
import numpy as np
import pytest
from gradients import value_and_gradient

from gsp_tf.losses import ContrastiveLoss


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("coordinate", [0.0, 1.0, 6e4, 6e-8])
def test_coincident_negatives_cost_the_margin_and_have_no_direction(coordinate, dtype):
    embeddings = keras.ops.full((4, 3), coordinate, dtype)
    loss = ContrastiveLoss(negative_margin=0.5)
    value, gradient = value_and_gradient(loss, np.arange(4), embeddings)
    assert value == 0.5
    np.testing.assert_array_equal(gradient, np.zeros((4, 3)))
