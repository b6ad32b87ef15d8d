"""Ranking metrics on the command line, of embeddings from anywhere."""

import json

import numpy as np
import pytest
from embedded import write_embeddings

from gsp_tf.evaluation import (
    LearnedWhitening,
    PairDistances,
    gallery_metrics,
    grouped_recall,
    open_set_identification,
    opis,
    ranking_metrics,
    reranking_metrics,
    retrieval_metrics,
    verification_metrics,
)
from gsp_tf.search import build_index, ranked_images

pytestmark = pytest.mark.tensorflow


RNG = np.random.default_rng(0)
CLASSES, CAMERAS = np.arange(90) % 6, RNG.integers(0, 3, 90)
EMBEDDINGS = (np.eye(6)[CLASSES] + 0.8 * RNG.normal(size=(90, 6))).astype("float32")
LABELS = np.array([f"class {c}" for c in CLASSES])


@pytest.fixture
def sources(tmp_path):
    """The embeddings as a folder, with a table of their cameras, and as a file."""
    names = [f"camera {c}" for c in CAMERAS]
    paths = [f"/photos/{i}.png" for i in range(90)]
    folder = write_embeddings(tmp_path / "embedded", EMBEDDINGS, paths, LABELS, shard_size=40)
    order = np.random.default_rng(1).permutation(90)
    lines = [f"{paths[i]},x,{names[i]}" for i in order]
    (tmp_path / "cameras.csv").write_text("\n".join(["path,other,camera", *lines]))
    np.savez(tmp_path / "a.npz", embeddings=EMBEDDINGS, labels=LABELS, camera=names)
    return folder, tmp_path / "cameras.csv", tmp_path / "a.npz"


@pytest.fixture
def ranked(printed_by, tmp_path):
    """Function that gives what `gsp-tf rank` writes, and what it prints."""

    def call(*arguments, command="rank"):
        out = tmp_path / "metrics.json"
        printed = printed_by(command, *arguments, "--out", out)
        return json.loads(out.read_text("utf-8")), printed

    return call


def assert_written(record, metrics):
    """A record holds the means of metrics and their intervals."""
    for name, (value, *ends) in metrics.means().items():
        assert record[name] == pytest.approx(value, abs=1e-6)
        if np.isfinite(ends).all():
            assert record["intervals"][name] == pytest.approx(ends, abs=1e-6)
    assert record["num_queries"] == metrics.num_queries


def test_any_source_has_the_same_metrics_by_camera(sources, ranked):
    expected = ranking_metrics(EMBEDDINGS, CLASSES, at=(1, 7), query_sources=CAMERAS)
    grouped = grouped_recall(EMBEDDINGS, CLASSES, 3, (1, 7))["grouped_recall_at_7"]
    options = "--at", 7, 1, "--by", "camera", "--exclude-same", "camera"
    folder, table, arrays = sources
    for source in ((folder, "--table", table), (arrays,)):
        record, text = ranked(*source, *options)
        assert_written(record["all"], expected)
        for camera, metrics in expected.by(CAMERAS).items():
            assert_written(record["by camera"][f"camera {camera}"], metrics)
        assert "90 queries of 6 classes" in text and "Queries by camera" in text
    record, _ = ranked(arrays, "--at", 1, 7, "--classes-per-group", 3)
    found = record["grouped_recall"]
    assert found["grouped_recall_at_7"] == pytest.approx(grouped.value, abs=1e-6)
    assert found["intervals"]["grouped_recall_at_7"] == pytest.approx(grouped[1:], abs=1e-6)
    one_group = "--at", 1, "--classes-per-group", 4  # 6 classes fill one group: no interval
    assert ranked(arrays, *one_group)[0]["grouped_recall"]["intervals"] == {}
    by_class, _ = ranked(arrays, "--by", "class", "--metric", "cosine")
    cosine = ranking_metrics(EMBEDDINGS, CLASSES, metric="cosine")
    assert_written(by_class["by class"]["class 3"], cosine.by()[3])


def test_names_of_classes_are_shown_as_they_are(tmp_path, ranked):
    names = np.array(["cup [red]", "cup [blue]", "pen[/cap]", "a", "b", "c"])
    np.savez(tmp_path / "a.npz", embeddings=EMBEDDINGS, labels=names[CLASSES])
    _, text = ranked(tmp_path / "a.npz", "--by", "class")
    assert all(name in text for name in names)


