import numpy as np

from gsp_tf.layers import CrowPooling


def test_weighs_places_and_channels_of_the_positive_part():
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    pooled = CrowPooling(dtype="float64")(features)
    weights = CrowPooling(dtype="float64").pooling_weights(features)
    for row in range(2):
        positions = np.maximum(features[row].reshape(12, 5), 0)
        strength = [position.sum() for position in positions]
        norm = np.sqrt(sum(s**2 for s in strength))
        spatial = np.array([np.sqrt(s / norm) for s in strength])
        occupancy = [np.mean([1 / (1 + np.exp(-f)) for f in positions[:, c]]) for c in range(5)]
        expected = [
            np.log(sum(occupancy) / occupancy[c])
            * sum(spatial[j] * positions[j, c] for j in range(12))
            / 12
            for c in range(5)
        ]
        np.testing.assert_allclose(pooled[row], expected, rtol=1e-12)
        np.testing.assert_allclose(weights[row], (spatial / spatial.sum()).reshape(3, 4), 1e-12)
