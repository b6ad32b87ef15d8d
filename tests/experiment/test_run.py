import json
import re
import shutil
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
from PIL import Image

from gsp_tf import training
from gsp_tf.cli import main
from gsp_tf.evaluation import class_wise_map, clustering_metrics
from gsp_tf.experiment import Comparison, RunFolder, evaluate, load_splits, place_maps, report_runs
from gsp_tf.experiment.evaluate import embed_test_images
from gsp_tf.recipe import load_recipe, resolved

SECTIONS = ("notes", "metrics", "curves", "overlays", "gallery", "maps", "recipes")


RECIPE = """
name: digits
data:
  name: folder
  path: {path}
  channels: 1
  image_size: 16
  split_fractions: [0.4, 0.3, 0.3]
  classes_per_batch: 4
  images_per_class: 4
backbone: {{name: conv4}}
embedding: {{dim: 8}}
pooling: {{num_prototypes: 4, adapt_batches: 1}}
zero_shot: {{weight: 0.1, embedding_dim: 8}}
training: {{epochs: 2, steps_per_epoch: 8}}
"""


@pytest.fixture
def recipe(tmp_path, digits):
    """Path of a small recipe on the digits."""
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE.format(path=digits), encoding="utf-8")
    return path


def run(*arguments):
    """Exit code of a command in this process."""
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    return exit.value.code


def test_train_then_evaluate(recipe, tmp_path, capsys):
    folder = RunFolder(tmp_path / "run")
    assert run("train", recipe, "--run", folder.path, "--seed", "3") == 0
    output = capsys.readouterr().out
    assert "3 unseen classes" in output and str(folder.report_path) in output
    assert sorted(path.name for path in folder.path.iterdir()) == [
        ".lock",
        "checkpoint.npz",
        "history.csv",
        "logs",
        "metrics.json",
        "model.keras",
        "recipe.yaml",
        "report.html",
        "test_embeddings.npz",
    ]
    assert list(folder.logs_path.rglob("*tfevents*"))
    given = load_recipe(recipe, ["--seed", "3"])
    assert folder.recipe() == resolved(given)
    metrics = folder.metrics()
    assert metrics["status"] == "finished" and metrics["epochs"] == 2
    assert metrics["num_classes"] == {"train": 4, "validation": 3, "test": 3}
    assert metrics["test"]["num_queries"] == 60
    history = folder.history()
    assert {"loss", "embedding_loss", "attribute_loss", "val_map_at_r"} <= set(history)
    assert len(history["loss"]) == 2
    best = max(metrics["untrained"]["val_map_at_r"], *history["val_map_at_r"])
    assert metrics["best_val_map_at_r"] == pytest.approx(best)
    page = folder.report_path.read_text("utf-8")
    for section in SECTIONS:
        assert f'id="{section}' in page, section
    assert "Ziffer" in page and not re.search(r'(src|href)="http', page)

    folder.metrics_path.rename(tmp_path / "first.json")
    assert run("evaluate", folder.path) == 0
    first = json.loads((tmp_path / "first.json").read_text())["test"]
    assert folder.metrics()["test"] == pytest.approx(first, abs=1e-6)


def test_test_images_are_embedded_once(recipe, tmp_path, monkeypatch, capsys):
    embedded = []

    def embed(model, batches):
        embedded.append(model)
        return training.embed(model, batches)

    monkeypatch.setattr(evaluate, "embed", embed)
    folder = RunFolder(tmp_path / "run")
    assert run("train", recipe, "--run", folder.path, "--training.epochs", "1") == 0
    assert len(embedded) == 1
    splits = load_splits(folder.recipe())
    kept = evaluate.kept_embeddings(folder, folder.recipe(), splits)
    again = evaluate.embed_test_images(folder, folder.recipe(), splits)
    assert len(embedded) == 2
    for name in kept._fields:
        expected = getattr(again, name)
        if expected is None:
            assert getattr(kept, name) is None
        else:
            np.testing.assert_allclose(getattr(kept, name), expected, atol=1e-6)
    spread = folder.metrics()["pooling_weights"]
    assert 0 < spread["min"] < 1 < spread["max"] and spread["std"] > 0
    shown = f"{spread['min']:.2f} to {spread['max']:.2f} times the average"
    assert f"Pooling weights: {shown}" in capsys.readouterr().out
    assert f"{spread['min']:.2f} and {spread['max']:.2f} times" in folder.report_path.read_text(
        "utf-8"
    )

    class_0 = splits.test.subset([0])
    fewer = splits._replace(test=class_0)
    monkeypatch.setattr(evaluate, "_check_test_classes", lambda *_: None)
    assert len(evaluate.kept_embeddings(folder, folder.recipe(), fewer).queries) == len(class_0)
    folder.embeddings_path.write_bytes(b"PK")
    with pytest.raises(ValueError, match="test_embeddings.npz is damaged; gsp-tf evaluate"):
        report_runs([folder.path], folder.report_path, "x", splits)
    assert run("evaluate", folder.path) == 0
    assert len(embedded) == 4


