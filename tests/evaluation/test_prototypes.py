import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gsp_tf.evaluation import (
    average_pooling_error,
    foreground_share,
    prototype_partition,
    prototypes,
)

SEEDS = st.integers(0, 10**6)
FEATURES = np.random.default_rng(0).normal(size=(5, 4, 3, 6)).astype("float32")
PROTOTYPES = np.random.default_rng(1).normal(size=(7, 6)).astype("float32")


def test_every_feature_is_with_the_nearest_prototype_in_blocks_of_any_size(monkeypatch):
    apart = np.linalg.norm(FEATURES[..., None, :].astype(float) - PROTOTYPES, axis=-1)
    histograms = (apart.argmin(axis=-1)[..., None] == np.arange(7)).mean(axis=(1, 2))
    for block in (1, 2 * 4 * 3 * 6, 2**22):
        monkeypatch.setattr(prototypes, "_BLOCK_NUMBERS", block)
        partition = prototype_partition(FEATURES, PROTOTYPES)
        np.testing.assert_array_equal(partition.assignments, apart.argmin(axis=-1))
        np.testing.assert_allclose(partition.distances, apart.min(axis=-1))
        np.testing.assert_allclose(partition.histograms, histograms)


@settings(max_examples=40)
@given(
    seed=SEEDS,
    shape=st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 5)),
    count=st.integers(1, 8),
    offset=st.sampled_from([0.0, 1000.0]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_error_is_at_most_the_mean_distance_and_the_radius(seed, shape, count, offset, scale):
    rng = np.random.default_rng(seed)
    features = (scale * (rng.normal(size=shape) + offset)).astype("float32")
    centres = (scale * (rng.normal(size=(count, shape[2])) + offset)).astype("float32")
    partition = prototype_partition(features, centres)
    errors = average_pooling_error(features, centres, partition.histograms)
    rounding = 1e-12 * np.abs(features).max()
    np.testing.assert_allclose(partition.histograms.sum(axis=1), 1)
    assert (errors <= partition.distances.mean(axis=1) + rounding).all()
    assert errors.max() <= partition.distances.max() + rounding


def test_error_of_given_weights():
    weights = np.random.default_rng(2).dirichlet(np.ones(7), 5)
    means = FEATURES.astype(float).mean(axis=(1, 2))
    expected = np.linalg.norm(means - weights @ PROTOTYPES, axis=1)
    np.testing.assert_allclose(average_pooling_error(FEATURES, PROTOTYPES, weights), expected)


@settings(max_examples=25)
@given(
    places=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    pixels=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_resizes_by_area_as_pillow_does(places, pixels):
    rng = np.random.default_rng(0)
    weights, masks = rng.uniform(size=(2, *places)), rng.integers(0, 2, (2, *pixels))
    for of, mask, found in zip(weights, masks, foreground_share(weights, masks), strict=True):
        # Enlarged to a common multiple first: there a box filter is exact.
        fine = mask.repeat(places[0], axis=0).repeat(places[1], axis=1).astype(np.float32)
        areas = np.asarray(Image.fromarray(fine).resize(places[::-1], Image.Resampling.BOX))
        assert found == pytest.approx((of * areas).sum() / of.sum(), abs=1e-6)
