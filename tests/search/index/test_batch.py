"""Many queries at once: files of results, of images, folders and embeddings."""

import shutil

import numpy as np
import pyarrow as pa
import pytest
from embedded import random_embeddings, rows_of, write_embeddings

from gsp_tf.evaluation import LearnedWhitening, Reranker, truncated
from gsp_tf.search import (
    Embeddings,
    Index,
    RunModel,
    build_index,
    calibrate,
    embed_images,
    search,
    search_many,
)
from gsp_tf.search._tables import vectors_of
from gsp_tf.search.index.neighbours import _VectorReranking

METHODS = "k_reciprocal", "query_expansion", "database_augmentation", "whitening"


def test_a_folder_of_images_finds_what_single_searches_find(run, images, tmp_path, printed_by):
    calibrate(run / "index", false_match_rate=0.3, num_resamples=5)
    queries = sorted((images / "<b>7").iterdir())
    (tmp_path / "text.png").write_text("no image")
    out = tmp_path / "found.parquet"
    sources = [images / "<b>7", tmp_path / "text.png"]
    output = printed_by("search", run, *sources, "--k", "3", "--out", out)
    assert "neighbours of 9 queries; 1 of them have none (column problem)" in output
    found = rows_of(out)
    assert found[-1]["query"] == str(tmp_path / "text.png")
    assert "not an image" in found[-1]["problem"] and found[-1]["rank"] is None
    expected = [
        {"query": str(query), "problem": None, **neighbour._asdict()}
        for query, of_query in zip(queries, search(run, queries, k=3), strict=True)
        for neighbour in of_query
    ]
    for ours, theirs in zip(found[:-1], expected, strict=True):
        assert ours.pop("distance") == pytest.approx(theirs.pop("distance"), abs=1e-6)
        assert ours == theirs and ours["decision"] in ("match", "unsure", "unknown")


@pytest.mark.parametrize("rerank", [None, "k_reciprocal"])
def test_no_queries_have_no_neighbours(run, tmp_path, rerank):
    for source in (run, Index(run / "index")):
        assert search(source, [], rerank=rerank) == []
        done = search_many(source, [], tmp_path / "found.csv", rerank=rerank)
        assert done.queries == 0 and rows_of(done.path) == []


def test_embeddings_are_searched_without_their_images(run, queries, tmp_path, monkeypatch):
    table = pa.concat_tables(queries.shards())
    monkeypatch.setattr(RunModel, "embed_images", None)
    done = search_many(run, [queries.path], tmp_path / "found.csv", k=2)
    assert done.queries == 8 and not done.problems and not done.decisions
    found = rows_of(done.path)
    assert [row["rank"] for row in found] == [1, 2] * 8
    ids, _ = Index(run / "index").search(vectors_of(table), 2)
    assert [row["id"] for row in found] == ids.ravel().tolist()
    assert [row["path"] for row in found[::2]] == table["path"].to_pylist()


@pytest.fixture(scope="module")
def with_cameras(prepared_run, images, tmp_path_factory):
    """An index of images with the camera left, right or none, its table, and the cameras."""
    folder, names = tmp_path_factory.mktemp("cameras"), sorted(map(str, images.rglob("*.png")))
    cameras = {name: ("", "left", "right")[row % 3] for row, name in enumerate(names)}
    table = folder / "cameras.csv"
    lines = [f"{name},{camera}" for name, camera in cameras.items()]
    table.write_text("\n".join(["path,camera", *lines]), "utf-8")
    index = build_index(prepared_run / "embeddings", folder / "index", table=table)
    return index.path, table, cameras


@pytest.fixture(scope="module")
def queries(prepared_run, images, tmp_path_factory):
    """The embedded images of a class, in shards of 3."""
    out = tmp_path_factory.mktemp("queries") / "out"
    return embed_images(prepared_run, [images / "<b>3"], out, shard_size=3)