def test_galleries_and_ways_to_re_rank(sources, tmp_path, ranked):
    one, other = EMBEDDINGS[:50], EMBEDDINGS[50:]
    halves = np.arange(50) % 2
    for half in (0, 1):
        rows = np.flatnonzero(halves == half)
        np.savez(tmp_path / f"{half}.npz", embeddings=one[rows], labels=LABELS[rows])
    np.savez(tmp_path / "query.npz", embeddings=other, labels=LABELS[50:])
    galleries = [tmp_path / "0.npz", tmp_path / "1.npz"]
    arguments = tmp_path / "query.npz", "--gallery", *galleries
    record = ranked(*arguments)[0]["galleries"]
    expected = gallery_metrics(other, CLASSES[50:], halves, one, CLASSES[:50])
    for half, gallery in enumerate(galleries):
        assert_written(record[str(gallery)], expected[half])
    record, _ = ranked(*arguments[:-1], "--rerank", "all")
    rows = halves == 0
    expected = reranking_metrics(other, CLASSES[50:], one[rows], CLASSES[:50][rows])
    assert list(record) == list(expected)
    for name, found in expected.items():
        assert_written(record[name], found.metrics)
    with pytest.raises(ValueError, match="reference_sources are those of references"):
        ranking_metrics(EMBEDDINGS, CLASSES, reference_sources=CAMERAS)
    options = "--rerank", "k_reciprocal", "--exclude-same", "camera"
    record, _ = ranked(sources[2], *options)
    found = reranking_metrics(EMBEDDINGS, CLASSES, methods=["k_reciprocal"], query_sources=CAMERAS)
    assert_written(record["k_reciprocal"], found["k_reciprocal"].metrics)


def test_queries_that_a_gallery_holds_are_counted(tmp_path, ranked):
    for name, rows in (("queries", range(30)), ("others", range(30, 90)), ("all", range(90))):
        paths = [f"/photos/{row}.png" for row in rows]
        write_embeddings(tmp_path / name, EMBEDDINGS[rows], paths, LABELS[rows])
    for name, says in (("others", False), ("all", True)):
        _, printed = ranked(tmp_path / "queries", "--gallery", tmp_path / name)
        assert ("30 of 30 queries are among the searched images, too" in printed) == says


def test_verification_and_identification_of_any_source(sources, tmp_path, ranked):
    pairs = PairDistances(EMBEDDINGS, CLASSES)
    expected = verification_metrics(pairs, [0.01, 0.1]) | {"opis": opis(pairs).estimate()}
    record, printed = ranked(sources[0], 0.01, 0.1, command="verify")
    for name in ("opis", "auc", "eer", "tar_at_far_0.01", "tar_at_far_0.1"):
        assert record[name] == pytest.approx(expected[name].value, abs=1e-4)
        assert record["intervals"][name] == pytest.approx(expected[name][1:], abs=0.05)
    assert f"{pairs.num_positive:,} pairs of the same class" in printed and "opis" in printed
    known = CLASSES < 4
    np.savez(tmp_path / "known.npz", embeddings=EMBEDDINGS[known][:40], labels=LABELS[known][:40])
    arguments = sources[2], 0.1, "--gallery", tmp_path / "known.npz"
    record, printed = ranked(*arguments, "--metric", "cosine", command="verify")
    references = EMBEDDINGS[known][:40], CLASSES[known][:40]
    found = open_set_identification(EMBEDDINGS, CLASSES, *references, [0.1], "cosine")
    assert record["dir_at_far_0.1"] == pytest.approx(found["dir_at_far_0.1"].value)
    assert "60 queries of classes in the gallery and 30 of others" in printed


def test_a_gallery_with_cosine_distances_is_compared_by_them(sources, tmp_path, ranked, refused):
    queries = write_embeddings(tmp_path / "queries", 5 * EMBEDDINGS[:30], labels=LABELS[:30])
    gallery = build_index(sources[0], tmp_path / "cosine", metric="cosine").path
    arguments = queries, "--gallery", gallery
    record, printed = ranked(*arguments)
    assert "note: An index has cosine distances" in printed
    found = ranking_metrics(EMBEDDINGS[:30], CLASSES[:30], EMBEDDINGS, CLASSES, metric="cosine")
    assert_written(record["all"], found)
    refused("accepted is 'cosine' or no metric", "rank", *arguments, "--metric", "euclidean")
    refused("cosine distances", "rank", *arguments, "--rerank", "whitening")


