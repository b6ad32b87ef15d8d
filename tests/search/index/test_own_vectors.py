"""Indexes of vectors from anywhere, and search in them without a model."""

import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded import rows_of, write_embeddings

from gsp_tf.search import Index, build_index, calibrate, search_many

COUNT = 300
LABELS = [f"class {row % 3}" for row in range(COUNT)]
YEARS = [2018 + row % 5 for row in range(COUNT)]


@pytest.fixture(scope="module")
def vectors():
    """Vectors near three directions, of different lengths."""
    rng = np.random.default_rng(0)
    found = np.eye(3, 8)[np.arange(COUNT) % 3] + 0.3 * rng.normal(size=(COUNT, 8))
    return (found * rng.uniform(1, 3, (COUNT, 1))).astype("float32")


@pytest.fixture(scope="module")
def files(vectors, tmp_path_factory):
    """The vectors as a Parquet file, with an index of it, and as an array alone."""
    folder = tmp_path_factory.mktemp("own")
    table = pa.table({"embedding": vectors.tolist(), "label": LABELS, "year": YEARS})
    pq.write_table(table, folder / "a.parquet")
    np.save(folder / "a.npy", vectors)
    build_index(folder / "a.parquet", folder / "index", "hnsw")
    return folder


@pytest.fixture
def own(files, tmp_path):
    """An index of the Parquet file, of one's own."""
    return shutil.copytree(files / "index", tmp_path / "index")


def test_vectors_search_an_index_without_a_model(files, own, vectors, tmp_path, printed_by):
    printed_by("calibrate", own, "--false-match-rate", "0.1")
    queries, out = tmp_path / "q.npy", tmp_path / "found.parquet"
    np.save(queries, vectors[:5])
    options = "--k", 4, "--where", "year >= 2020", "--out", out
    output = printed_by("search", own, queries, *options)
    assert f"Nearest to {queries}#2 (" in output and f"{queries}#3" not in output
    assert f"{out}: neighbours of 5 queries\nFirst images: " in output
    found = rows_of(out)
    ids, distances = Index(own).search(vectors[:5], 4, where="year >= 2020")
    assert [row["id"] for row in found] == ids.ravel().tolist()
    assert found[0]["distance"] == pytest.approx(distances[0, 0])
    assert found[0]["path"] == f"{files}/a.parquet#{ids[0, 0]}"
    assert {row["decision"] for row in found} <= {"match", "unsure", "unknown"}
    # The same thresholds of the file itself, for an index that has none.
    thresholds = tmp_path / "t.json"
    calibrate(files / "a.parquet", false_match_rate=0.1, num_resamples=5, out=thresholds)
    given = files / "index", [queries], tmp_path / "y.parquet", None, 4, thresholds
    done = search_many(*given, where="year >= 2020")
    assert [row["decision"] for row in rows_of(done.path)] == [row["decision"] for row in found]
    # Without --out, the results are in the index, where nothing else minds them.
    printed_by("search", own, queries, "--rerank", "whitening", "--dim", 4)
    assert (own / "neighbours.csv").is_file()
    printed_by("index", own, "--verify")
    done = search_many(Index(own), [queries], tmp_path / "x.csv", k=1)
    assert [name for name, _ in done.first] == [f"{queries}#{row}" for row in range(3)]


def test_vectors_are_added_and_deleted(own, vectors, tmp_path, printed_by, refused):
    address = "s3://photos/y.png"
    np.savez(tmp_path / "b.npz", embeddings=vectors[:2] + 9, paths=["x.png", address], year=[1, 2])
    deleted = Index(own).paths([0])
    arguments = "--add", tmp_path / "b.npz", "--delete", *deleted
    assert "301 images" in printed_by("index", own, *arguments)
    index = Index(own)
    assert index.paths(index.search(vectors[:1] + 9, 1)[0][0]) == [f"{tmp_path}/x.png"]
    assert index.matching("year < 3").tolist() == [300, 301] and index.paths([301]) == [address]
    assert deleted[0] not in index.paths(index.ids)
    np.save(tmp_path / "wide.npy", np.ones((2, 9)))
    of_model = write_embeddings(tmp_path / "embedded", vectors)
    for source, message in (
        (of_model, "do not belong together: one of them does not say which model made"),
        (tmp_path / "wide.npy", r"do not belong together: the dimensions are \(9, 8\)"),
        (tmp_path / "b.npz", "holds 2 images of these already; to replace them, use --replace"),
    ):
        refused(message, "index", own, "--add", source)
    printed_by("index", own, "--delete", address)
    assert len(Index(own)) == 300


def test_vectors_with_and_without_a_model(
    prepared_run, images, own, vectors, tmp_path, printed_by, refused
):
    run, query = prepared_run, next(images.rglob("*.png"))
    np.save(tmp_path / "q.npy", vectors[:2])
    out = ["--out", tmp_path / "x.csv"]
    note = "note: Only one of queries and index says which model"
    # An index of a model takes vectors without its run, and says nothing about their matches.
    of_model = shutil.copytree(run / "index", tmp_path / "of model")
    calibrate(of_model, false_match_rate=0.3, num_resamples=5)
    assert note in printed_by("search", of_model, tmp_path / "q.npy", *out)
    assert "First images: " in printed_by("search", of_model, run / "embeddings", *out)
    # So does an index of vectors with embeddings of a model.
    calibrate(own, false_match_rate=0.3, num_resamples=5)
    assert note in printed_by("search", own, run / "embeddings", *out)
    given = "--thresholds", own / "thresholds.json"
    for arguments, message in (
        ([own, run / "embeddings", *given], "one of them does not say which model made its embed"),
        ([own, query], "holds vectors from elsewhere and has no model to embed /"),
        ([of_model, query], f"gsp-tf search {run} .*{re.escape(query.name)}. --index"),
        ([run, query, "--index", own], "one of them does not say which model made its embed"),
        ([own, tmp_path / "q.npy", "--index", of_model], "is an index already"),
    ):
        refused(message, "search", *arguments)


def test_what_cannot_be_indexed_or_searched(files, own, vectors, tmp_path, refused):
    np.savez(tmp_path / "id.npz", embeddings=vectors, id=np.arange(COUNT))
    np.savez(tmp_path / "twice.npz", embeddings=vectors, paths=["a.png"] * COUNT)
    build_index(files / "a.npy", tmp_path / "cut", dim=4)
    np.save(tmp_path / "nan.npy", np.full((2, 8), np.nan))
    out = ["--out", tmp_path / "new"]
    for arguments, message in (
        (["index", files / "a.parquet"], "does not say which model .*where to write it .--out"),
        (["index", tmp_path / "id.npz", *out], "has a column id, which an index has of its own"),
        (["index", tmp_path / "twice.npz", *out], "twice.npz holds an image twice: /.*/a.png"),
        (["index", tmp_path / "cut", *out], "is an index of prefixes; take the embeddings that"),
        (["index", own, "--delete", "x", "--metric", "cosine"], "--metric, .* for building"),
        (["search", own, tmp_path / "nan.npy"], "2 of 2 rows hold NaN or infinity"),
    ):
        refused(message, *arguments)
        assert not (tmp_path / "new").exists() and not (own / "neighbours.csv").exists()
