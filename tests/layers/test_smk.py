import numpy as np
import pytest
from gradients import differentiated

from gsp_tf.layers import SMKPooling

FEATURES = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
MASK = np.random.default_rng(1).uniform(size=(2, 3, 4)) < 0.7


@pytest.mark.parametrize("mask", [np.ones_like(MASK), MASK], ids=["all", "masked"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_equals_the_sum_of_smoothed_features_by_attention(size, mask):
    layer = SMKPooling(size, dtype="float64")
    pooled, (gradient,) = differentiated(lambda features: layer(features, mask=mask), FEATURES)
    all_weights = np.asarray(layer.pooling_weights(FEATURES, mask=mask))
    expected, expected_gradient = np.zeros((2, 5)), np.zeros_like(FEATURES)
    before, after = (size - 1) // 2, size // 2
    for row in range(2):
        positions = [(y, x) for y, x in np.ndindex(3, 4) if mask[row, y, x]]
        norms = {position: np.linalg.norm(FEATURES[row][position]) for position in positions}
        for y, x in positions:
            weight = norms[y, x] / sum(norms.values())
            near = [
                (v, u)
                for v, u in positions
                if -before <= v - y <= after and -before <= u - x <= after
            ]
            for position in near:
                expected[row] += weight * FEATURES[row][position] / len(near)
                expected_gradient[row][position] += weight / len(near)
        weights = all_weights[row]
        for position in positions:
            assert weights[position] == pytest.approx(norms[position] / sum(norms.values()))
    np.testing.assert_allclose(pooled, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-12, atol=1e-14)


def test_pools_sets_without_smoothing_alone():
    features = FEATURES.reshape(2, 12, 5).astype("float32")
    expected = SMKPooling(1)(FEATURES.astype("float32"))
    np.testing.assert_allclose(SMKPooling(1)(features), expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"\(2, 12, 5\); with smoothing_size=1 it pools sets"):
        SMKPooling()(features)
