from functools import partial

import numpy as np
import pytest
from gradients import compiled, value_and_gradient

from gsp_tf.losses import TripletHardLoss


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_only_negative_gets_the_whole_gradient(jit_compile):
    # It is the farthest of all, and nothing that stands in for the others may share with it.
    x = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 6.0]], "float32")
    loss = TripletHardLoss(margin=9.0, normalize=False)
    run = compiled(partial(value_and_gradient, loss), jit_compile)
    value, gradient = run(np.array([0, 0, 1]), x)
    to_second = np.hypot(3, 2)
    assert float(value) == pytest.approx((9 + 5 - 6 + 9 + 5 - to_second) / 2)
    expected = -(np.array([0, 1]) + np.array([-3, 2]) / to_second) / 2
    np.testing.assert_allclose(gradient[2], expected, rtol=1e-5)
