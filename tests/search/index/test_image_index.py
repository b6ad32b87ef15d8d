import faiss
import numpy as np
import pytest
from clusters import tight_classes
from embedded import KINDS, random_embeddings, write_embeddings
from scipy.spatial.distance import cdist

from gsp_tf.evaluation import ExactSearch
from gsp_tf.search import Embeddings, Index, build_index, change_index
from gsp_tf.search.index import _folder, build
from gsp_tf.search.index._vector_index import exact_neighbours


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("mapped", [False, True])
def test_the_exact_index_is_the_search_of_evaluation(folder, embeddings, tmp_path, metric, mapped):
    build_index(folder, tmp_path / "index", metric=metric)
    index = Index(tmp_path / "index", mapped)
    assert index.mapped is mapped and index.metadata.kind == "exact"
    queries = np.concatenate([embeddings[:30], random_embeddings(30, seed=1), np.zeros((1, 8))])
    indices, distances = ExactSearch(embeddings, metric)(queries, 20)
    found, found_distances = index.search(queries, 20)
    if metric == "euclidean":
        np.testing.assert_array_equal(found, indices)
        np.testing.assert_array_equal(found_distances, distances)
    else:  # the index compares by products, which part equal vectors by their rounding
        np.testing.assert_allclose(found_distances, distances, atol=3e-7)
        lengths = np.linalg.norm(queries.astype(float), axis=1, keepdims=True)
        directions = queries / np.where(lengths > 0, lengths, 1)
        expected = 1 - np.einsum("qd,qkd->qk", directions, embeddings[found])
        np.testing.assert_allclose(found_distances, expected, atol=3e-7)


def test_far_from_zero_and_of_any_length(tmp_path):
    embeddings = 1e6 + 100 * np.random.default_rng(0).normal(size=(60, 5)).astype("float32")
    index = build_index(write_embeddings(tmp_path / "e", embeddings), tmp_path / "index")
    expected, distances = ExactSearch(embeddings)(embeddings, 5)
    found, found_distances = index.search(embeddings, 5)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found_distances, distances)


@pytest.mark.parametrize(("metric", "rtol"), [("euclidean", 2e-3), ("cosine", 0.2)])
def test_an_exact_index_tells_tight_classes_apart(tmp_path, metric, rtol):
    points = tight_classes(1e-3, 2000)
    squares = cdist(points.astype(float), points.astype(float), "sqeuclidean")
    expected = np.sort(squares, axis=1)

    def check(ids, ranks, rtol=2e-3):
        found = np.sort(np.take_along_axis(squares, ids, axis=1), axis=1)
        np.testing.assert_allclose(found, expected[:, ranks], rtol=rtol, atol=1e-15)

    index = build_index(Embeddings.from_arrays(points), tmp_path / "index", "exact", metric)
    check(index.search(points, 6)[0], range(6))
    blocks = [(np.arange(start, start + 1000), points[start : start + 1000]) for start in (0, 1000)]
    nobody, flat = np.full(len(points), -1), index._space.faiss_metric
    # Cosines of two blocks are compared in float32.
    check(exact_neighbours(blocks, points, nobody, 6, flat), range(6), rtol)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_on_disk_give_the_same_answers(built, embeddings, kind, monkeypatch):
    index = Index(built(kind))
    assert not index.mapped
    monkeypatch.setattr(_folder, "available_memory", lambda: 1000)
    on_disk = Index(index.path)
    assert on_disk.mapped and not Index(index.path, mapped=False).mapped
    np.testing.assert_equal(on_disk.search(embeddings, 15), index.search(embeddings, 15))
    assert on_disk.paths([299, 3]) == ["/299.png", "/003.png"]
    assert on_disk.labels([3, 20]) == [None, "class 2"]


