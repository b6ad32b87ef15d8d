"""The poolings without prototypes: definitions, and the layers of the GSP authors."""

import keras
import numpy as np
import pytest
from gradients import differentiated

from gsp_tf import layers

FEATURES = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
MASK = np.random.default_rng(1).uniform(size=(2, 3, 4)) < 0.7


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (layers.CrowPooling(), "crow"),
        (layers.GeneralizedMaxPooling(regularization=1.0), "generalized_max_lambda1"),
        (layers.GeneralizedMeanPooling(p=3.0), "generalized_mean_p3"),
        (layers.WeldonPooling(k_max=3, k_min=3), "weldon_k3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_equals_the_authors_layer(oracle, layer, name):
    values = oracle("pooling")
    np.testing.assert_allclose(layer(values["features"]), values[name], rtol=1e-5, atol=1e-6)


def test_average_max_is_the_sum_of_both_poolings_of_keras():
    features = FEATURES.astype("float32")
    average, largest = keras.layers.GlobalAveragePooling2D(), keras.layers.GlobalMaxPooling2D()
    upstream = np.arange(10, dtype="float32").reshape(2, 5)
    pooled, sums = (
        differentiated(pool, features, upstream=upstream)
        for pool in (
            layers.AverageMaxPooling(),
            lambda features: average(features) + largest(features),
        )
    )
    np.testing.assert_allclose(pooled[0], sums[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pooled[1], sums[1], rtol=1e-5, atol=1e-6)


def test_crow_weighs_places_and_channels_of_the_positive_part():
    pooled = layers.CrowPooling(dtype="float64")(FEATURES)
    weights = layers.CrowPooling(dtype="float64").pooling_weights(FEATURES)
    for row in range(2):
        positions = np.maximum(FEATURES[row].reshape(12, 5), 0)
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


@pytest.mark.parametrize("solver", ["cholesky", "conjugate_gradient"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("channels", [4, 40])
def test_generalized_max_solves_the_least_squares_problem_at_every_scale(solver, scale, channels):
    features = np.random.default_rng(0).normal(size=(2, 30, channels)).astype("float32") * scale
    pooled = layers.GeneralizedMaxPooling(regularization=0.1, solver=solver)(features)
    for row in range(2):
        u, s, v = np.linalg.svd(features[row].astype("float64"), full_matrices=False)
        expected = v.T @ (s / (s**2 + 0.1) * u.sum(0))
        np.testing.assert_allclose(pooled[row], expected, 1e-5, 1e-6 * np.abs(expected).max())


def test_a_generalized_mean_takes_values_below_a_millionth_for_one():
    pooled = layers.GeneralizedMeanPooling(p=2.5, dtype="float64")(FEATURES)
    for row, channel in np.ndindex(2, 5):
        powers = [max(value, 1e-6) ** 2.5 for value in FEATURES[row, ..., channel].ravel()]
        assert float(pooled[row, channel]) == pytest.approx((sum(powers) / 12) ** 0.4, rel=1e-12)


@pytest.mark.parametrize(("k_max", "k_min"), [(1, 0), (2, 3), (6, 6), (9, 4)])
def test_weldon_adds_the_largest_and_the_smallest(k_max, k_min):
    features = np.random.default_rng(0).normal(size=(2, 2, 3, 4)).astype("float32")
    pooled = layers.WeldonPooling(k_max, k_min)(features)
    for row, channel in np.ndindex(2, 4):
        values = sorted(features[row, ..., channel].ravel())
        expected = sum(values[::-1][:k_max]) + sum(values[:k_min])
        assert float(pooled[row, channel]) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_weldon_hides_no_nan():
    features = np.random.default_rng(1).normal(size=(3, 20, 4)).astype("float32")
    for k_max, k_min in [(3, 3), (1, 0), (30, 30)]:
        features[1, 7, 2] = np.nan
        pooled = np.asarray(layers.WeldonPooling(k_max, k_min)(features))
        np.testing.assert_array_equal(np.argwhere(np.isnan(pooled)), [[1, 2]])
        mask = np.arange(20) != 7
        there = layers.WeldonPooling(k_max, k_min)(features, mask=np.tile(mask, (3, 1)))
        assert np.isfinite(np.asarray(there)).all()


def test_weldon_counts_equal_values_once_each_and_hides_no_infinity():
    assert np.asarray(layers.WeldonPooling(2, 1)(np.full((1, 5, 1), 2.0))) == [[6.0]]
    features = np.zeros((1, 9, 2), "float32")
    features[0, 3] = [np.inf, -np.inf]
    np.testing.assert_array_equal(layers.WeldonPooling(2, 2)(features), [[np.inf, -np.inf]])


@pytest.mark.parametrize("mask", [np.ones_like(MASK), MASK], ids=["all", "masked"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_smk_equals_the_sum_of_smoothed_features_by_attention(size, mask):
    layer = layers.SMKPooling(size, dtype="float64")
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


def test_smk_pools_sets_without_smoothing_alone():
    features = FEATURES.reshape(2, 12, 5).astype("float32")
    expected = layers.SMKPooling(1)(FEATURES.astype("float32"))
    np.testing.assert_allclose(layers.SMKPooling(1)(features), expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"\(2, 12, 5\); with smoothing_size=1 it pools sets"):
        layers.SMKPooling()(features)
