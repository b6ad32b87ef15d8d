import numpy as np
import pytest

from gsp_tf.layers import NetVLAD


def test_sums_residuals_by_soft_assignment():
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    layer = NetVLAD(num_clusters=3, dtype="float64")
    layer.build(features.shape)
    centers, kernel, bias = (
        np.random.default_rng(seed).normal(size=shape)
        for seed, shape in enumerate([(3, 5), (5, 3), (3,)])
    )
    layer.set_weights([centers, kernel, bias])
    pooled = layer(features)
    for row in range(2):
        residuals = np.zeros((3, 5))
        for position in features[row].reshape(12, 5):
            scores = np.exp([kernel[:, k] @ position + bias[k] for k in range(3)])
            for k in range(3):
                residuals[k] += scores[k] / scores.sum() * (position - centers[k])
        parts = [residual / np.linalg.norm(residual) for residual in residuals]
        np.testing.assert_allclose(pooled[row], np.concatenate(parts) / 3**0.5, rtol=1e-10)


def test_adapt_assigns_to_the_nearest_center_of_k_means():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 5)) * 5
    features = (means[rng.integers(3, size=(4, 6, 6))] + rng.normal(size=(4, 6, 6, 5))).astype("f4")
    layer = NetVLAD(num_clusters=3)
    layer.adapt(features)
    local = features.reshape(-1, 5)
    distances = ((local[:, None] - layer.centers.numpy()) ** 2).sum(-1)
    nearest = distances.argmin(1)
    for k in range(3):
        np.testing.assert_allclose(layer.centers[k], local[nearest == k].mean(0), 1e-4, 1e-5)
    logits = local @ layer.assignment_kernel.numpy() + layer.assignment_bias.numpy()
    np.testing.assert_array_equal(logits.argmax(1), nearest)
    # Softmax of -α ||f - c||² up to a constant for each f, and the mean ratio of 100.
    relative = (logits - logits[:, :1]) / (distances[:, :1] - distances + 1e-30)
    np.testing.assert_allclose(relative[:, 1:], relative[0, 1], rtol=1e-3)
    second, first = np.sort(logits, axis=1)[:, -2:].T
    assert np.exp(np.mean(first - second)) == pytest.approx(100, rel=1e-3)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_adapt_to_features_that_are_all_alike_is_finite():
    layer = NetVLAD(num_clusters=2)
    layer.adapt(np.ones((1, 2, 2, 3), "float32"))
    assert all(np.isfinite(weight).all() for weight in layer.get_weights())