def test_clusters_and_classes_are_evaluated_where_the_recipe_says_so(recipe, tmp_path, capsys):
    folder = RunFolder(tmp_path / "run")
    options = ["--evaluation.clustering", "true", "--training.epochs", "1"]
    assert run("train", recipe, "--run", folder.path, *options) == 0
    assert "NMI" in capsys.readouterr().out
    test = folder.metrics()["test"]
    splits = load_splits(folder.recipe())
    embeddings, labels, *_ = embed_test_images(folder, folder.recipe(), splits)
    expected = clustering_metrics(embeddings, labels)
    assert {name: test[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    by_class = class_wise_map(embeddings, labels)
    assert test["class_wise_map_at_r"] == pytest.approx(by_class.mean(), abs=1e-6)
    page = folder.report_path.read_text("utf-8")
    for name in ("NMI", "F1", "class-wise MAP@R"):
        assert f'<th scope="col">{name}</th>' in page
    assert "digits" in Comparison([folder.path]).markdown()


def test_clusters_are_of_queries_and_gallery_together(recipe, digits, tmp_path):
    rows = ["path,label,split"]
    for number, folder in enumerate(sorted(digits.iterdir())[:6]):
        for place, path in enumerate(sorted(folder.iterdir())):
            split = "train" if number < 3 else "query" if place < 8 else "gallery"
            rows.append(f"{path},{number},{split}")
    manifest = tmp_path / "manifest.csv"
    manifest.write_text("\n".join(rows), encoding="utf-8")
    folder = RunFolder(tmp_path / "run")
    options = ["--data.name", "manifest", "--data.path", manifest, "--training.epochs", "1"]
    options += ["--data.classes_per_batch", "3", "--evaluation.clustering", "true"]
    options += ["--protocol.name", "conventional"]
    assert run("train", recipe, "--run", folder.path, *options) == 0
    queries, labels, gallery, gallery_labels, *_ = embed_test_images(
        folder, folder.recipe(), load_splits(folder.recipe())
    )
    assert (len(queries), len(gallery)) == (24, 36)
    together = np.concatenate([queries, gallery]), np.concatenate([labels, gallery_labels])
    test = folder.metrics()["test"]
    assert test["nmi"] == pytest.approx(clustering_metrics(*together)["nmi"], abs=1e-6)
    by_class = class_wise_map(queries, labels, gallery, gallery_labels)
    assert test["class_wise_map_at_r"] == pytest.approx(by_class.mean(), abs=1e-6)


def test_splits_are_disjoint_and_the_model_has_pooling_weights(recipe, tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert run("train", recipe, "--run", folder.path, "--training.epochs", "1") == 0
    splits = load_splits(folder.recipe())
    names = [set(images.class_names) for images in splits[:3]]
    assert not (names[0] & names[1] or names[0] & names[2] or names[1] & names[2])
    maps = place_maps(folder.learner().embedder, np.zeros((2, 16, 16, 1), "float32"))
    assert maps.correlations is None
    np.testing.assert_allclose(maps.weights.sum((1, 2)), [[1], [1]], rtol=1e-5)


def test_the_seed_decides_the_initial_weights(recipe, tmp_path):
    untrained = []
    for name, seed in (("first", 1), ("second", 1), ("third", 2)):
        options = ["--seed", seed, "--training.epochs", "1", "--training.steps_per_epoch", "1"]
        assert run("train", recipe, "--run", tmp_path / name, *options) == 0
        untrained.append(RunFolder(tmp_path / name).metrics()["untrained"])
    assert untrained[0] == untrained[1] != untrained[2]


def test_collages_of_a_folder(digits, recipe, tmp_path):
    turned = tmp_path / "turned"
    for folder in digits.iterdir():
        for quarters in range(3):
            (turned / f"{folder.name} {quarters}").mkdir(parents=True)
            for path in sorted(folder.iterdir())[:6]:
                picture = Image.open(path).rotate(90 * quarters)
                picture.save(turned / f"{folder.name} {quarters}" / path.name)
    options = ["--data.path", turned, "--data.collage.grid", "2", "--training.epochs", "1"]
    assert run("train", recipe, "--run", tmp_path / "run", *options) == 0
    counts = RunFolder(tmp_path / "run").metrics()["num_classes"]
    assert sum(counts.values()) == 24


@pytest.mark.parametrize(
    "options",
    [
        ["--pooling.name", "gap", "--zero_shot.weight", "0", "--training.jit_compile", "true"],
        ["--loss.name", "contrastive", "--training.precision", "mixed_bfloat16"],
        ["--training.precision", "mixed_float16", "--training.optimizer", "sgd"],
        [
            *("--embedding.position", "after_pooling", "--training.optimizer", "adamw"),
            *("--training.weight_decay", "0.01", "--training.clip_norm", "10"),
            *("--training.weight_decay_exclusions", "[batch_normalization]"),
            *("--training.schedule.name", "cosine"),
        ],
        [
            *("--training.schedule.name", "plateau", "--training.patience", "3"),
            *("--training.warmup_epochs", "1", "--training.precision", "mixed_float16"),
            *("--training.learning_rate_multipliers", "{proxies: 100, conv2d: 0.5}"),
        ],
    ],
)
def test_variants(recipe, tmp_path, options):
    options = [*options, "--training.epochs", "2", "--training.steps_per_epoch", "3"]
    code = run("train", recipe, "--run", tmp_path / "run", *options)
    assert code == 0
    assert RunFolder(tmp_path / "run").metrics()["status"] == "finished"


def test_manifest_with_splits(digits, recipe, tmp_path):
    rows = ["path,label,split"]
    for position, folder in enumerate(sorted(digits.iterdir())):
        split = ("train", "validation", "test")[0 if position < 4 else 1 + position % 2]
        rows += [f"{path},{folder.name},{split}" for path in sorted(folder.iterdir())]
    manifest = tmp_path / "images.csv"
    manifest.write_text("\n".join(rows), encoding="utf-8")
    options = ["--data.name", "manifest", "--data.path", manifest, "--training.epochs", "1"]
    assert run("train", recipe, "--run", tmp_path / "run", *options) == 0
    assert RunFolder(tmp_path / "run").metrics()["num_classes"]["train"] == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pooling.transport_ration", "0.2"], "did you mean transport_ratio?"),
        (["--training.epochs", "many"], "training.epochs"),
        (["--pooling.name", "attention"], "pooling.name"),
        (["--pooling.transport_ratio", "0"], "transport_ratio must lie in (0, 1], received 0"),
        (["--backbone.name", "vgg"], "Unknown backbone 'vgg', known are bn_inception, conv4"),
        (["--pooling.name", "gap"], "zero_shot.weight > 0 needs the attributes"),
        (["--data.path", "no/such/folder"], "no/such/folder"),
        (["--data.path", "null"], "data.path is needed for data.name=folder"),
        (["--data.split_fractions", "[0.5, 0.0, 0.5]"], "three positive shares"),
        (["--data.split_fractions", "[0.5, 0.1, 0.1]"], "three positive shares"),
        (["--data.split_fractions", "[0.5, 0.5]"], "data.split_fractions"),
        (["--data.image_size", "0"], "data.image_size must be an integer of 1 or more, received 0"),
        (
            ["--data.collage.grid", "-1"],
            "data.collage.grid must be an integer of 0 or more, received -1",
        ),
        (["--training.epochs", "0"], "training.epochs must be an integer of 1 or more, received 0"),
        (
            ["--training.steps_per_epoch", "0"],
            "training.steps_per_epoch must be an integer of 1 or more",
        ),
        (
            ["--training.learning_rate", ".nan"],
            "training.learning_rate must be a number above 0 and finite",
        ),
        (
            ["--training.learning_rate_multipliers", "{'(': 2}"],
            "must be a regular expression, received '('",
        ),
        (["--training.learning_rate_multipliers", "{centres: 2}"], "['centres'] match none"),
        (["--training.schedule.name", "linear"], "training.schedule.name"),
        (["--embedding.dim", "0"], "embedding.dim must be an integer of 1 or more, received 0"),
        (["--pooling.transport_ratio", ".nan"], "transport_ratio must lie in (0, 1], received nan"),
        (
            ["--pooling.num_prototypes", "0"],
            "num_prototypes must be an integer",
        ),
        (
            ["--zero_shot.weight", "2"],
            "zero_shot.weight must be a number of 0 or more and at most 1, received 2",
        ),
        (["--evaluation.recall_at", "[0]"], "evaluation.recall_at must be integers of 1 or more"),
        (
            ["--evaluation.batch_size", "0"],
            "evaluation.batch_size must be an integer of 1 or more, received 0",
        ),
        (
            ["--seed", "-1"],
            "seed must be an integer of 0 or more and below 4294967296, received -1",
        ),
        (["--loss.temperature", "0.0"], "temperature must be positive, received 0.0"),
        (["--data.classes_per_batch", "9"], "9"),
    ],
)
def test_bad_recipes_are_refused_and_leave_nothing(recipe, tmp_path, capsys, options, message):
    assert run("train", recipe, "--run", tmp_path / "run", *options) == 1
    error = capsys.readouterr().err
    assert error.count("gsp-tf: error:") == 1 and message in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "content",
    [b"pooling: null\n", b"training: {epochs: null}\n", b"\xff\xfe\x00", b"- a list\n", b"x: [1\n"],
)
def test_a_recipe_file_that_is_no_recipe(tmp_path, capsys, content):
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    assert run("train", path, "--run", tmp_path / "run") == 1
    assert "gsp-tf: error:" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["", "../escape", ".hidden", "a\\b"])
