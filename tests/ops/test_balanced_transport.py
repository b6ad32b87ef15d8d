import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.ops.balanced_transport import balanced_transport

COST = np.random.default_rng(0).uniform(0, 2, size=(2, 3, 7)).astype("float32")
WEIGHTS = np.random.default_rng(1).dirichlet(np.ones(7), size=2).astype("float32")


@pytest.mark.parametrize("num_iterations", [1, 200])
def test_moves_what_there_is_and_in_the_limit_in_equal_parts(num_iterations):
    plan = balanced_transport(COST, WEIGHTS, 10.0, num_iterations).numpy()
    np.testing.assert_allclose(plan.sum(1), WEIGHTS, rtol=1e-5)
    error = np.abs(plan.sum(2) - 1 / 3).max()
    assert error < 1e-6 if num_iterations == 200 else error > 1e-3


@pytest.mark.parametrize("entropy_smoothing", [1e-30, 1e-3, 1.0, 1e3, 1e8, 1e30])
def test_every_smoothing_is_finite(entropy_smoothing):
    cost = tf.constant(COST)
    with tf.GradientTape() as tape:
        tape.watch(cost)
        plan = balanced_transport(cost, WEIGHTS, entropy_smoothing)
        target = tf.reduce_sum(plan * COST)
    np.testing.assert_allclose(np.sum(plan, axis=1), WEIGHTS, rtol=1e-5)
    assert np.isfinite(tape.gradient(target, cost)).all()
