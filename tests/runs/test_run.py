import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from digit_runs import run_command, with_noise_to_test
from embedded import edit_recipe

from gsp_tf.evaluation import class_wise_map, clustering_metrics, retrieval_metrics
from gsp_tf.recipe import DataRecipe, ProtocolRecipe, Recipe, load_recipe
from gsp_tf.runs import Comparison, Run, RunFolder, _evaluation, _training, load_splits
from gsp_tf.runs._report import check_same_images

SHORT = ["--training.epochs", "1", "--training.steps_per_epoch", "2"]


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of the trained run, to be changed."""
    return RunFolder(shutil.copytree(trained.path, tmp_path / "run"))


@pytest.fixture
def manifest(digits, tmp_path):
    """Function that writes a manifest; `split` gives that of the i-th file of a class, or none."""

    def write(split):
        rows = ["path,label,split"]
        for position, folder in enumerate(sorted(digits.iterdir())):
            for i, path in enumerate(sorted(folder.iterdir())):
                rows += [f"{path},{folder.name},{split(position, i)}"] if split(position, i) else []
        (tmp_path / "images.csv").write_text("\n".join(rows), encoding="utf-8")
        return ["--data.name", "manifest", "--data.path", tmp_path / "images.csv"]

    return write


def test_a_trained_run(trained):
    folder = RunFolder(trained.path)
    assert "3 unseen classes" in trained.printed and str(folder.report_path) in trained.printed
    files = "checkpoint.npz history.csv logs metrics.json model.keras recipe.yaml report.html"
    names = sorted(path.name for path in folder.path.iterdir())
    assert names == [".lock", *files.split(), "test_embeddings.npz"]
    assert folder.recipe() == load_recipe(trained.recipe, ["--seed", "3"])
    metrics = folder.metrics()
    assert metrics["status"] == Run(folder.path).status == "finished" and metrics["epochs"] == 2
    assert metrics["num_classes"] == {"train": 4, "validation": 3, "test": 3}
    assert metrics["test"]["num_queries"] == 60
    history = folder.history()
    assert {"loss", "embedding_loss", "attribute_loss", "val_map_at_r"} <= set(history)
    assert len(history["loss"]) == 2
    best = max(metrics["untrained"]["val_map_at_r"], *history["val_map_at_r"])
    assert metrics["best_val_map_at_r"] == pytest.approx(best)


def test_findings_about_health_are_in_all_files(write_recipe, tmp_path, printed_by):
    sections = (
        "loss: {name: contrastive}\ntraining: {epochs: 3, steps_per_epoch: 1, health_every: 1}"
    )
    options = ["--data.images_per_class", "1", "--run", tmp_path / "run"]
    printed = printed_by("train", write_recipe(sections), *options)
    folder = RunFolder(tmp_path / "run")
    (finding,) = folder.metrics()["health"]
    assert (finding["name"], finding["step"]) == ("no_positives", 2)
    assert f"Step 2: {finding['text']}" in printed
    assert f"In training, at step 2: {finding['text']}" in folder.report_path.read_text()
    texts = [
        text.decode()
        for path in (folder.logs_path / "train").iterdir()
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.tag == "health"
        for text in value.tensor.string_val
    ]
    assert texts == [f"Step 2: {finding['text']}"]


def test_its_clusters_and_classes_are_evaluated(trained):
    test, intervals = (
        RunFolder(trained.path).metrics()[f"test{end}"] for end in ("", "_intervals")
    )
    embeddings, labels, *_ = Run(trained.path).test_embeddings()
    expected = clustering_metrics(embeddings, labels)
    assert {name: test[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert set(test) - set(intervals) == {"num_queries", "num_skipped", *expected}
    assert all(low <= test[name] <= high for name, (low, high) in intervals.items())
    page = RunFolder(trained.path).report_path.read_text("utf-8")
    for name in ("NMI", "F1", "class-wise MAP@R"):
        assert f'<th scope="col">{name}</th>' in page
    assert "NMI" in trained.printed and "digits" in Comparison([trained.path]).markdown()


def test_evaluation_keeps_the_embeddings_for_the_report(copied, monkeypatch):
    run = Run(copied.path)
    again = _evaluation.embed_test_images(run)
    monkeypatch.setattr(_evaluation, "embed", None)
    kept = run.test_embeddings()
    for name, expected in again._asdict().items():
        if expected is None:
            assert getattr(kept, name) is None
        else:
            np.testing.assert_allclose(getattr(kept, name), expected, atol=1e-6)
    copied.embeddings_path.write_bytes(b"PK")
    with pytest.raises(ValueError, match="test_embeddings.npz is damaged; gsp-tf evaluate"):
        run.report()


def test_a_report_of_changed_images_shows_their_numbers(trained, tmp_path):
    folder = with_noise_to_test(trained.path, tmp_path)
    before = folder.metrics()["test"]["map_at_r"]
    Run(folder.path).show()
    found = folder.metrics()["test"]["map_at_r"]
    assert found < before - 0.1
    queries, labels, *_ = _evaluation.embed_test_images(Run(folder.path))
    expected = retrieval_metrics(queries, labels)["map_at_r"]
    assert found == pytest.approx(expected, abs=1e-6)
    assert f"{100 * expected:.2f}" in folder.report_path.read_text("utf-8")


def test_one_report_is_about_the_same_test_images():
    def of(name="folder", **fields):
        return Recipe("first", data=DataRecipe(name, "images", **fields))

    views = {"views": 2, "classes_per_batch": 0, "unlabelled_per_batch": 8}
    conventional, fold = ProtocolRecipe("conventional"), ProtocolRecipe("mlrc", fold=1)
    flipped = replace(of(horizontal_flip=True, classes_per_batch=8), trainer="ccp", seed=9)
    check_same_images([of(), flipped])
    check_same_images([replace(of(), protocol=protocol) for protocol in (conventional, fold)])
    for first, other, changed in (
        (of(), of(split_seed=1), "data.split_seed"),
        (
            of("unlabelled", **views),
            of("unlabelled", horizontal_flip=True, **views),
            "data.horizontal_flip",
        ),
        (of(), replace(of(), protocol=conventional), "protocol.name"),
    ):
        with pytest.raises(ValueError, match=f"same test images; {changed} of other is .* of fir"):
            check_same_images([first, replace(other, name="other")])


def test_evaluate_completes_a_run_that_was_killed(copied):
    expected = copied.metrics()["test"]
    copied.metrics_path.unlink()
    copied.report_path.unlink()
    copied.embeddings_path.write_bytes(b"PK")
    history = copied.history()
    assert run_command("evaluate", copied.path) == 0
    assert copied.metrics()["test"] == pytest.approx(expected, abs=1e-6)
    assert copied.report_path.exists()
    assert copied.history() == history


@pytest.mark.parametrize(
    ("file", "is_sealed", "old", "new", "message"),
    [
        ("recipe.yaml", True, "image_size: 16", "image_size: 24", "was edited: .* its first line"),
        ("metrics.json", True, '"epochs": 2', '"epochs": 3', "metrics.json is damaged, or"),
        ("recipe.yaml", False, "split_seed: 0", "split_seed: 5", "The test classes are not those"),
        ("recipe.yaml", False, "image_size: 16", "image_size: 24", r"its recipe .* \(24, 24, 1\)"),
    ],
)
def test_evaluate_refuses_an_edited_run(copied, refused, file, is_sealed, old, new, message):
    if is_sealed:
        text = (copied.path / file).read_text("utf-8")
        (copied.path / file).write_text(text.replace(old, new), "utf-8")
    else:
        edit_recipe(copied.path, old, new)
    refused(message, "evaluate", copied.path)


def test_evaluate_refuses_a_folder_without_a_run(tmp_path, trained, refused):
    refused("not a run folder; gsp-tf rank and gsp-tf verify take other", "evaluate", tmp_path)
    refused("--at and --out are for --rerank", "evaluate", trained.path, "--at", 3)


def test_the_seed_decides_the_initial_weights_and_the_batches(trained, tmp_path):
    found = []
    for seed in ("1", "1", "2"):
        recipe = load_recipe(trained.recipe, ["--seed", seed])
        training = _training.Training(Run(tmp_path / "run", recipe), None)
        kernel = training.learner.embedder.get_weights()[0]
        found.append((kernel, next(iter(training.first_batches))[0].numpy()))
    for first, second, third in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)
        assert not np.array_equal(first, third)


def test_queries_search_a_gallery(manifest, write_recipe, tmp_path):
    parts = ("query", "gallery")
    options = manifest(lambda position, i: "train" if position < 5 else parts[i >= 8])
    options += ["--data.classes_per_batch", "3", "--evaluation.recall_at", "[1, 10]", *SHORT]
    options += ["--protocol.name", "conventional", "--evaluation.clustering", "true"]
    run = Run(tmp_path / "run", load_recipe(write_recipe(), list(map(str, options)))).train()
    metrics, history = run.folder.metrics(), run.folder.history()
    queries, labels, gallery, gallery_labels, *_ = run.test_embeddings()
    assert (len(queries), len(gallery)) == (40, 60) and metrics["num_classes"]["test"] == 5
    together = np.concatenate([queries, gallery]), np.concatenate([labels, gallery_labels])
    nmi = clustering_metrics(*together)["nmi"]
    assert metrics["test"]["nmi"] == pytest.approx(nmi, abs=1e-6)
    by_class = class_wise_map(queries, labels, gallery, gallery_labels)
    assert metrics["test"]["class_wise_map_at_r"] == pytest.approx(by_class.mean(), abs=1e-6)
    page = run.report().read_text("utf-8")
    assert "The model was chosen by these same images" in page
    best = max(metrics["untrained"]["val_recall_at_1"], *history["val_recall_at_1"])
    assert metrics["best_val_recall_at_1"] == pytest.approx(best)
    assert metrics["test"]["recall_at_1"] == pytest.approx(best)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data.path", "no/such/folder"], "no/such/folder"),
        (["--training.learning_rate_multipliers", "{centres: 2}"], "['centres'] match none"),
        (["--data.classes_per_batch", "9"], "must be at most 4, received 9: 4 classes train of 10"),
    ],
)
def test_a_recipe_refused_before_training_leaves_nothing(trained, tmp_path, options, message):
    with pytest.raises((ValueError, OSError), match=re.escape(message)):
        Run(tmp_path / "run", load_recipe(trained.recipe, options)).train()
    assert not (tmp_path / "run").exists()


def test_a_time_without_a_ladder_is_refused(trained, tmp_path, refused):
    for arguments in ([trained.recipe, "--run", tmp_path / "run"], ["--resume", trained.path]):
        refused("--minutes is the time of a ladder", "train", *arguments, "--minutes", 5)
    assert not (tmp_path / "run").exists()


def test_an_existing_run_folder_is_left_as_it_is(trained, tmp_path, refused):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "mine.txt").write_text("precious")
    refused(f"{folder} exists, and is not a run folder", "train", trained.recipe, "--run", folder)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_a_gallery_of_other_classes_is_refused(manifest, write_recipe, tmp_path):
    parts = 5 * ["train"] + 3 * ["query"] + 2 * ["gallery"]
    options = manifest(lambda position, i: parts[position])
    options += ["--protocol.name", "ablation", "--data.classes_per_batch", "3"]
    with pytest.raises(ValueError, match="none of the 60 queries is of a class of the 40 gallery"):
        Run(tmp_path / "run", load_recipe(write_recipe(), list(map(str, options)))).train()
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_keeps_the_last_good_model(write_recipe, tmp_path, refused):
    recipe, folder = write_recipe(), RunFolder(tmp_path / "run")
    options = ["--training.learning_rate", "1e30", "--loss.temperature", "1e-30"]
    options += ["--training.epochs", "3", "--training.warmup_epochs", "2"]
    refused("the loss was not finite", "train", recipe, "--run", folder.path, *options)
    assert "Training diverged" in folder.report_path.read_text("utf-8")
    metrics = folder.metrics()
    assert (metrics["status"], metrics["epochs"]) == ("diverged", 1)
    assert metrics["diverged_at"][0] == 1 and not folder.checkpoint_path.exists()
    learner = folder.learner()
    assert all(np.isfinite(w).all() for w in learner.get_weights())
    assert learner.embedder.trainable_weights and metrics["test"]["num_queries"] == 60


def test_the_demo(tmp_path, printed_by, monkeypatch):
    """On small collages, with a few steps and few classes to test."""
    small = ["--training.steps_per_epoch", "2", "--data.image_size", "36"]

    def shorter(path, options):
        return load_recipe(path, [*options, *small])

    def fewer(recipe):
        splits = load_splits(recipe)
        few = {name: getattr(splits, name).subset(range(2)) for name in ("validation", "test")}
        return splits._replace(**few)

    monkeypatch.setattr("gsp_tf.runs._demo.load_recipe", shorter)
    monkeypatch.setattr("gsp_tf.runs.run.load_splits", fewer)
    output = printed_by("demo", "--runs", tmp_path, "--epochs", "1")
    (folder,) = tmp_path.iterdir()
    assert f"Report: {folder / 'report.html'}" in output and "unseen classes" in output
    assert sorted(path.name for path in folder.iterdir()) == ["gap", "gsp", "report.html"]
    for name in ("gap", "gsp"):
        metrics = RunFolder(folder / name).metrics()
        assert metrics["epochs"] == 1 and metrics["best_val_map_at_r"] > 0