def test_the_name_of_a_run_is_no_path(recipe, capsys, name):
    assert run("train", recipe, "--name", name) == 1
    assert "name must be the name of a folder" in capsys.readouterr().err


def test_a_recipe_file_with_an_unknown_key(tmp_path, capsys):
    path = tmp_path / "recipe.yaml"
    path.write_text("pooling:\n  sharpness: 3\n")
    assert run("train", path, "--run", tmp_path / "run") == 1
    assert "sharpness" in capsys.readouterr().err


def test_an_existing_run_folder_is_left_as_it_is(recipe, tmp_path, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "mine.txt").write_text("precious")
    assert run("train", recipe, "--run", folder) == 1
    assert f"The run folder {folder} exists" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_evaluate_refuses_what_is_no_run_folder(tmp_path, capsys):
    assert run("evaluate", tmp_path) == 1
    assert "is not a run folder: it has no recipe.yaml" in capsys.readouterr().err


@pytest.fixture(scope="module")
def finished(tmp_path_factory, digits):
    """A finished run, to be copied and damaged."""
    folder = tmp_path_factory.mktemp("finished")
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.format(path=digits), encoding="utf-8")
    assert run("train", path, "--run", folder / "run", "--training.epochs", "1") == 0
    return folder / "run"


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("model.keras", lambda text: text[: len(text) // 2], "model.keras is damaged"),
        ("metrics.json", lambda text: text[:20], "metrics.json is damaged"),
        ("recipe.yaml", lambda text: b"nonsense: [1", "recipe.yaml"),
        ("recipe.yaml", lambda text: b"", "recipe.yaml"),
        (
            "recipe.yaml",
            lambda text: text.replace(b"split_seed: 0", b"split_seed: 5"),
            "The test classes are not those",
        ),
        (
            "recipe.yaml",
            lambda text: text.replace(b"image_size: 16", b"image_size: 24"),
            r"takes images \(16, 16, 1\), its recipe and data give \(24, 24, 1\)",
        ),
    ],
)
def test_evaluate_refuses_a_damaged_run(finished, tmp_path, capsys, file, change, message):
    folder = shutil.copytree(finished, tmp_path / "run")
    (folder / file).write_bytes(change((folder / file).read_bytes()))
    assert run("evaluate", folder) == 1
    error = capsys.readouterr().err
    assert error.count("gsp-tf: error:") == 1 and re.search(message, error)


