import shutil

import numpy as np
import pytest
from runs import run_command as run

from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.experiment import Ensemble, Run, RunFolder, _embeddings, open_run
from gsp_tf.training import StopOnNaN

MLRC = """
seed: 7
protocol: {name: mlrc, num_folds: 2, repeats: 2}
loss: {name: contrastive}
training: {epochs: 2, steps_per_epoch: 3}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, write_recipe):
    path = write_recipe(MLRC)
    path.write_text(path.read_text("utf-8").replace("classes_per_batch: 4", "classes_per_batch: 2"))
    return path


@pytest.fixture(scope="module")
def folder(recipe, tmp_path_factory):
    """A finished run of protocol mlrc."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "mlrc")
    assert run("train", recipe, "--run", folder.path) == 0
    return folder


def models_of(folder):
    return Ensemble(folder.path).model_folders


def test_a_model_for_every_fold_and_repeat(folder):
    assert isinstance(open_run(folder.path), Ensemble)
    models = models_of(folder)
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
    embedded = [
        [_embeddings.embed_test_images(model)[:2] for model in repeats]
        for repeats in Ensemble(folder.path).models
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
    alone = [model.metrics()["test"]["map_at_r"] for fold in models_of(folder) for model in fold]
    mean = metrics["separated"]["mean"]["map_at_r"]
    assert mean == pytest.approx(np.mean(alone), abs=1e-6)
    assert metrics["choices"] == 4 and metrics["num_queries"] == 100


def test_evaluated_again_and_reported(folder, tmp_path, capsys, monkeypatch):
    before = folder.metrics()["ensemble"]["concatenated"]["mean"]
    monkeypatch.setattr(_embeddings, "embed", None)  # the models have kept their embeddings
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
    """The first repeats have the seeds of those in a run with more repeats."""
    stopped = RunFolder(tmp_path / "run")
    seen = []

    def interrupt(self, epoch, logs=None):
        seen.append(epoch)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StopOnNaN, "on_epoch_begin", interrupt)
        assert run("train", recipe, "--run", stopped.path, "--protocol.repeats", "1") == 130
    assert stopped.metrics()["status"] == "interrupted" and "ensemble" not in stopped.metrics()
    models = [model for fold in models_of(stopped) for model in fold]
    assert [model.is_trained() for model in models] == [True, False]
    assert models[1].checkpoint_path.exists() and len(models[1].history()["loss"]) == 1
    assert run("report", stopped.path) == 1
    assert run("evaluate", stopped.path) == 1
    first = models[0].metrics()
    assert run("train", "--resume", stopped.path) == 0
    assert models[0].metrics() == first and "ensemble" in stopped.metrics()
    for ours, theirs in zip(models_of(stopped), models_of(folder), strict=True):
        expected = theirs[0].metrics()["test"]["map_at_r"]
        assert ours[0].metrics()["test"]["map_at_r"] == pytest.approx(expected, abs=1e-3)
    assert run("train", "--resume", stopped.path) == 0


def test_a_model_that_fails_is_not_a_finished_ensemble(folder, tmp_path, monkeypatch):
    folder = RunFolder(shutil.copytree(folder.path, tmp_path / "run"))
    folder.update_metrics(without=["ensemble"])
    shutil.rmtree(folder.path / "fold-1-repeat-0")

    def fail(model):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Run, "train", fail)
        assert run("train", "--resume", folder.path) == 1
    assert folder.metrics()["status"] == "failed"
    (folder.path / "fold-1-repeat-0").mkdir()  # as a process that was killed may leave it
    assert run("train", "--resume", folder.path) == 0
    assert folder.metrics()["status"] == "finished" and "ensemble" in folder.metrics()


def test_a_recipe_that_is_refused_leaves_nothing(recipe, tmp_path, capsys):
    folder = RunFolder(tmp_path / "run")
    options = ["--data.classes_per_batch", "50"]
    assert run("train", recipe, "--run", folder.path, *options) == 1
    assert "classes_per_batch must be at most" in capsys.readouterr().err
    assert not folder.path.exists()
