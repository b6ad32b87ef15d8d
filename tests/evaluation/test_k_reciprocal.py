import numpy as np
import pytest
from clusters import clusters

from gsp_tf.evaluation import KReciprocalSearch, k_reciprocal


def published(queries, references, k1, k2, weight):
    """The authors' program: distances of queries to all images, from dense matrices."""
    images = np.concatenate([queries, references]).astype(np.float64)
    squares = ((images[:, None] - images) ** 2).sum(-1)
    squares = squares / squares.max(axis=1, keepdims=True)
    ranks = squares.argsort(axis=1, kind="stable")

    def reciprocal(image, k):
        near = ranks[image, : k + 1]
        return {i for i in near if image in ranks[i, : k + 1]}

    encoding = np.zeros_like(squares)
    for image in range(len(images)):
        mutual = reciprocal(image, k1)
        kept = set(mutual)
        for other in mutual:
            theirs = reciprocal(other, int(np.around(k1 / 2)))
            if len(theirs & mutual) > 2 / 3 * len(theirs):
                kept |= theirs
        kept = sorted(kept)
        weights = np.exp(-squares[image, kept])
        encoding[image, kept] = weights / weights.sum()
    encoding = np.stack([encoding[ranks[image, :k2]].mean(0) for image in range(len(images))])
    shared = np.minimum(encoding[: len(queries), None], encoding).sum(-1)
    return (1 - weight) * (1 - shared / (2 - shared)) + weight * squares[: len(queries)]


@pytest.mark.parametrize(("k1", "k2", "weight"), [(20, 6, 0.3), (7, 1, 0.0), (5, 5, 1.0)])
def test_equals_the_published_program(monkeypatch, k1, k2, weight):
    monkeypatch.setattr(k_reciprocal, "_BLOCK_ENTRIES", 1000)
    monkeypatch.setattr(k_reciprocal, "_BLOCK_SETS", 30)
    (queries, _), (references, _) = clusters(20), clusters(90, seed=1)
    search = KReciprocalSearch(queries, references, k1, k2, weight)
    rows = np.array([3, 0, 19, 7])
    expected = published(queries, references, k1, k2, weight)[rows, 20:]
    indices, distances = search(rows, k=90)
    assert search.size == 90
    found = np.take_along_axis(expected, indices, axis=1)
    np.testing.assert_allclose(distances, found, atol=1e-5)
    assert (np.sort(indices, axis=1) == np.arange(90)).all() and (np.diff(distances) >= 0).all()
    few, of_few = search(rows, k=5)
    np.testing.assert_array_equal(of_few, distances[:, :5])
    found = np.take_along_axis(expected, few, axis=1)
    np.testing.assert_allclose(found, np.sort(expected)[:, :5], atol=1e-5)


def test_queries_among_themselves_do_not_find_themselves():
    embeddings, _ = clusters(80)
    expected = published(embeddings, embeddings[:0], 10, 3, 0.3)
    indices, distances = KReciprocalSearch(embeddings, k1=10, k2=3)(np.arange(80), k=79)
    assert not (indices == np.arange(80)[:, None]).any()
    found = np.take_along_axis(expected, indices, axis=1)
    np.testing.assert_allclose(distances, found, atol=1e-5)


@pytest.mark.parametrize("offset", [0, 100])
@pytest.mark.parametrize(("k1", "k2", "weight"), [(2, 1, 0.0), (4, 3, 0.3), (20, 6, 1.0)])
def test_copies_are_0_apart_and_come_first(offset, k1, k2, weight):
    unit = np.random.default_rng(0).normal(size=(40, 64))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    unit[1::2] = unit[::2] + 1e-3 / 8
    search = KReciprocalSearch(np.repeat(unit + offset, 3, axis=0), k1=k1, k2=k2, weight=weight)
    indices, distances = search(np.arange(120), k=119)
    assert (distances[:, :2] == 0).all() and (distances >= 0).all()
    if weight:
        assert (indices[:, :2] // 3 == np.arange(120)[:, None] // 3).all()
        assert (distances[:, 2] > 0).all()


@pytest.mark.parametrize("k2", [1, 3])
def test_more_copies_than_neighbours_are_0_apart_too(k2):
    points = np.random.default_rng(0).normal(size=(5, 4))
    images = np.repeat(points, [9, 9, 1, 2, 9], axis=0)
    number = np.repeat(np.arange(5), [9, 9, 1, 2, 9])
    indices, distances = KReciprocalSearch(images, k1=3, k2=k2)(np.arange(30), k=29)
    are_copies = number[indices] == number[:, None]
    assert not distances[are_copies].any() and distances[~are_copies].all()
    apart = np.linalg.norm(points[:, None] - points, axis=2)[number[:, None], number[indices]]
    squares = np.square(apart / apart.max(axis=1, keepdims=True))
    many = np.isin(number, [0, 1, 4])  # their neighbours are their copies, so they share none
    pairs = many[:, None] & many[indices]
    np.testing.assert_allclose(distances[pairs], (0.3 * squares + 0.7 * ~are_copies)[pairs], 1e-5)