def test_a_query_with_nothing_left_has_a_row(run, images, with_cameras, printed_by, refused):
    index, table, cameras = with_cameras
    options = ["--index", index, "--where", "camera == 'left'", "--exclude-same", "camera"]
    options += ["--k", 1]
    without = sum(camera == "left" for camera in cameras.values())
    for source, more in ((run / "embeddings", []), (images, ["--table", table])):
        output = printed_by("search", run, source, *options, *more)
        assert f"{run}/neighbours.csv: neighbours of 80 queries; {without} of them have" in output
        found = {row["query"]: row for row in rows_of(run / "neighbours.csv")}
        for name, camera in cameras.items():
            is_left = camera == "left"
            problem = f"All {without} images are excluded." if is_left else ""
            assert found[name]["problem"] == problem and (found[name]["id"] is None) == is_left
            assert is_left or cameras[found[name]["path"]] == "left"
    # An image without a camera finds all images, itself first.
    one = next(name for name, camera in cameras.items() if not camera)
    options = ["--index", index, "--exclude-same", "camera", "--k", 80]
    for more in ([], ["--table", table]):
        assert printed_by("search", run, one, *options, *more).count("\n") == 82
    left = next(name for name, camera in cameras.items() if camera == "left")
    excluded = ["--where", "camera == 'left'", *options[:-2]]
    refused(f"All {without} images are excluded for", "search", run, left, *excluded)


def test_each_query_has_its_own_exclusions(run, images, with_cameras):
    index, query = Index(with_cameras[0]), min(images.rglob("*.png"))
    where = "camera == 'left'"
    for rerank in (None, "query_expansion"):
        options = {"index": index, "k": 30, "rerank": rerank, "where": where}
        (all_left,) = search(run, [query], **options)
        ids = [one.id for one in all_left]
        assert set(ids) == set(index.matching(where).tolist())
        found = search(run, [query] * 3, **options, excluded=[[], ids[:2], np.array(ids[5:])])
        assert [[one.id for one in of] for of in found] == [ids, ids[2:], ids[:5]]
        with pytest.raises(ValueError, match="has no image of id 999"):
            search(run, [query], **options, excluded=[[999]])


def ranked(method, queries, vectors, k, whitening=None):
    """Rows and costs of the first k by a way to re-rank."""
    return Reranker(vectors, method, whitening)(queries)(np.arange(len(queries)), k)


@pytest.mark.parametrize("method", METHODS)
def test_results_are_re_ranked_by_vectors(run, queries, tmp_path, printed_by, method, monkeypatch):
    monkeypatch.setattr("gsp_tf.search.index.neighbours._BLOCK", 3)
    thresholds = calibrate(run / "index", false_match_rate=0.3, num_resamples=5)
    index = Index(run / "index")
    ids, vectors = map(np.concatenate, zip(*index.embeddings(), strict=True))
    table = pa.concat_tables(queries.shards())
    embeddings, out = vectors_of(table), tmp_path / "found.csv"
    options = "--rerank", method, "--k", 5, "--out", out
    assert "First images: " in printed_by("search", run, queries.path, *options)
    places, costs = ranked(method, embeddings, vectors, 5)
    distances = np.linalg.norm(embeddings[:, None] - vectors[places], axis=-1)
    for number, row in enumerate(rows_of(out)):
        place = divmod(number, 5)
        assert row["id"] == ids[places[place]]
        assert row["cost"] == pytest.approx(costs[place], abs=1e-5)
        assert row["distance"] == pytest.approx(distances[place], abs=1e-5)
        assert row["decision"] == thresholds.decide(row["distance"])
    # What is excluded belongs to the neighbourhoods; what the condition leaves out does not.
    files = table["path"].to_pylist()[:2]
    condition = "label in ('<b>3', '<b>5', '<b>7')"
    kept = np.isin(ids, index.matching(condition))
    found = search(run, files, index, 4, None, method, [ids[kept][:3], []], condition)
    places, _ = ranked(method, embeddings[:2], vectors[kept], 16)
    for of_query, order, without in zip(found, places, (3, 0), strict=True):
        left = [id for id in ids[kept][order] if id not in ids[kept][:without]][:4]
        assert [one.id for one in of_query] == left


