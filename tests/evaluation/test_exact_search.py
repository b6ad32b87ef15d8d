import faiss
import numpy as np
import pytest
from clusters import tight_classes
from scipy.spatial.distance import cdist

from gsp_tf.evaluation import nearest_neighbours


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("count", [7, 200])
def test_equals_sorted_distances(metric, count):
    rng = np.random.default_rng(0)
    queries, references = rng.normal(size=(count, 5)), rng.normal(size=(90, 5))
    expected = cdist(queries, references, metric)
    indices, distances = nearest_neighbours(queries, references, 90, metric)
    assert indices.shape == distances.shape == (count, 90)
    np.testing.assert_allclose(distances, np.sort(expected), atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(expected, indices, 1), distances, atol=1e-5)


def test_without_references_a_query_finds_every_other_but_never_itself():
    indices, distances = nearest_neighbours(np.ones((40, 3)), k=39)
    for row, found in enumerate(indices):
        assert sorted(found) == [i for i in range(40) if i != row]
    assert not distances.any()


def test_zero_vector_has_no_direction():
    _, distances = nearest_neighbours([[0.0, 0.0]], [[1.0, 0.0], [0.0, -2.0]], 2, "cosine")
    assert distances.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("spread", [1e-2, 1e-4])
@pytest.mark.parametrize("first", [0, 1])
def test_embeddings_that_are_almost_the_same_keep_their_order(metric, spread, first):
    rng = np.random.default_rng(0)
    points = rng.normal(size=64) + spread * rng.normal(size=(400, 64))
    points[:first] *= -1  # the vectors are differences from the first
    points = points.astype(np.float32)
    exact = points.astype(float)
    if metric == "cosine":
        exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    squares = np.square(exact[:, None] - exact).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    indices, distances = nearest_neighbours(points, k=3, metric=metric)
    expected = np.sort(squares, axis=1)[:, :3]
    found = np.take_along_axis(squares, indices, axis=1)
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    expected = np.sqrt(expected) if metric == "euclidean" else expected / 2
    np.testing.assert_allclose(distances, expected, rtol=2e-3)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("spread", [1e-2, 1e-3])
@pytest.mark.parametrize(("count", "num_queries", "threads"), [(1000, 1000, 2), (33_000, 20, 32)])
def test_tight_classes_are_told_apart(metric, spread, count, num_queries, threads):
    """faiss multiplies matrices for many queries, and for fewer queries than threads."""
    points = tight_classes(spread, count)
    squares = cdist(points[:20].astype(float), points.astype(float), "sqeuclidean")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        indices, _ = nearest_neighbours(points[:num_queries], points, 6, metric)
    finally:
        faiss.omp_set_num_threads(before)
    found = np.take_along_axis(squares, indices[:20], axis=1)
    np.testing.assert_allclose(found, np.sort(squares, axis=1)[:, :6], rtol=2e-3, atol=1e-15)


@pytest.mark.parametrize(("metric", "offset"), [("euclidean", 0), ("euclidean", 10), ("cosine", 0)])
def test_copies_are_0_apart_and_come_first(metric, offset):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(50, 64)) + offset
    points = np.concatenate([points, points, points + 1e-3 * rng.normal(size=(50, 64))])
    indices, distances = nearest_neighbours(points, points, 3, metric)
    rows = np.arange(100) % 50
    np.testing.assert_array_equal(indices[:100], np.stack([rows, rows + 50, rows + 100], axis=1))
    assert not distances[:100, :2].any() and distances[:, 2].all()
    _, alone = nearest_neighbours(points, points, 1, metric)
    assert not alone.any()