def test_evaluate_completes_a_run_that_was_killed(finished, tmp_path):
    folder = RunFolder(shutil.copytree(finished, tmp_path / "run"))
    expected = folder.metrics()["test"]
    folder.metrics_path.unlink()
    folder.report_path.unlink()
    with open(folder.history_path, "a") as history:
        history.write("1,0.5")
    assert run("evaluate", folder.path) == 0
    assert folder.metrics()["test"] == pytest.approx(expected, abs=1e-6)
    assert folder.report_path.exists()
    assert len(folder.history()["loss"]) == 1


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_split_without_two_images_of_a_class_is_refused_at_once(
    digits, recipe, tmp_path, capsys, split
):
    rows = ["path,label,split"]
    for position, folder in enumerate(sorted(digits.iterdir())):
        name = ("train", "validation", "test")[0 if position < 4 else 1 + position % 2]
        paths = sorted(folder.iterdir())[: 1 if name == split else None]
        rows += [f"{path},{folder.name},{name}" for path in paths]
    manifest = tmp_path / "images.csv"
    manifest.write_text("\n".join(rows), encoding="utf-8")
    options = ["--data.name", "manifest", "--data.path", manifest]
    options += ["--data.min_images_per_class", "1"]
    assert run("train", recipe, "--run", tmp_path / "run", *options) == 1
    error = capsys.readouterr().err
    assert f"each of the {split} classes" in error and "Ziffer" in error
    assert not (tmp_path / "run").exists()