@pytest.mark.parametrize(("kind", "memory"), [("ivf_sq8", 0), ("ivf_pq", 10**9)])
def test_the_recall_is_what_it_says(tmp_path, kind, memory, monkeypatch):
    """All images of the index are queries; the embeddings are kept in memory, or read again."""
    monkeypatch.setattr(build, "NUM_QUERIES", 600)
    monkeypatch.setattr(build, "available_memory", lambda: memory)
    embeddings = np.random.default_rng(2).normal(size=(600, 8)).astype("float32")
    folder = write_embeddings(tmp_path / "e", embeddings, shard_size=100)
    index = build_index(folder, tmp_path / "index", kind)
    distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=2)
    np.fill_diagonal(distances, np.inf)
    truth = np.argsort(distances, axis=1)[:, :10]
    found, _ = index.search(embeddings, 11)
    others = [[i for i in row if i != query][:10] for query, row in enumerate(found)]
    hits = [len(set(a) & set(b)) for a, b in zip(others, truth.tolist(), strict=True)]
    measured = index.metadata.recall
    assert measured.queries == measured.images == 600 and measured.neighbours == 10
    assert measured.share == pytest.approx(np.mean(hits) / 10) and 0.5 < measured.share < 1


def test_one_image(tmp_path):
    index = build_index(write_embeddings(tmp_path / "e", [[3.0, 4.0]]), tmp_path / "index")
    ids, distances = index.search([[0.0, 0.0]], 1)
    assert ids.tolist() == [[0]] and distances.tolist() == [[5.0]]


def test_bad_searches(indexes):
    index = Index(indexes["exact"])
    for queries, k, message in (
        (np.zeros((1, 8)), 301, "k must be between 1 and 300, the images in .*; received 301"),
        (np.zeros((1, 8)), 0, "k must be between 1 and 300.*received 0"),
        (np.zeros((1, 4)), 1, "is of dimension 8; received embeddings of dimension 4"),
        (np.full((1, 8), np.nan), 1, "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            index.search(queries, k)


@pytest.mark.parametrize("kind", KINDS)
def test_excluded_images_are_not_found(built, embeddings, kind):
    index = Index(built(kind))
    change_index(index, delete=["/007.png"])
    everything, distances = index.search(embeddings[:4], 299)
    excluded = np.flatnonzero(np.arange(300) % 3 == 0)
    kept = ~np.isin(everything, excluded)
    for k in (5, 199):
        found, theirs = index.search(embeddings[:4], k, excluded)
        np.testing.assert_array_equal(theirs, distances[kept].reshape(4, 199)[:, :k])
        assert not np.isin(found, excluded).any()
    for ids, message in (
        ([7], "no image of id 7"),
        (excluded, "between 1 and 199, .* without 100"),
    ):
        with pytest.raises(ValueError, match=message):
            index.search(embeddings[:1], 200, ids)


def test_what_cannot_be_built(folder, built, tmp_path):
    few = write_embeddings(tmp_path / "few", np.eye(255, 4))
    new, mine = tmp_path / "new", tmp_path / "mine"
    mine.mkdir()
    (mine / "items-2024.parquet").touch()
    for error, message, *arguments in (
        (ValueError, "ivf_sq8 needs at least 256 images; received 255", few, new, "ivf_sq8"),
        (ValueError, "one of exact, sq8, .*, ivf_pq; received 'lsh'", folder, new, "lsh"),
        (FileExistsError, "holds an index; add to it", folder, built("exact")),
        (FileExistsError, "exists and holds no index", folder, mine),
        (FileNotFoundError, "/no/such/run, is not there or has another model", folder),
    ):
        with pytest.raises(error, match=message):
            build_index(*arguments)
    for kind, rescore, message in (
        ("exact", "sq8", "exact has the vectors themselves and is not rescored"),
        ("ivf_sq8", "sq8", "can be rescored by vectors; received rescore='sq8'"),
    ):
        with pytest.raises(ValueError, match=message):
            build_index(folder, new, kind, rescore=rescore)
    assert not new.exists()
    with pytest.raises(FileNotFoundError, match="is not an index: it has no index.json"):
        Index(mine)


def test_a_search_leaves_the_threads_of_faiss_as_they_are(indexes, embeddings):
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    try:
        Index(indexes["exact"]).search(embeddings[:1], 1)
        assert faiss.omp_get_max_threads() == 2
    finally:
        faiss.omp_set_num_threads(threads)
