import numpy as np
import pytest
from local_maps import unit

from gsp_tf.layers import OptimalTransportPooling


@pytest.mark.parametrize("num_iterations", [1, 10])
def test_equals_averages_by_the_plan_of_sinkhorn(num_iterations):
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    layer = OptimalTransportPooling(3, 4.0, num_iterations, dtype="float64")
    pooled = layer(features)
    for row in range(2):
        positions = features[row].reshape(12, 5)
        kernel = np.zeros((3, 12))
        for i, j in np.ndindex(3, 12):
            kernel[i, j] = np.linalg.norm(unit(layer.prototypes.numpy()[i]) - unit(positions[j]))
        kernel = np.exp(-4.0 * kernel)
        u = np.ones(3)
        for _ in range(num_iterations):
            v = 1 / 12 / (u @ kernel)
            u = 1 / 3 / (kernel @ v)
        plan = u[:, None] * kernel * (1 / 12 / (u @ kernel))
        expected = np.concatenate([3**0.5 * plan[i] @ positions for i in range(3)])
        np.testing.assert_allclose(pooled[row], expected, rtol=1e-10, atol=1e-12)


def test_adapt_takes_unit_prototypes_that_cover_the_features():
    rng = np.random.default_rng(0)
    directions = unit(rng.normal(size=(4, 5)))
    lengths = rng.uniform(0.1, 9.0, size=(3, 16, 1))
    layer = OptimalTransportPooling(4)
    layer.adapt((lengths * directions[np.arange(16) % 4]).astype("float32").reshape(3, 4, 4, 5))
    similarities = layer.prototypes.numpy() @ directions.T
    np.testing.assert_allclose(np.sort(similarities, axis=1)[:, -1], 1, rtol=1e-5)
    assert sorted(similarities.argmax(1)) == [0, 1, 2, 3]
