"""Indexes of vectors from anywhere, and search in them without a model."""

import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded import rows_of, write_embeddings

from gsp_tf.search import Index, build_index, calibrate, search, search_many

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
    """The vectors as files of every kind, with labels and years where they have any."""
    folder = tmp_path_factory.mktemp("own")
    table = pa.table({"embedding": vectors.tolist(), "label": LABELS, "year": YEARS})
    pq.write_table(table, folder / "a.parquet")
    np.savez(folder / "a.npz", embeddings=vectors, labels=LABELS, year=YEARS)
    np.save(folder / "a.npy", vectors)
    write_embeddings(folder / "embedded", vectors, labels=LABELS)
    build_index(folder / "a.parquet", folder / "index", "hnsw")
    return folder


@pytest.fixture
def own(files, tmp_path):
    """An index of the Parquet file, of one's own."""
    return shutil.copytree(files / "index", tmp_path / "index")


def test_vectors_search_an_index_without_a_model(files, own, vectors, tmp_path, printed_by):
    printed_by("calibrate", own, "--false-match-rate", "0.1")
    pq.write_table(pa.table({"embedding": vectors[:5].tolist()}), tmp_path / "q.parquet")
    np.savez(tmp_path / "q.npz", embeddings=vectors[:5])
    np.save(tmp_path / "q.npy", vectors[:5])
    found = {}
    for name in ("q.parquet", "q.npz", "q.npy"):
        out = tmp_path / "found.parquet"
        options = "--k", 4, "--where", "year >= 2020", "--out", out
        output = printed_by("search", own, tmp_path / name, *options)
        assert f"Nearest to {tmp_path}/{name}#2 (" in output and f"{name}#3" not in output
        assert f"{out}: neighbours of 5 queries\nFirst images: " in output
        found[name] = [{n: row[n] for n in row if n != "query"} for row in rows_of(out)]
    assert found["q.parquet"] == found["q.npz"] == found["q.npy"]
    index, (first, *_) = Index(own), found["q.npy"]
    ids, distances = index.search(vectors[:5], 4, where="year >= 2020")
    assert [row["id"] for row in found["q.npy"]] == ids.ravel().tolist()
    assert first["distance"] == pytest.approx(distances[0, 0])
    assert first["path"] == f"{files}/a.parquet#{ids[0, 0]}"
    assert {row["decision"] for row in found["q.npy"]} <= {"match", "unsure", "unknown"}
    # The same thresholds of the file itself, for an index that has none.
    thresholds = tmp_path / "t.json"
    calibrate(files / "a.parquet", false_match_rate=0.1, num_resamples=5, out=thresholds)
    done = search_many(
        *(files / "index", [tmp_path / "q.npy"], tmp_path / "y.parquet", None, 4, thresholds),
        where="year >= 2020",
    )
    assert [row["decision"] for row in rows_of(done.path)] == [
        row["decision"] for row in found["q.npy"]
    ]
    # Without --out, the results are in the index, where nothing else minds them.
    printed_by("search", own, tmp_path / "q.npy", "--rerank", "whitening", "--dim", 4)
    assert (own / "neighbours.csv").is_file()
    printed_by("index", own, "--verify")
    done = search_many(Index(own), [tmp_path / "q.npy"], tmp_path / "x.csv", k=1)
    assert done.queries == 5 and [name for name, _ in done.first] == [
        f"{tmp_path}/q.npy#{row}" for row in range(3)
    ]


def test_paths_may_be_addresses(vectors, tmp_path, printed_by):
    paths = [f"s3://photos/{row}.png" for row in range(COUNT)]
    np.savez(tmp_path / "a.npz", embeddings=vectors, paths=paths)
    index = tmp_path / "index"
    printed_by("index", tmp_path / "a.npz", "--out", index)
    np.save(tmp_path / "q.npy", vectors[:1])
    output = printed_by("search", index, tmp_path / "q.npy", "--k", 2)
    assert f"Nearest to {tmp_path}/q.npy#0:" in output
    assert re.search(r"1 +0\.0000 +– +s3://photos/0\.png", output)
    printed_by("index", index, "--delete", paths[0])
    assert Index(index).paths(Index(index).ids[:1]) == paths[1:2]


