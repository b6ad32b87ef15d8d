"""Searches: which trials there are, how they end, and that they survive being stopped."""

import csv
import re
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from digit_runs import run_command
from faults import run_stopped

from gsp_tf.recipe import DataRecipe, ProtocolRecipe, Recipe, TrainingRecipe, load_recipe
from gsp_tf.runs import Run, RunFolder
from gsp_tf.tuning import Tuning
from gsp_tf.tuning.tuning import _state_of

DIM = {"embedding.dim": [4, 8, 16, 32]}
MAP = "val_map_at_r"


@pytest.fixture
def training(monkeypatch):
    """Trainings of ten epochs that only report: `values(number)` gives those of a trial."""
    given = SimpleNamespace(values=lambda number: [0.5] * 10, statuses={}, errors={}, begun=[])

    def fit(self, callbacks=()):
        folder, number = self.folder, int(self.folder.path.name)
        given.begun.append(number)
        folder.start(self.recipe)
        (folder.path / "model.keras").touch()
        (folder.path / "checkpoint.npz").touch()
        if number in given.errors:
            raise given.errors[number]
        model, reached = SimpleNamespace(stop_training=False), []
        for callback in callbacks:
            callback.set_model(model)
        for epoch, value in enumerate(given.values(number)):
            if model.stop_training:
                break
            reached.append(value)
            for callback in callbacks:
                callback.on_epoch_end(epoch, {MAP: value, "val_recall_at_1": 1 - value})
        folder.add_epoch(0, {MAP: 0.1, "val_recall_at_1": 0.9})
        for epoch, value in enumerate(reached, start=1):
            folder.add_epoch(epoch, {MAP: value, "val_recall_at_1": 1 - value})
        folder.update_metrics(
            status=given.statuses.get(number, "finished"),
            untrained={MAP: 0.1, "val_recall_at_1": 0.9},
            best_epoch=None if max(reached) < 0.1 else int(np.argmax(reached)) + 1,
            training_seconds=1.5,
        )
        return self

    monkeypatch.setattr(Run, "fit", fit)
    monkeypatch.setattr(Tuning, "splits", None)
    monkeypatch.setattr("gsp_tf.tuning.tuning._figures", lambda *given: [])
    monkeypatch.setattr("keras.backend.clear_session", lambda: None)  # nothing was built
    return given


def tuning(tmp_path, **options):
    recipe = Recipe(name="birds")
    return Tuning(tmp_path / "tuned", recipe, DIM, **{"sampler": "random", **options})


def states(search):
    return [_state_of(result) for result in search.study.trials]


def test_a_trial_has_the_objective_of_its_best_epoch_and_the_best_trial_stays(
    training, tmp_path, capsys
):
    curves = [[0.2, 0.6, 0.3], [0.01, 0.05], [0.3, 0.4]]
    training.values = curves.__getitem__
    training.statuses = {1: "diverged"}
    search = tuning(tmp_path)
    assert search.run(trials=3)
    results = search.study.trials
    assert [result.value for result in results] == [0.6, 0.05, 0.4]  # not the 0.1 before training
    reported = [dict(enumerate(curve, start=1)) for curve in curves]
    assert [result.intermediate_values for result in results] == reported
    untrained = "the loss was not finite; no epoch was better than the untrained model"
    rows = list(csv.DictReader((search.path / "trials.csv").open()))
    columns = MAP, "untrained", "best_epoch", "epochs", "note", "embedding.dim"
    dims = [result.params["embedding.dim"] for result in results]
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("0.6", "0.1", "2", "3", "", str(dims[0])),
        ("0.05", "0.1", "2", "2", untrained, str(dims[1])),
        ("0.4", "0.1", "2", "2", "", str(dims[2])),
    ]
    recipe = load_recipe(search.path / "best.yaml")
    assert recipe == search.best_recipe() and recipe.name == "birds"
    assert recipe.embedding.dim == dims[0]
    folders = [RunFolder(search.path / f"trials/000{number}") for number in range(3)]
    assert [folder.model_path.exists() for folder in folders] == [True, False, False]
    assert not any(folder.checkpoint_path.exists() for folder in folders)
    search.show()
    printed = " ".join(capsys.readouterr().out.split())
    assert f"Trial 1: {untrained}." in printed and " 0.05 " in printed
    assert f"gsp-tf train {search.path / 'best.yaml'}" in printed
    other = Tuning(tmp_path / "other", Recipe(), DIM, objective="val_recall_at_1")
    other.run(trials=2)
    assert [result.value for result in other.study.trials] == [pytest.approx(0.4), 0.95]


def test_a_search_judges_epochs(training, tmp_path):
    untrained = Recipe(training=TrainingRecipe(epochs=0))
    for fields in DIM, {"training.epochs": [2, 0]}, {"training.epochs": {"low": 0, "high": 3}}:
        with pytest.raises(ValueError, match="training.epochs must be 1 or more in a search"):
            Tuning(tmp_path / "none", untrained, fields)
    search = Tuning(tmp_path / "some", untrained, {"training.epochs": [1, 2]})
    search.run(trials=2)
    assert states(search) == ["complete"] * 2