def in_shop(digits, tmp_path, gallery_from):
    """Manifest of five training classes, and of queries and gallery of the others."""
    rows = ["path,label,split"]
    for position, folder in enumerate(sorted(digits.iterdir())):
        for i, path in enumerate(sorted(folder.iterdir())):
            is_gallery = i >= 8 if gallery_from == "all" else position >= gallery_from
            split = "train" if position < 5 else ("gallery" if is_gallery else "query")
            rows.append(f"{path},{folder.name},{split}")
    manifest = tmp_path / "images.csv"
    manifest.write_text("\n".join(rows), encoding="utf-8")
    return manifest


@pytest.mark.parametrize("protocol", ["conventional", "ablation"])
def test_queries_search_a_gallery(digits, recipe, tmp_path, protocol):
    manifest = in_shop(digits, tmp_path, "all")
    options = ["--data.name", "manifest", "--data.path", manifest, "--protocol.name", protocol]
    options += ["--data.classes_per_batch", "3", "--evaluation.recall_at", "[1, 10]"]
    folder = RunFolder(tmp_path / "run")
    assert run("train", recipe, "--run", folder.path, *options) == 0
    metrics, history = folder.metrics(), folder.history()
    assert metrics["test"]["num_queries"] == 40 and metrics["num_classes"]["test"] == 5
    page = folder.report_path.read_text("utf-8")
    if protocol == "conventional":
        best = max(metrics["untrained"]["val_recall_at_1"], *history["val_recall_at_1"])
        assert metrics["best_val_recall_at_1"] == pytest.approx(best)
        assert metrics["test"]["recall_at_1"] == pytest.approx(best)
        assert "The model was chosen by these same images" in page
    else:
        assert "The model was chosen by these same images" not in page


