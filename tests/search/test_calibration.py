import json
import shutil

import numpy as np
import pytest
from clusters import around_centres
from embedded import edit_json, edit_recipe, write_embeddings

from gsp_tf.export import export_run, save_pretrained
from gsp_tf.export.metadata import ExportMetadata
from gsp_tf.runs import RunFolder, fingerprint, load_splits
from gsp_tf.search import (
    Embeddings,
    Index,
    RunModel,
    Thresholds,
    build_index,
    calibrate,
    compare_indexes,
    find_label_errors,
    find_thresholds,
    search,
)


@pytest.fixture(scope="module")
def labelled():
    """300 embeddings of 30 classes, and their labels."""
    embeddings, classes = around_centres(30, size=10, dim=8)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings.astype("float32"), [f"class {c}" for c in classes]


@pytest.fixture
def sources(labelled, tmp_path):
    """Paths of the same labelled embeddings as a folder and as a file."""
    embeddings, labels = labelled
    folder = write_embeddings(tmp_path / "embedded", embeddings, labels=labels)
    np.savez(tmp_path / "a.npz", embeddings=embeddings.astype(float), labels=labels)
    return folder, tmp_path / "a.npz"


def test_thresholds_are_written_beside_the_embeddings_and_decide(sources):
    found, of_file = (calibrate(source, 0.01, 0.1, num_resamples=50) for source in sources)
    assert Thresholds.read(sources[0] / "thresholds.json") == found
    assert Thresholds.read(f"{sources[1]}.thresholds.json") == of_file
    assert of_file.match.distance.value == pytest.approx(found.match.distance.value, rel=1e-4)
    assert found.model.sha256 == "a" and of_file.model is None
    on = found.calibrated_on
    assert (on.images, on.classes) == (300, 30)
    assert (on.positive_pairs, on.negative_pairs) == (30 * 45, 300 * 299 // 2 - 30 * 45)
    match, unknown = (t.distance.value for t in (found.match, found.unknown))
    decisions = [found.decide(d) for d in (0, match, match + 1e-6, unknown, 2)]
    expected = ["match", "match", "unsure" if unknown > match else "unknown"]
    assert decisions[:3] == expected and decisions[4] == "unknown"


def test_numbers_of_numpy_and_no_seed_are_written_too(sources, tmp_path):
    options = {"num_resamples": 5, "out": tmp_path / "t.json"}
    numbers = calibrate(sources[0], np.float32(0.125), seed=np.int64(3), **options)
    assert Thresholds.read(tmp_path / "t.json") == numbers
    calibrate(sources[0], 0.125, seed=None, **options)
    assert Thresholds.read(tmp_path / "t.json").seed is None


def test_images_without_a_label_and_of_too_many_classes_are_left_out(labelled):
    embeddings, labels = labelled
    labels = [label if row % 10 else None for row, label in enumerate(labels)]
    source = Embeddings.from_arrays(embeddings, labels=labels)
    read = source.labelled()
    assert "30 images without a label" in read.notes[0]
    kept = [row for row in range(300) if row % 10]
    np.testing.assert_array_equal(read.vectors, embeddings[kept])
    assert read.labels == [labels[row] for row in kept]
    read = source.labelled(most_images=64)
    assert len(read.classes[0]) == 7 and (np.bincount(read.classes[1]) == 9).all()
    assert "63 of 270 images are used, those of 7 random classes of 30" in read.notes[1]
    with pytest.raises(ValueError, match="classes of more than 5 images"):
        source.labelled(most_images=5)


@pytest.fixture(scope="module")
def calibrated(prepared_run, tmp_path_factory):
    """A run with an index and thresholds."""
    path = shutil.copytree(prepared_run, tmp_path_factory.mktemp("calibrated") / "run")
    calibrate(path, 0.05, num_resamples=50)
    return path


def test_a_run_is_calibrated_on_its_validation_classes(calibrated):
    found = Thresholds.read(calibrated / "thresholds.json")
    model = RunModel(calibrated)
    validation = load_splits(model.recipe).validation
    assert found.calibrated_on.images == len(validation) == 24
    assert found.model == model.info and found.metric == "euclidean" and found.dim == 8
    read = Embeddings.read(calibrated, split="validation")
    assert read.classes[0] == sorted(validation.class_names)


def test_thresholds_of_another_model_are_refused(calibrated, query, tmp_path):
    run = shutil.copytree(calibrated, tmp_path / "run")
    path = run / "thresholds.json"
    kept = json.loads(path.read_text("utf-8"))
    edit_json(path, model=kept["model"] | {"sha256": "b", "run": "/other/run"})
    with pytest.raises(ValueError, match="thresholds .* the models are of .* and /other/run"):
        search(run, query)
    edit_json(path, model=kept["model"], metric="cosine")
    with pytest.raises(ValueError, match="for cosine distances; the index .* euclidean"):
        search(run, query, thresholds=path)
    edit_json(path, model=None, metric="euclidean")
    with pytest.raises(ValueError, match="one of them does not say which model"):
        search(run, query)
    with pytest.raises(FileNotFoundError, match="gone.json does not exist"):
        search(run, query, thresholds=tmp_path / "gone.json")
    # Those of the index come before those of the run.
    build_index(run / "embeddings", run / "cosine", metric="cosine")
    calibrate(run / "cosine", 0.05, num_resamples=5)
    assert search(run, query, run / "cosine")[0].decision == "match"
    assert len(list(Index(run / "cosine").embeddings())[0][1]) == 80


def test_thresholds_of_prefixes_do_not_decide_about_whole_embeddings(calibrated, tmp_path):
    run = shutil.copytree(calibrated, tmp_path / "run")
    (run / "thresholds.json").unlink()
    prefixes = build_index(run / "embeddings", tmp_path / "prefixes", dim=2)
    thresholds = calibrate(prefixes.path, 0.05, num_resamples=5, out=run / "thresholds.json")
    model = RunModel(run)
    assert thresholds.dim == 2 < model.dim
    published = save_pretrained(run, tmp_path / "published")
    assert ExportMetadata.read(published).thresholds is None
    assert find_thresholds(None, model.info, run, dim=model.dim) is None
    assert find_thresholds(None, model.info, run, dim=2) == thresholds


def test_vectors_without_their_lengths_have_no_euclidean_distances(labelled, refused, tmp_path):
    embeddings, labels = labelled
    source = Embeddings.from_arrays(embeddings * np.arange(1, 301)[:, None], labels=labels)
    index = build_index(source, tmp_path / "cosine", metric="cosine").path
    message = "may have lost their lengths.*received metric='euclidean', accepted is 'cosine' or"
    for use, *arguments in (
        (build_index, tmp_path / "euclidean"),
        (calibrate, 0.05),
        (compare_indexes,),
        (find_label_errors, tmp_path / "errors"),
    ):
        with pytest.raises(ValueError, match=message):
            use(index, *arguments, metric="euclidean")
    refused("accepted is 'cosine' or no", "verify", index, "0.05", "--metric", "euclidean")
    assert build_index(index, tmp_path / "copy").metadata.metric == "cosine"


def test_cosine_thresholds_decide_where_distances_are_cosine(
    calibrated, query, command, printed_by, tmp_path
):
    run = shutil.copytree(calibrated, tmp_path / "run")
    arguments = "calibrate", run, "--false-match-rate", "0.05", "--metric"
    printed_by(*arguments, "cosine")
    code, output, errors = command("search", run, query, "--k", "3")
    assert code == 0 and output.splitlines()[1].split() == ["rank", "distance", "label", "path"]
    assert errors.count("note: ") == errors.count("are for cosine distances, and the index") == 1
    assert "has euclidean distances, so they decide nothing here" in errors
    with pytest.warns(UserWarning, match="are for cosine distances, and the run"):
        assert find_thresholds(None, RunModel(run).info, run) is None
    index = build_index(run / "embeddings", tmp_path / "cosine", metric="cosine")
    assert search(run, query, index)[0].decision == "match"
    # An export has no distances of its own, and names those of its thresholds.
    held = ExportMetadata.read(export_run(run, "keras")).thresholds
    assert held["metric"] == "cosine" and held["match"]["distance"]["value"] < 0.5
    # Thresholds of the run decide where those of the index cannot.
    printed_by(*arguments, "euclidean")
    calibrate(run / "index", 0.05, metric="cosine", num_resamples=5)
    with pytest.warns(UserWarning, match="index/thresholds.json are for cosine"):
        assert search(run, query)[0].decision == "match"


def test_classes_that_trained_the_model_are_refused(calibrated, tmp_path):
    run = RunFolder(shutil.copytree(calibrated, tmp_path / "run"))
    run.update_metrics(train_classes=fingerprint(load_splits(run.recipe()).test))
    with pytest.raises(ValueError, match="training classes are not those"):
        calibrate(run.path, 0.05)
    kept = run.recipe_path.read_bytes()
    edit_recipe(run.path, "trainer: fit", "trainer: classification")
    with pytest.raises(ValueError, match="no validation classes but its training classes"):
        calibrate(run.path, 0.05)
    run.recipe_path.write_bytes(kept)
    edit_recipe(run.path, "name: fractions", "name: conventional")
    with pytest.raises(ValueError, match="no validation classes but its test classes"):
        calibrate(run.path, 0.05)


def test_command(calibrated, query, printed_by, refused, tmp_path):
    arguments = "calibrate", calibrated, "--false-match-rate"
    output = printed_by(*arguments, "0.05", "--base-rate", "0.1", "--coverage", "0.5")
    for text in (
        "24 images of 3 classes, the validation classes of",
        "84 pairs of the same class and 192 pairs of different classes",
        "one of the query's class with a probability of 50 %",
        "If 10 % of the compared pairs are of the same class",
        "Intervals are unknown below 5 classes",
        f"Thresholds: {calibrated / 'thresholds.json'}",
    ):
        assert text in output
    assert "nan" not in output
    kept = json.loads((calibrated / "thresholds.json").read_text("utf-8"))
    assert kept["match"]["distance"]["low"] is None is kept["precision"]["high"]
    page = tmp_path / "page.html"
    output = printed_by("search", calibrated, query, "--k", "3", "--html", page)
    assert f"Nearest to {query} (match), in" in output
    assert output.splitlines()[1].split() == ["rank", "distance", "decision", "label", "path"]
    of_query = page.read_text("utf-8").split("Nearest neighbours</h2>")[0]
    assert 'first image <span class="decision match">match</span>' in of_query
    assert page.read_text("utf-8").count('<span class="decision match">match</span>') > 1
    refused("needs at least 3,000 pairs", *arguments, "0.001")
