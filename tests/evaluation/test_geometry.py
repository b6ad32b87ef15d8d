"""How embeddings lie in their space: density, overlap, covering radius, spectrum and spread."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull
from scipy.spatial.distance import pdist
from scipy.stats import entropy

from gsp_tf.evaluation import (
    covering_radius_curve,
    embedding_density,
    embedding_spread,
    geometry,
    hull_overlap,
    spectral_decay,
)


def density(embeddings, labels, metric):
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    classes = [unit[labels == label] for label in set(labels)]
    intra = np.mean([pdist(images, metric).mean() for images in classes if len(images) > 1])
    inter = pdist([images.mean(axis=0) for images in classes], metric).mean()
    return {"intra": intra, "inter": inter, "ratio": intra / inter}


@pytest.mark.equation(
    "CRT", "6", "evaluation.embedding_density", "the paper names no distance; Euclidean or cosine"
)
@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 12), dim=st.integers(1, 6))
def test_density_equals_its_definition(seed, classes, dim):
    rng = np.random.default_rng(seed)
    labels = np.r_[0, 0, 1, rng.integers(0, classes, 17)]
    embeddings = rng.normal(size=(20, dim + 1)).astype(np.float32).astype(float)
    for metric in ("euclidean", "cosine"):
        expected = density(embeddings, labels, metric)
        assert embedding_density(embeddings, labels, metric) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("dim", range(60, 70))
def test_density_of_collapsed_classes(dim):
    # For some of these dimensions, dot products and means of equal directions do not come out
    # equal, and distances between them not zero.
    classes, labels = np.random.default_rng(0).normal(size=(3, dim)), np.arange(30) % 3
    collapsed_classes = embedding_density(classes[labels], labels)
    assert (collapsed_classes["intra"], collapsed_classes["ratio"]) == (0.0, 0.0)
    assert collapsed_classes["inter"] > 1.0
    everything = embedding_density(np.tile(classes[0], (30, 1)), labels)
    assert (everything["intra"], everything["inter"]) == (0.0, 0.0)
    assert math.isnan(everything["ratio"])


def test_density_in_blocks_of_bounded_memory(monkeypatch):
    # All distances within the larger class at once would take 50 MB.
    embeddings = np.random.default_rng(0).normal(size=(2600, 3))
    labels = np.arange(2600) < 2500
    whole = embedding_density(embeddings, labels.astype(int))
    monkeypatch.setattr(geometry, "_WORKING_MEMORY_MIB", 2)
    tracemalloc.start()
    blocks = embedding_density(embeddings, labels.astype(int))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15e6
    assert blocks == pytest.approx(whole, abs=1e-12)


@pytest.mark.equation("CRT", "7", "evaluation.spectral_decay")
@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), dim=st.integers(1, 8))
def test_spectral_decay_equals_its_definition(seed, dim):
    rng = np.random.default_rng(seed)
    embeddings = (rng.normal(size=(25, dim)) * rng.uniform(0.1, 2, dim)).astype(np.float32)
    unit = embeddings.astype(float) / np.linalg.norm(embeddings.astype(float), axis=1)[:, None]
    spectrum = np.sqrt(np.linalg.eigvalsh(unit.T @ unit))
    expected = entropy(np.full(dim, 1 / dim), spectrum / spectrum.sum())
    assert spectral_decay(embeddings) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "embeddings",
    [
        np.random.default_rng(0).normal(size=(3, 4)),
        np.random.default_rng(0).normal(size=(50, 2))[:, [0, 1, 1]],
        np.tile([[0.3, 0.7]], (9, 1)),
        np.zeros((5, 2)),
        np.zeros((1, 1)),
    ],
)
def test_spectral_decay_is_infinite_without_all_dimensions(embeddings):
    assert spectral_decay(embeddings) == math.inf


def test_zero_vectors_do_not_count_in_a_spectrum():
    embeddings = np.random.default_rng(0).normal(size=(20, 4))
    padded = np.concatenate([embeddings, np.zeros((7, 4))])
    assert spectral_decay(padded) == pytest.approx(spectral_decay(embeddings), abs=1e-12)


def test_spread_equals_its_definitions():
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(9, 4)), np.arange(9) % 3
    found = embedding_spread(embeddings, labels)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    i, j = np.triu_indices(9, 1)
    squares, cosines = np.square(unit[i] - unit[j]).sum(axis=1), np.vecdot(unit[i], unit[j])
    same = labels[i] == labels[j]
    singular = np.linalg.svd(unit, compute_uv=False)
    share = singular / singular.sum()
    expected = {
        "similarity": cosines[~same].mean(),
        "effective_rank": np.exp(-np.sum(share * np.log(share))),
        "alignment": squares[same].mean(),
        "uniformity": np.log(np.exp(-2 * squares).mean()),
    }
    assert found == pytest.approx(expected, rel=1e-6)


def test_spread_of_collapsed_embeddings():
    collapsed = embedding_spread(np.ones((6, 3)), np.arange(6) // 2)
    expected = {"similarity": 1, "effective_rank": 1, "alignment": 0, "uniformity": 0}
    assert collapsed == pytest.approx(expected, abs=1e-5)
    assert embedding_spread(np.eye(5), np.arange(5))["effective_rank"] == pytest.approx(5)
    assert np.isnan(embedding_spread(np.eye(5), np.arange(5))["alignment"])


TRIANGLE = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])


def separated(one, other):
    """Separating axes of polygons: whether an edge of either has all of the other outside."""
    return any(
        (points @ hull.equations[:, :-1].T + hull.equations[:, -1] > 0).all(axis=0).any()
        for hull, points in ((ConvexHull(one), other), (ConvexHull(other), one))
    )


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.5, 1.0, 2.0]))
def test_polygons_overlap_unless_an_edge_separates_them(seed, spread):
    rng = np.random.default_rng(seed)
    classes = rng.normal(size=(4, 6, 2)) + spread * rng.normal(size=(4, 1, 2))
    classes = classes.astype("float32").astype(float)
    expected = [not separated(a, b) for a, b in itertools.combinations(classes, 2)]
    assert hull_overlap(classes.reshape(-1, 2), np.repeat(range(4), 6)) == np.mean(expected)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ([[1.0, 1.0]], 1.0),  # a point inside
        ([[3.0, 3.0]], 0.0),  # outside, though in the bounding box
        ([[0.5, -1.0], [0.5, 9.0]], 1.0),  # a segment through it, its ends outside
        ([[9.0, -4.0], [-1.0, 9.0]], 0.0),  # a segment past it
        (TRIANGLE / 4 + 0.5, 1.0),  # a triangle inside
        (TRIANGLE, 1.0),
    ],
)
def test_hulls_overlap_by_hand(other, expected):
    points = np.concatenate([TRIANGLE, other])
    labels = [0] * 3 + [1] * len(other)
    assert hull_overlap(points, labels) == expected
    assert hull_overlap(points * 1e-4 + 0.25, labels) == expected


def test_hulls_that_are_linked_in_the_plane_but_not_in_space():
    crossing = np.array([[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0]], float)
    assert hull_overlap(crossing, [0, 0, 1, 1]) == 1.0
    crossing[2:, 2] = 0.1
    assert hull_overlap(crossing, [0, 0, 1, 1]) == 0.0


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), count=st.sampled_from([1, 5, 30]))
def test_every_covering_centre_is_the_point_farthest_from_those_before(seed, count):
    points = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32).astype(float)
    apart, expected = np.full(count, np.inf), []
    for _ in range(count):
        centre = points[apart.argmax()]
        apart = np.minimum(apart, np.linalg.norm(points - centre, axis=1))
        expected.append(apart.max())
    assert expected[-1] == 0
    np.testing.assert_allclose(covering_radius_curve(points, count), expected, atol=1e-12)
