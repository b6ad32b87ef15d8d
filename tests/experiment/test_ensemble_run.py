import numpy as np
import pytest

from gsp_tf.cli import main
from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.experiment import RunFolder, evaluate, load_folds, model_folders
from gsp_tf.experiment.evaluate import embed_test_images
from gsp_tf.experiment.run import train_recipe
from gsp_tf.training import StopOnNaN

RECIPE = """
name: digits
seed: 7
data:
  name: folder
  path: {path}
  channels: 1
  image_size: 16
  classes_per_batch: 2
protocol: {{name: mlrc, num_folds: 2, repeats: 2}}
backbone: {{name: conv4}}
embedding: {{dim: 8}}
pooling: {{name: gap}}
loss: {{name: contrastive}}
training: {{epochs: 2, steps_per_epoch: 3}}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, digits):
    path = tmp_path_factory.mktemp("recipes") / "recipe.yaml"
    path.write_text(RECIPE.format(path=digits), encoding="utf-8")
    return path


def run(*arguments):
    """Exit code of a command in this process."""
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    return exit.value.code


@pytest.fixture(scope="module")
def folder(recipe, tmp_path_factory):
    """A finished run of protocol mlrc."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "mlrc")
    assert run("train", recipe, "--run", folder.path) == 0
    return folder


def test_a_model_for_every_fold_and_repeat(folder):
    models = model_folders(folder)
    assert [[model.path.name for model in fold] for fold in models] == [
        ["fold-0-repeat-0", "fold-0-repeat-1"],
        ["fold-1-repeat-0", "fold-1-repeat-1"],
    ]
    recipes = [model.recipe() for fold in models for model in fold]
    assert len({r.seed for r in recipes}) == 4
    assert [r.protocol.fold for r in recipes] == [0, 0, 1, 1]
    assert {model.metrics()["status"] for fold in models for model in fold} == {"finished"}
    assert folder.metrics()["status"] == "finished"
    assert folder.metrics()["num_classes"] == {"train": [2, 3], "validation": [3, 2], "test": 5}


def test_results_are_those_of_the_models(folder):
    metrics = folder.metrics()["ensemble"]
    models = model_folders(folder)
    folds = load_folds(folder.recipe())
    embedded = [
        [embed_test_images(model, model.recipe(), folds[f])[:2] for model in fold]
        for f, fold in enumerate(models)
    ]
    concatenated = [
        retrieval_metrics(np.concatenate([a, b], axis=1), labels)["map_at_r"]
        for a, labels in embedded[0]
        for b, _ in embedded[1]
    ]
    mean = metrics["concatenated"]["mean"]["map_at_r"]
    assert mean == pytest.approx(np.mean(concatenated), abs=1e-6)
    std = metrics["concatenated"]["std"]["map_at_r"]
    assert std == pytest.approx(np.std(concatenated, ddof=1), abs=1e-6)
    alone = [model.metrics()["test"]["map_at_r"] for fold in models for model in fold]
    mean = metrics["separated"]["mean"]["map_at_r"]
    assert mean == pytest.approx(np.mean(alone), abs=1e-6)
    assert metrics["choices"] == 4 and metrics["num_queries"] == 100


def test_evaluated_again_and_reported(folder, tmp_path, capsys, monkeypatch):
    before = folder.metrics()["ensemble"]["concatenated"]["mean"]
    monkeypatch.setattr(evaluate, "embed", None)  # the models have kept their embeddings
    assert run("evaluate", folder.path) == 0
    assert folder.metrics()["ensemble"]["concatenated"]["mean"] == pytest.approx(before)
    page = folder.report_path.read_text("utf-8")
    assert "digits, fold 0, repeat 0" in page and "digits, fold 1, repeat 0" in page
    capsys.readouterr()
    assert run("report", folder.path, "--out", tmp_path / "tables") == 0
    output = capsys.readouterr().out
    assert "16D P@1" in output and "8D MAP@R" in output and str(tmp_path) in output
    assert f"{100 * before['map_at_r']:.2f} ±" in (tmp_path / "tables" / "table.md").read_text()


def test_stopped_and_resumed(recipe, folder, tmp_path, monkeypatch):
    stopped = RunFolder(tmp_path / "run")
    seen = []

    def interrupt(self, epoch, logs=None):
        seen.append(epoch)
        if len(seen) == 6:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StopOnNaN, "on_epoch_begin", interrupt)
        assert run("train", recipe, "--run", stopped.path) == 130
    assert stopped.metrics()["status"] == "interrupted" and "ensemble" not in stopped.metrics()
    models = [model for fold in model_folders(stopped) for model in fold]
    assert [model.path.exists() for model in models] == [True, True, True, False]
    assert models[2].checkpoint_path.exists() and len(models[2].history()["loss"]) == 1
    assert run("report", stopped.path) == 1
    assert run("evaluate", stopped.path) == 1
    first = models[0].metrics()
    assert run("train", "--resume", stopped.path) == 0
    assert models[0].metrics() == first
    ours, theirs = (f.metrics()["ensemble"]["concatenated"]["mean"] for f in (stopped, folder))
    assert ours == pytest.approx(theirs, abs=1e-3)
    assert run("train", "--resume", stopped.path) == 0


def test_a_model_that_fails_is_not_a_finished_ensemble(recipe, tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")

    def fail(model_recipe, path, splits, train=train_recipe):
        if path.name == "fold-1-repeat-0":
            raise OSError("No space left on device")
        return train(model_recipe, path, splits)

    with monkeypatch.context() as patch:
        patch.setattr("gsp_tf.experiment.ensemble.train_recipe", fail)
        options = ["--training.epochs", "1", "--protocol.repeats", "1"]
        assert run("train", recipe, "--run", folder.path, *options) == 1
    assert folder.metrics()["status"] == "failed"
    (folder.path / "fold-1-repeat-0").mkdir()  # as a process that was killed may leave it
    assert run("train", "--resume", folder.path) == 0
    assert folder.metrics()["status"] == "finished"


def test_a_recipe_that_is_refused_leaves_nothing(recipe, tmp_path, capsys):
    folder = RunFolder(tmp_path / "run")
    options = ["--data.classes_per_batch", "50"]
    assert run("train", recipe, "--run", folder.path, *options) == 1
    assert "classes_per_batch must be at most" in capsys.readouterr().err
    assert not folder.path.exists()