def test_trials_share_images_that_are_read_in_the_same_way(training, tmp_path, monkeypatch):
    """The size of the copies in data.cache depends on data.min_crop_area."""
    images, fit, read = object(), Run.fit, set()

    def seen(self, callbacks=()):
        data = self.recipe.data
        read.add((data.min_crop_area, data.horizontal_flip, vars(self).get("splits") is images))
        return fit(self, callbacks)

    monkeypatch.setattr(Run, "fit", seen)
    monkeypatch.setattr(Tuning, "splits", images)
    recipe = Recipe(data=DataRecipe("folder", "photos", cache="copies"))
    fields = {"data.min_crop_area": [0.25, 1.0], "data.horizontal_flip": [True, False]}
    Tuning(tmp_path / "tuned", recipe, fields, sampler="random").run(trials=8)
    assert read == {(area, flip, area == 1) for area in (0.25, 1) for flip in (True, False)}


def test_a_search_that_continues_has_the_trials_that_it_was_asked_for(training, tmp_path, capsys):
    training.statuses = {1: "interrupted"}
    assert not tuning(tmp_path).run(trials=3)
    training.statuses = {2: "interrupted"}
    path = tmp_path / "tuned"
    assert run_command("tune", "--resume", path) == 130
    printed = capsys.readouterr().out
    assert "Trial 1 of 3" in printed
    assert printed.splitlines()[-1] == f"To continue: gsp-tf tune --resume {path}"
    training.statuses = {3: "interrupted"}
    assert run_command("tune", "--resume", path, "--trials", "5") == 130
    training.statuses = {}
    assert run_command("tune", "--resume", path) == 0
    assert len(Tuning(path).study.trials) == 5


@pytest.mark.parametrize(
    ("stopped_at", "by"),
    [("tuning.yaml", "replace_bytes"), ("study.db", "_Study"), ("trials.csv", "replace_text")],
)
def test_a_search_stopped_at_a_file_continues(training, tmp_path, monkeypatch, stopped_at, by):
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(f"gsp_tf.tuning.tuning.{by}", Mock(side_effect=KeyboardInterrupt))
        tuning(tmp_path).run(trials=2)
    if stopped_at == "tuning.yaml":  # nothing is there yet, so the same call begins
        assert tuning(tmp_path).run(trials=2)
    else:
        assert run_command("tune", "--resume", tmp_path / "tuned") == 0
    assert states(Tuning(tmp_path / "tuned")) == ["complete"] * 2


def test_trials_behind_the_others_are_pruned(training, tmp_path):
    training.values = lambda number: [0.5 - 0.3 * (number == 6)] * 10
    search = tuning(tmp_path)
    search.run(trials=8)
    assert states(search) == ["complete"] * 6 + ["pruned"] + ["complete"]
    assert len(search.study.trials[6].intermediate_values) == 3  # after a quarter of ten epochs
    assert search.study.trials[6].value == pytest.approx(0.2)
    unpruned = Tuning(tmp_path / "unpruned", Recipe(), DIM, pruning=False)
    unpruned.run(trials=7)
    assert states(unpruned) == ["complete"] * 7


def test_trials_that_fail(training, tmp_path, capsys):
    class ResourceExhaustedError(Exception):
        """As of TensorFlow."""

    training.errors = {
        0: ValueError("embedding.dim does not divide"),
        1: ResourceExhaustedError("OOM when allocating"),
    }
    search = tuning(tmp_path)
    search.run(trials=4)
    assert states(search) == ["failed"] * 2 + ["complete"] * 2
    notes = [result.user_attrs["note"] for result in search.study.trials[:2]]
    assert notes == ["embedding.dim does not divide", "OOM when allocating"]
    assert "Trial 0 failed: embedding.dim does not divide" in capsys.readouterr().err
    training.errors = {0: OSError("the disk is full")}  # it would fail every trial
    with pytest.raises(OSError, match="full"):
        Tuning(tmp_path / "full", Recipe(), DIM).run(trials=2)
    training.errors = {number: ValueError("no") for number in range(9)}
    for name, trials, failed in ("failing", 9, "3 trials"), ("one", 1, "1 trial"):
        with pytest.raises(ValueError, match=f"The first {failed} failed, the last one so: no"):
            Tuning(tmp_path / name, Recipe(), DIM).run(trials)


def test_processes_share_the_trials_of_a_folder(training, tmp_path, locked_elsewhere):
    search = tuning(tmp_path)
    search.run(trials=1)
    with pytest.raises(KeyboardInterrupt):
        training.errors = {1: KeyboardInterrupt()}
        search.run(trials=2)
    training.errors = {}
    with locked_elsewhere(search.path / "trials/0001"):  # its process lives
        search.run(trials=3)
        assert states(search) == ["complete", "running", "complete"]
    search.run(trials=3)
    assert training.begun == [0, 1, 2, 1]


