"""Graphs, codes and rescoring: what they find, on clustered vectors, and what stays on disk."""

import shutil

import faiss
import numpy as np
import pytest
from clusters import around_many_centres
from embedded import edit_json, write_embeddings
from scipy.spatial.distance import cdist

from gsp_tf.search import Index, build_index, change_index, verify_index
from gsp_tf.search.index._vector_index import VectorIndex, recall_of

RESCORED = [("sq8", "vectors"), ("hnsw_sq8", "vectors"), ("ivf_sq8", "vectors")]
RESCORED += [("ivf_pq", "sq8"), ("ivf_pq", "vectors")]

VECTORS = around_many_centres(3000, 32)
QUERIES = around_many_centres(60, 32) + np.float32(0.05)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_embeddings(tmp_path_factory.mktemp("e") / "e", VECTORS, shard_size=1000)


@pytest.fixture(scope="module")
def rescored(source, tmp_path_factory):
    """Indexes of clustered vectors, to be copied."""
    path = tmp_path_factory.mktemp("rescored")
    pairs = [("ivf_pq", None), *RESCORED]
    return {p: build_index(source, path / f"{p[0]}-{p[1]}", p[0], rescore=p[1]).path for p in pairs}


def test_rescoring_finds_what_codes_lose(rescored):
    queries = VECTORS[:200]
    truth = np.argsort(cdist(queries, VECTORS), axis=1)[:, :10]
    found = {pair: Index(path).search(queries, 10)[0] for pair, path in rescored.items()}
    shares = {pair: recall_of(ids, truth) for pair, ids in found.items()}
    assert shares["ivf_pq", None] < 0.8
    assert shares["ivf_pq", "sq8"] > 0.93 and shares["ivf_pq", "vectors"] > 0.97
    assert min(shares[kind, "vectors"] for kind in ("sq8", "ivf_sq8", "hnsw_sq8")) > 0.97
    measured = {pair: Index(path).metadata.recall.share for pair, path in rescored.items()}
    for pair, share in shares.items():
        assert abs(measured[pair] - share) < 0.06, pair


@pytest.mark.parametrize("kind", ["sq8", "hnsw_sq8", "ivf_sq8", "ivf_pq"])
def test_distances_of_rescoring_by_vectors_are_exact(rescored, kind):
    index = Index(rescored[kind, "vectors"], mapped=True)
    ids, distances = index.search(QUERIES[:5], 10)
    expected = np.linalg.norm(VECTORS[ids] - QUERIES[:5, None], axis=2)
    np.testing.assert_allclose(distances, expected, atol=1e-5)
    assert index.distance_name == "Euclidean distance" and index.keeps_vectors
    found = np.concatenate([embeddings for _, embeddings in index.embeddings()])
    np.testing.assert_allclose(found, VECTORS, atol=1e-6)


@pytest.mark.parametrize("pair", [("hnsw_sq8", "vectors"), ("ivf_pq", "sq8")])
def test_a_rescored_index_grows_and_shrinks(rescored, tmp_path, pair):
    index = Index(shutil.copytree(rescored[pair], tmp_path / "index"))
    more = around_many_centres(80, 32, seed=5)
    names = [f"/new/{row}.png" for row in range(80)]
    change_index(index, write_embeddings(tmp_path / "more", more, names))
    change_index(index, delete=["/000.png", "/new/3.png"])
    vectors = np.concatenate([VECTORS, more])
    for opened in (index, Index(index.path), Index(index.path, mapped=True)):
        assert len(opened) == 3078 and len(opened.metadata.segments) == 2
        ids, distances = opened.search(vectors[[0, 1, 3003, 3004]], 5)
        assert not np.isin(ids, [0, 3003]).any()
        assert ids[1, 0] == 1 and ids[3, 0] == 3004
        expected = np.linalg.norm(vectors[ids] - vectors[[0, 1, 3003, 3004], None], axis=2)
        np.testing.assert_allclose(distances, expected, atol=1e-5 if pair[1] == "vectors" else 0.05)
    assert verify_index(index.path) == index.metadata


def test_codes_that_are_gone_or_of_others_are_refused(rescored, tmp_path):
    path = shutil.copytree(rescored["ivf_pq", "sq8"], tmp_path / "index")
    edit_json(path / "index.json", rescore="vectors")
    with pytest.raises(ValueError, match="codes-.* is not an index of kind 'exact'"):
        Index(path)
    next(path.glob("codes-*")).unlink()
    with pytest.raises(FileNotFoundError, match="it lacks codes-"):
        Index(path)


def test_prefixes_are_searched_normalised(source, tmp_path):
    index = build_index(source, tmp_path / "index", dim=8)
    cut = VECTORS[:, :8] / np.linalg.norm(VECTORS[:, :8], axis=1, keepdims=True)
    ids, distances = index.search(VECTORS[:20], 5)
    np.testing.assert_array_equal(ids[:, 0], np.arange(20))
    expected = np.linalg.norm(cut[ids] - cut[:20, None], axis=2)
    np.testing.assert_allclose(distances, expected, atol=1e-5)
    np.testing.assert_array_equal(index.search(cut[:20], 5)[0], ids)
    change_index(index, write_embeddings(tmp_path / "more", VECTORS[:1] * 3, ["/x.png"]))
    assert set(index.search(VECTORS[:1], 2)[0][0]) == {0, 3000}
    with pytest.raises(ValueError, match="is of dimension 8; received embeddings of dimension 9"):
        index.search(VECTORS[:, :9], 1)
    assert Index(index.path).metadata.embedding_dim == 32


@pytest.mark.parametrize("metric", [faiss.METRIC_L2, faiss.METRIC_INNER_PRODUCT])
@pytest.mark.parametrize(
    ("kind", "rescore"), [("exact", None), ("hnsw", None), ("ivf_sq8", "vectors")]
)
def test_the_distance_of_a_stored_vector_is_0(kind, rescore, metric):
    points = np.random.default_rng(0).normal(size=(300, 64)).astype("float32") + 10
    if metric == faiss.METRIC_INNER_PRODUCT:
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    vectors = VectorIndex.new(kind, 64, len(points), metric, rescore)
    vectors.train(points)
    vectors.add(np.arange(300), points)
    scores, ids = vectors.search(points, 2)
    assert (ids[:, 0] == np.arange(300)).all()
    assert (scores[:, 0] == (0 if metric == faiss.METRIC_L2 else 1)).all()