def test_a_search_is_whitened_by_pairs_of_other_images(run, images, tmp_path, printed_by, refused):
    for folder in images.glob("<b>[0-4]"):
        shutil.copytree(folder, tmp_path / "train" / folder.name)
    training = embed_images(run, [tmp_path / "train"], tmp_path / "training")
    labelled = Embeddings.read(training.path)
    index = Index(run / "index")
    ids, vectors = map(np.concatenate, zip(*index.embeddings(), strict=True))
    whiten = LearnedWhitening(labelled.vectors, labelled.classes[1])
    queries = sorted((images / "<b>7").iterdir())
    embeddings, _ = RunModel(run).embed_images(list(map(str, queries)))
    places, costs = ranked("whitening", embeddings, vectors, 4, whiten)
    options = "--rerank", "whitening", "--k", 4, "--whitening", training.path
    out = tmp_path / "found.csv"
    printed_by("search", run, images / "<b>7", *options, "--out", out)
    np.testing.assert_array_equal([row["id"] for row in rows_of(out)], ids[places].ravel())
    np.testing.assert_allclose([row["cost"] for row in rows_of(out)], costs.ravel(), atol=1e-5)
    one = search(run, queries[0], index, 4, rerank="whitening", whitening=training.path)
    assert [found.id for found in one] == ids[places[0]].tolist()
    assert "First by whitening for" in printed_by("search", run, queries[0], *options)
    other = write_embeddings(tmp_path / "other", embeddings, labels=list("aabbccdd"))
    for wrong, message in (
        (["--rerank", "whitening", "--whitening", other], "do not belong together"),
        (["--rerank", "transport", "--whitening", training.path], "is for --rerank whitening"),
    ):
        refused(message, "search", run, queries[0], *wrong)
    with pytest.raises(ValueError, match="whitening is for the way to re-rank of that name"):
        search(run, queries[0], index, whitening=training.path)


@pytest.mark.parametrize("method", METHODS)
def test_prefixes_are_re_ranked(prepared_run, queries, tmp_path, printed_by, method):
    run, whole = prepared_run, Index(prepared_run / "index")
    embeddings = vectors_of(pa.concat_tables(queries.shards()))
    ids, vectors = map(np.concatenate, zip(*whole.embeddings(), strict=True))
    places, costs = ranked(method, truncated(embeddings, 4), truncated(vectors, 4), len(vectors))
    cost_of = [dict(zip(ids[row], of, strict=True)) for row, of in zip(places, costs, strict=True)]
    cut = build_index(run / "embeddings", tmp_path / "cut", dim=4)
    for options in (["--dim", 4], ["--index", cut.path], ["--index", cut.path, "--dim", 4]):
        out = tmp_path / "found.parquet"
        options += ["--rerank", method, "--k", 5, "--out", out]
        printed_by("search", run, queries.path, *options)
        found = [row["cost"] for row in rows_of(out)]
        assert found == pytest.approx(costs[:, :5].ravel(), abs=1e-5)
        # Ids of costs that differ by rounding alone may be in any order.
        expected = [cost_of[n // 5][row["id"]] for n, row in enumerate(rows_of(out))]
        assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_lengths_do_not_change_what_a_cosine_index_finds(tmp_path, method):
    rng = np.random.default_rng(0)
    vectors, queries = random_embeddings(120), random_embeddings(30, seed=1)
    scales = 2.0 ** rng.integers(-6, 7, (150, 1))  # exact in floating point, so ties stay
    found = []
    for name, by in (("unit", np.ones_like(scales)), ("any", scales)):
        folder = write_embeddings(tmp_path / name, vectors * by[:120])
        index = build_index(folder, tmp_path / f"index of {name}", metric="cosine")
        found.append(_VectorReranking(index, method, None)(queries * by[120:], 10, None))
    np.testing.assert_array_equal(found[0], found[1])


def test_what_cannot_be_searched_in_a_batch(run, images, with_cameras, tmp_path, refused):
    foreign = write_embeddings(tmp_path / "foreign", np.eye(3, 8))
    one, by_camera = min(images.rglob("*.png")), ["--exclude-same", "camera"]
    other = shutil.copy(one, tmp_path / "other.png")
    for arguments, message in (
        ([images, "--out", "x.json"], "Results are written as .csv or .parquet; received x.json"),
        ([images, "--html"], "--html is a page for image files"),
        ([foreign, "--out", "x.csv"], "do not belong together: the models are"),
        ([images, "--where", "label == 'x'"], "No image of the index .* meets the condition"),
        ([one, *by_camera], "has no column camera. Name a table with the columns path and camera"),
        ([other, "--index", with_cameras[0], *by_camera], "does not hold .*other.png"),
        ([one, "--table", with_cameras[1]], "--table has the column of --exclude-same"),
        ([images, "--dim", "9"], "have 8 dimensions; their prefixes have between 1 and 8"),
    ):
        refused(message, "search", run, *arguments)


def test_thresholds_of_whole_embeddings_do_not_decide_about_prefixes(run, query):
    thresholds = calibrate(run / "index", false_match_rate=0.3, num_resamples=5)
    assert search(run, query, k=1)[0].decision is not None
    assert search(run, query, k=1, dim=4)[0].decision is None
    with pytest.raises(ValueError, match="are for embeddings of dimension 8; the index .* 4"):
        search(run, query, k=1, dim=4, thresholds=thresholds)