def test_values_do_not_depend_on_the_process(training, tmp_path):
    trials = 11  # the first ten are drawn at random
    fields = {"training.learning_rate": {"low": 1e-5, "high": 1e-2, "log": True}, **DIM}
    training.values = lambda number: [0.1 + 0.01 * (number * 7 % 5)]
    found = []
    for name, calls in (("whole", [trials]), ("parts", [2, trials])):
        search = Tuning(tmp_path / name, Recipe(), fields)
        for count in calls:
            search.run(trials=count)
            search = Tuning(tmp_path / name)
        found.append([result.params for result in search.study.trials])
    assert found[0] == found[1]
    rates = [values["training.learning_rate"] for values in found[0]]
    assert len(set(rates)) == trials


EAGERLY = "import tensorflow as tf; tf.config.run_functions_eagerly(True)\n"


def test_a_killed_search_goes_on_and_never_looks_at_the_test_classes(
    write_recipe, without_tracing, tmp_path, capsys
):
    recipe = write_recipe("training: {epochs: 3, steps_per_epoch: 1}")
    path, search = tmp_path / "a {search}?", "loss.temperature: {low: 0.05, high: 1, log: true}"
    begin = (recipe, "--search", search, "--out", path, "--trials", "2")
    # At the fifth step: two of the first trial, and the third of the second.
    run_stopped("tune", *begin, at="step", count=5, code=EAGERLY)
    second = RunFolder(path / "trials/0001")
    assert len(second.history()[MAP]) == 1
    (running,) = [r for r in Tuning(path).study.trials if _state_of(r) == "running"]
    assert list(running.intermediate_values) == [1]
    assert run_command("tune", "--resume", path) == 0
    printed = capsys.readouterr().out
    assert "Epoch 2/3" in printed and "Epoch 1/3" not in printed  # from the checkpoint
    results = Tuning(path).study.trials
    assert states(Tuning(path)) == ["complete"] * 2
    assert results[1].params == running.params
    assert list(results[1].intermediate_values) == [1, 2, 3]
    assert "Search for digits" in (path / "report.html").read_text()
    for number in range(2):
        folder = RunFolder(path / f"trials/000{number}")
        assert len(folder.history()[MAP]) == 3
        assert "test" not in folder.metrics() and not folder.embeddings_path.exists()
    best = max(results, key=lambda result: result.value)
    found = load_recipe(path / "best.yaml").loss.arguments["temperature"]
    assert found == best.params["loss.temperature"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "test_map_at_r"}, "The objective is a metric of the validation classes"),
        ({"search": {}}, "The search has no field"),
        ({"sampler": "grid"}, "sampler must be one of tpe, random, received 'grid'"),
        ({"protocol": "conventional"}, "the test classes choose the model"),
        ({"protocol": "mlrc"}, "give protocol.fold"),
    ],
)
def test_refused_searches(tmp_path, options, message):
    protocol = ProtocolRecipe(options.pop("protocol", "fractions"))
    with pytest.raises(ValueError, match=message):
        Tuning(tmp_path / "tuned", Recipe(protocol=protocol), **{"search": DIM, **options})
    assert not (tmp_path / "tuned").exists()


def test_refused_folders_and_metrics(training, tmp_path, monkeypatch, capsys):
    with pytest.raises(FileNotFoundError, match="holds no search: it has no tuning.yaml"):
        Tuning(tmp_path)
    with pytest.raises(
        ValueError, match="The first 3 trials failed, .*is one of val_map_at_r, val"
    ):
        tuning(tmp_path, objective="val_nmi").run(trials=3)
    with pytest.raises(FileExistsError, match="gsp-tf tune --resume"):
        tuning(tmp_path)
    with pytest.raises(ValueError, match="trials must be an int.*received 0"):
        Tuning(tmp_path / "tuned").run(0)
    with pytest.raises(FileExistsError, match="exists. Choose another folder.$"):
        Tuning(tmp_path, Recipe(), DIM)
    settings = tmp_path / "tuned/tuning.yaml"
    sealed = settings.read_bytes()
    for content in sealed.replace(b"trials: 3", b"trials: 7"), b"search: 3":
        settings.write_bytes(content)
        with pytest.raises(ValueError, match="tuning.yaml is damaged"):
            Tuning(tmp_path / "tuned")
    assert run_command("tune", "--resume", tmp_path, "--objective", "val_nmi") == 1
    assert "--resume takes all but --trials from the folder" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert run_command("tune", "--data.image_size", 24, "--search", "embedding.dim: [8]") == 1
    assert re.search(r'needs optuna: pip install "\.\[tune\]"', capsys.readouterr().err)