def test_a_gallery_of_other_classes_is_refused_at_once(digits, recipe, tmp_path, capsys):
    manifest = in_shop(digits, tmp_path, 8)
    options = ["--data.name", "manifest", "--data.path", manifest, "--protocol.name", "ablation"]
    options += ["--data.classes_per_batch", "3"]
    assert run("train", recipe, "--run", tmp_path / "run", *options) == 1
    assert "none of the 60 queries is of a class of the 40 gallery" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("skip", [False, True])
def test_unreadable_files(recipe, tmp_path, digits, capsys, skip):
    broken = tmp_path / "images"
    for folder in digits.iterdir():
        (broken / folder.name).mkdir(parents=True)
        for path in folder.iterdir():
            (broken / folder.name / path.name).write_bytes(path.read_bytes())
    first = sorted(next(iter(sorted(broken.iterdir()))).iterdir())[0]
    first.write_bytes(first.read_bytes()[:60])
    options = ["--data.path", broken, "--training.epochs", "1"]
    options += ["--skip-unreadable"] if skip else []
    assert run("train", recipe, "--run", tmp_path / "run", *options) == (0 if skip else 1)
    error = capsys.readouterr().err
    assert ("1" in error) if skip else (first.name in error)
    assert (tmp_path / "run").exists() == skip


def test_a_class_with_a_single_image_is_named(recipe, tmp_path, digits, capsys):
    lonely = tmp_path / "images"
    for folder in digits.iterdir():
        (lonely / folder.name).mkdir(parents=True)
        for path in sorted(folder.iterdir())[:1]:
            (lonely / folder.name / path.name).write_bytes(path.read_bytes())
    assert run("train", recipe, "--run", tmp_path / "run", "--data.path", lonely) == 1
    error = capsys.readouterr().err
    assert "classes with fewer than 2 images: Ziffer" in error
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_keeps_the_last_good_model(recipe, tmp_path, capsys):
    folder = RunFolder(tmp_path / "run")
    options = ["--training.learning_rate", "1e30", "--loss.temperature", "1e-30"]
    assert run("train", recipe, "--run", folder.path, *options) == 1
    assert "the loss was not finite" in capsys.readouterr().err
    metrics = folder.metrics()
    assert metrics["status"] == "diverged" and metrics["diverged_at"][0] == 0
    assert all(np.isfinite(w).all() for w in folder.learner().get_weights())
    assert metrics["test"]["num_queries"] == 60
    assert "Training diverged" in folder.report_path.read_text("utf-8")


def test_the_demo(tmp_path, capsys, monkeypatch):
    def shorter(path, options):
        return load_recipe(path, [*options, "--training.steps_per_epoch", "25"])

    monkeypatch.setattr("gsp_tf.experiment.demo.load_recipe", shorter)
    assert run("demo", "--runs", tmp_path, "--epochs", "1") == 0
    output = capsys.readouterr().out
    (folder,) = tmp_path.iterdir()
    assert f"Report: {folder / 'report.html'}" in output and "unseen classes" in output
    assert sorted(path.name for path in folder.iterdir()) == ["gap", "gsp", "report.html"]
    for name in ("gap", "gsp"):
        metrics = RunFolder(folder / name).metrics()
        assert metrics["epochs"] == 1 and metrics["best_val_map_at_r"] > 0.005


def test_an_interrupted_demo_does_not_start_its_second_training(tmp_path, monkeypatch):
    def interrupt(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras.Model.fit", interrupt)
    assert run("demo", "--runs", tmp_path) == 130
    (folder,) = tmp_path.iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["gap", "report.html"]


def test_a_stopped_run_is_usable(recipe, tmp_path):
    folder = RunFolder(tmp_path / "run")
    command = [sys.executable, "-m", "gsp_tf.cli", "train", str(recipe), "--run", str(folder.path)]
    process = subprocess.Popen(
        [*command, "--training.epochs", "5000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # A test suite that runs in the background may have been told to ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while len(folder.history().get("loss", ())) < 2:
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    metrics = folder.metrics()
    assert metrics["status"] == "interrupted" and metrics["epochs"] >= 2
    assert "interrupted after" in folder.report_path.read_text("utf-8")
    assert run("evaluate", folder.path) == 0
    assert isinstance(folder.learner(), keras.Model)