def test_vectors_are_added_and_deleted(files, own, vectors, tmp_path, printed_by, refused):
    np.savez(tmp_path / "b.npz", embeddings=vectors[:2] + 9, paths=["x.png", "y.png"], year=[1, 2])
    deleted = Index(own).paths([0])
    arguments = "--add", tmp_path / "b.npz", "--delete", *deleted
    assert "301 images" in printed_by("index", own, *arguments)
    index = Index(own)
    assert index.paths(index.search(vectors[:1] + 9, 1)[0][0]) == [f"{tmp_path}/x.png"]
    assert index.matching("year < 3").tolist() == [300, 301] and not set(deleted) & set(
        index.paths(index.ids)
    )
    np.save(tmp_path / "wide.npy", np.ones((2, 9)))
    for source, message in (
        (files / "embedded", "do not belong together: one of them does not say which model made"),
        (tmp_path / "wide.npy", r"do not belong together: the dimensions are \(9, 8\)"),
        (tmp_path / "b.npz", "holds 2 images of these already; to replace them, use --replace"),
    ):
        refused(message, "index", own, "--add", source)
    assert len(Index(own)) == 301


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
        ([own, images], "holds vectors from elsewhere and has no model to embed /"),
        ([of_model, query], f"gsp-tf search {run} .*{re.escape(query.name)}. --index"),
        ([run, query, "--index", own], "one of them does not say which model made its embed"),
        ([own, tmp_path / "q.npy", "--index", of_model], "is an index already"),
    ):
        refused(message, "search", *arguments)
    with pytest.raises(ValueError, match="has no model to embed"):
        search(own, query)
    with pytest.raises(ValueError, match="is an index already"):
        search_many(own, [tmp_path / "q.npy"], tmp_path / "x.csv", of_model)


def test_what_cannot_be_indexed_or_searched(files, own, vectors, tmp_path, refused):
    np.savez(tmp_path / "id.npz", embeddings=vectors, id=np.arange(COUNT))
    np.savez(tmp_path / "twice.npz", embeddings=vectors, paths=["a.png"] * COUNT)
    (tmp_path / "cameras.csv").write_text("path,camera\na.png,1")
    build_index(files / "a.npz", tmp_path / "cut", dim=4)
    nan = vectors[:3].copy()
    nan[1, 2] = np.nan
    np.save(tmp_path / "nan.npy", nan)
    np.save(tmp_path / "wide.npy", np.ones((2, 9)))
    out = ["--out", tmp_path / "new"]
    for arguments, message in (
        (["index", files / "a.parquet"], "does not say which model .*where to write it .--out"),
        (["index", tmp_path / "id.npz", *out], "has a column id, which an index has of its own"),
        (["index", tmp_path / "twice.npz", *out], "twice.npz holds an image twice: /.*/a.png"),
        (["index", tmp_path / "nan.npy", *out], "1 of 3 rows hold NaN or infinity"),
        (["index", tmp_path / "cut", *out], "is an index of prefixes; take the embeddings that"),
        (
            ["index", files / "a.npy", "--table", tmp_path / "cameras.csv", *out],
            "names no image files to look up",
        ),
        (["index", files / "a.npy", "--dim", 9, *out], "prefixes have between 1 and 8"),
        (["index", own, "--delete", "x", "--metric", "cosine"], "--metric, .* for building"),
        (["search", own, tmp_path / "wide.npy"], "of dimension 8; received .* dimension 9"),
        (["search", own, tmp_path / "nan.npy"], "1 of 3 rows hold NaN or infinity"),
        (["search", own, files / "a.npy", "--html"], "--html is a page for image files"),
    ):
        refused(message, *arguments)
        assert not (tmp_path / "new").exists() and not (own / "neighbours.csv").exists()