def test_whitening_is_learned_from_other_labelled_embeddings(tmp_path, ranked, refused):
    train = CLASSES < 3
    learned = write_embeddings(tmp_path / "train", EMBEDDINGS[train], labels=LABELS[train])
    test = write_embeddings(tmp_path / "test", EMBEDDINGS[~train], labels=LABELS[~train])
    whiten = LearnedWhitening(EMBEDDINGS[train], CLASSES[train])
    found = retrieval_metrics(whiten(EMBEDDINGS[~train]), CLASSES[~train], metric="cosine")
    for gallery in ((), ("--gallery", test)):
        record, _ = ranked(test, *gallery, "--rerank", "all", "--whitening", learned)
        assert "learned_whitening_6" in record and "whitening_6" not in record
    record, _ = ranked(test, "--rerank", "whitening", "--whitening", learned)
    assert record["learned_whitening_6"]["map_at_r"] == pytest.approx(found["map_at_r"])
    assert list(record) == ["search", "learned_whitening_6"]
    other = write_embeddings(tmp_path / "b", EMBEDDINGS, labels=LABELS, model="b")
    np.savez(tmp_path / "two.npz", embeddings=EMBEDDINGS[:, :2], labels=LABELS)
    for options, message in (
        (["--rerank", "whitening", "--whitening", other], "do not belong together"),
        (["--rerank", "whitening", "--whitening", tmp_path / "two.npz"], "the dimensions are"),
        (["--rerank", "k_reciprocal", "--whitening", learned], "is for --rerank whitening"),
    ):
        refused(message, "rank", test, *options)


def test_images_of_an_unknown_camera_ignore_none(tmp_path, ranked):
    names = np.where(CAMERAS == 1, "", CAMERAS.astype(str))
    np.savez(tmp_path / "a.npz", embeddings=EMBEDDINGS, labels=LABELS, camera=names)
    own = np.where(CAMERAS == 1, 100 + np.arange(90), CAMERAS)
    record, _ = ranked(tmp_path / "a.npz", "--exclude-same", "camera")
    assert_written(record["all"], ranking_metrics(EMBEDDINGS, CLASSES, query_sources=own))
    both = tmp_path / "a.npz", "--gallery", tmp_path / "a.npz", "--exclude-same", "camera"
    record, _ = ranked(*both)
    sources = {"query_sources": own, "reference_sources": np.where(CAMERAS == 1, -1, CAMERAS)}
    found = ranking_metrics(EMBEDDINGS, CLASSES, EMBEDDINGS, CLASSES, **sources)
    assert_written(record["all"], found)


def test_what_does_not_fit_is_refused(sources, tmp_path, refused):
    folder, table, arrays = sources
    pairs = tmp_path / "twice.csv"
    pairs.write_text("path,camera\n/a.png,1\n/a.png,2\n")
    np.savez(tmp_path / "one.npz", embeddings=np.eye(6), labels=["class 1"] * 6)
    for arguments, message in (
        ((arrays, "--by", "camera", "--table", table), "names no image files to look up"),
        ((folder, "--by", "camera", "--table", pairs), "names images twice: /a.png"),
        ((arrays, "--rerank", "transport"), "a.npz keeps no local features, which transport"),
        ((folder, "--rerank", "all", "transport"), "embedded keeps no local features"),
        ((folder, "--rerank", "transport", "--tokens", 4), "--tokens is for the images of a run"),
        ((arrays, "--rerank", "all", "--by", "class"), "it takes no --by"),
        ((arrays, "--classes-per-group", 2, "--exclude-same", "camera"), "no --exclude-same"),
        ((arrays, "--tokens", 4), "--tokens is for --rerank transport"),
        ((folder, "--table", table), "--table has the columns of --by and --exclude-same"),
        ((arrays, "--exclude-same", "class"), "class leaves no positive"),
        ((arrays, "--by", "class", "--gallery", folder, arrays), "one --gallery at most"),
        ((arrays, "--gallery", arrays, arrays), "A gallery is named twice"),
        ((tmp_path / "one.npz",), "one.npz are of one class, class 1; ranking needs at least two"),
        ((arrays, "--gallery", tmp_path / "one.npz"), "All 6 references are of class"),
        ((arrays, "--classes-per-group", 1), "at least 2 and at most 6, all classes; received 1"),
    ):
        assert not refused(message, "rank", *arguments)
    for arguments, message in (
        ((arrays, 1e-9), "received 1e-09"),
        ((arrays, 0.1, "--gallery", folder), "and of other classes are needed"),
    ):
        refused(message, "verify", *arguments)
    read = ranked_images(arrays, columns=["camera"], most_images=30)
    assert read.queries.count == len(read.groups("camera")) == 30
