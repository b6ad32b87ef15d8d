import itertools
import shutil

import numpy as np
import pytest
from digit_runs import run_command as run
from digit_runs import with_noise_to_test

from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Ensemble, RunFolder, _evaluation, open_run
from gsp_tf.training import StopOnNaN

MLRC = """
seed: 7
protocol: {name: mlrc, num_folds: 2, repeats: 2}
loss: {name: contrastive}
training: {epochs: 2, steps_per_epoch: 1}
"""


@pytest.fixture(scope="module")
def interrupted(write_recipe, tmp_path_factory):
    """A run of protocol mlrc that Ctrl-C stopped in the second epoch of its third model."""
    folder, epochs = RunFolder(tmp_path_factory.mktemp("runs") / "mlrc"), itertools.count(1)

    def interrupt(self, epoch, logs=None):
        if next(epochs) == 6:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StopOnNaN, "on_epoch_begin", interrupt)
        fewer = "--data.classes_per_batch", 2
        assert run("train", write_recipe(MLRC), *fewer, "--run", folder.path) == 130
    return folder


@pytest.fixture(scope="module")
def folder(interrupted, tmp_path_factory):
    """The same run, continued to its end."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "mlrc")
    shutil.copytree(interrupted.path, folder.path)
    (folder.path / "fold-1-repeat-1").mkdir()  # as a process that was killed may leave it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ensemble, "show", lambda self: None)
        assert run("train", "--resume", folder.path) == 0
    return folder


def models_of(folder):
    return Ensemble(folder.path).model_folders


def mean_alone(folder):
    metrics = [model.metrics()["test"] for fold in models_of(folder) for model in fold]
    return pytest.approx(np.mean([of["map_at_r"] for of in metrics]), abs=1e-6)


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
        [model.test_embeddings()[:2] for model in repeats]
        for repeats in Ensemble(folder.path).models
    ]
    concatenated = [
        retrieval_metrics(np.concatenate([a, b], axis=1), labels)["map_at_r"]
        for a, labels in embedded[0]
        for b, _ in embedded[1]
    ]
    mean = metrics["concatenated"]["mean"]["map_at_r"]
    assert mean == pytest.approx(np.mean(concatenated), abs=1e-6)
    assert metrics["separated"]["mean"]["map_at_r"] == mean_alone(folder)
    assert metrics["choices"] == 4 and metrics["num_queries"] == 100


def test_evaluated_again_and_reported(folder, tmp_path, printed_by, monkeypatch):
    before = folder.metrics()["ensemble"]["concatenated"]["mean"]
    monkeypatch.setattr(_evaluation, "embed", None)  # the models have kept their embeddings
    assert run("train", "--resume", folder.path) == 0
    printed_by("evaluate", folder.path)
    assert folder.metrics()["ensemble"]["concatenated"]["mean"] == pytest.approx(before)
    page = folder.report_path.read_text("utf-8")
    assert "digits, fold 0, repeat 0" in page and "digits, fold 1, repeat 0" in page
    output = printed_by("report", folder.path, "--out", tmp_path / "tables")
    assert "16D P@1" in output and "8D MAP@R" in output and str(tmp_path) in output
    assert f"{100 * before['map_at_r']:.2f} ±" in (tmp_path / "tables" / "table.md").read_text()


def test_of_changed_images_each_model_is_evaluated_again(folder, tmp_path):
    folder = with_noise_to_test(folder.path, tmp_path)
    mean = Ensemble(folder.path).evaluate()["separated"]["mean"]["map_at_r"]
    assert mean == mean_alone(folder)


def is_trained(folder):
    return [model.is_trained() for fold in models_of(folder) for model in fold]


def test_stopped_and_resumed(interrupted, folder, capsys):
    Ensemble(interrupted.path).show()
    line = f"To continue: gsp-tf train --resume {interrupted.path}\n"
    assert capsys.readouterr().out == line
    assert interrupted.metrics()["status"] == "interrupted"
    assert "ensemble" not in interrupted.metrics()
    assert is_trained(interrupted) == [True, True, False, False]
    (first, _), (stopped, _) = models_of(interrupted)
    assert stopped.checkpoint_path.exists() and len(stopped.history()["loss"]) == 1
    assert run("report", interrupted.path) == 1
    assert run("evaluate", interrupted.path) == 1
    (same, _), (resumed, _) = models_of(folder)
    assert same.metrics() == first.metrics() and len(resumed.history()["loss"]) == 2


def test_the_first_repeats_have_the_seeds_of_those_in_a_run_with_more_repeats(write_recipe, folder):
    fewer = Ensemble("fewer", load_recipe(write_recipe(MLRC), ["--protocol.repeats", "1"]))
    seeds = [fewer._model_recipe(fold, 0).seed for fold in range(2)]
    assert seeds == [repeats[0].recipe().seed for repeats in models_of(folder)]
