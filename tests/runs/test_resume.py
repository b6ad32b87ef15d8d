"""Runs that are stopped in every way, and end as if they had not been."""

import functools
import shutil
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from digit_runs import interrupted_in
from digit_runs import run_command as run
from embedded import edit_recipe
from faults import run_stopped, stopped_at
from tensorflow.python.framework.config import disable_op_determinism

from gsp_tf.recipe import ClassRecipe, ZeroShotRecipe, save_recipe
from gsp_tf.runs import Run, RunFolder, Splits, build_learner
from gsp_tf.runs._initial import start_from
from gsp_tf.runs._training import Training
from gsp_tf.training import ChanceConstrainedTrainer, epoch_of

EVERYTHING = """
trainer: ccp
loss: {name: contrastive}
pooling: {name: gsp, num_prototypes: 4}
ccp: {proxies_per_class: 2, pool_size: 3, patience: 1}
training:
  epochs: 3
  steps_per_epoch: 2
  warmup_epochs: 1
  adapt_batches: 1
  deterministic: true
  learning_rate: 0.003
"""
QUICKLY = """
import tensorflow as tf
from gsp_tf.runs import Run
tf.config.run_functions_eagerly(True)
Run.show = lambda self: None
"""
FAIL = Mock(side_effect=OSError("No space left on device"))
INTERRUPT = Mock(side_effect=KeyboardInterrupt)


def train(*arguments):
    """Train in this process, where operations are deterministic if the run says so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "show", lambda self: None)
        try:
            assert run("train", *arguments) == 0
        finally:
            disable_op_determinism()


@pytest.fixture(scope="module")
def recipe(write_recipe):
    return functools.cache(write_recipe)


@pytest.fixture(scope="module")
def whole_run(recipe, tmp_path_factory):
    """Function that gives the run of a recipe that is not stopped, trained once."""

    @functools.cache
    def trained(sections):
        folder = RunFolder(tmp_path_factory.mktemp("runs") / "whole")
        train(recipe(sections), "--run", folder.path)
        return folder

    return trained


def results(folder):
    """Everything a run ends with but its duration and versions."""
    metrics = folder.metrics()
    kept = {k: v for k, v in metrics.items() if k not in ("training_seconds", "versions")}
    return kept, folder.history()


def test_a_killed_run_continues_and_ends_as_if_it_had_not_been(recipe, whole_run, tmp_path):
    """It is killed while it writes the checkpoint before its third epoch."""
    stopped = RunFolder(tmp_path / "stopped")
    command = "train", recipe(EVERYTHING), "--run", stopped.path
    run_stopped(*command, at="checkpoint.npz", count=3, code=QUICKLY)
    assert stopped.metrics()["status"] == "running" and epoch_of(stopped.checkpoint_path) == 1
    assert stopped.learner().embedder.output_shape == (None, 8)
    train("--resume", stopped.path)
    check_same(stopped, whole_run(EVERYTHING))


def check_same(folder, whole):
    """Both runs have the same results, weights and files."""
    assert results(folder) == results(whole)
    np.testing.assert_equal(*(of.learner().get_weights() for of in (folder, whole)))
    names, expected = ({file.name for file in of.path.iterdir()} for of in (folder, whole))
    assert names == expected


QUICK = """
loss: {name: contrastive}
training: {epochs: 2, steps_per_epoch: 2}
"""
REPEATABLE = QUICK.replace("epochs: 2", "deterministic: true, epochs: 2")


@pytest.fixture(scope="module")
def interrupted(recipe, tmp_path_factory):
    """A run to be copied: its first start failed, and Ctrl-C stopped it in its second epoch."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gsp_tf.training.SaveBest.save", FAIL)
        failed = run("train", recipe(QUICK), "--run", folder.path)
    files = sorted(path.name for path in folder.path.iterdir())
    with interrupted_in(1):
        assert run("train", "--resume", folder.path) == 130
    return SimpleNamespace(path=folder.path, after_failure=(failed, files))


@pytest.fixture
def stopped(interrupted, tmp_path):
    """A run with a checkpoint."""
    return RunFolder(shutil.copytree(interrupted.path, tmp_path / "run"))


@pytest.fixture
def finished(whole_run, tmp_path, monkeypatch):
    """A run of two epochs."""
    monkeypatch.setattr(Run, "show", lambda self: None)
    yield RunFolder(shutil.copytree(whole_run(REPEATABLE).path, tmp_path / "run"))
    disable_op_determinism()


def test_a_run_that_fails_before_its_first_epoch_starts_again(interrupted, stopped):
    assert interrupted.after_failure == (1, [".lock", "recipe.yaml"])
    assert stopped.metrics()["epochs"] == 1 and len(stopped.history()["loss"]) == 1


def test_ctrl_c_and_on(stopped, monkeypatch):
    assert stopped.metrics()["status"] == "interrupted" and stopped.checkpoint_path.exists()
    assert stopped.metrics()["test"]["num_queries"] == 60
    assert "interrupted after 1 epoch" in stopped.report_path.read_text("utf-8")
    with monkeypatch.context() as patch:  # stopped again, in the evaluation
        patch.setattr(Run, "evaluate", FAIL)
        assert run("train", "--resume", stopped.path) == 1
    assert "test" not in stopped.metrics()
    history = stopped.history()
    monkeypatch.setattr(Run, "show", lambda self: None)
    assert run("train", "--resume", stopped.path) == 0
    assert stopped.history() == history
    assert stopped.metrics()["status"] == "finished" and stopped.metrics()["epochs"] == 2
    assert epoch_of(stopped.checkpoint_path) == 1


def test_a_stop_before_the_state_is_restored_changes_nothing(stopped, monkeypatch):
    metrics = {k: v for k, v in stopped.metrics().items() if k not in ("test", "test_intervals")}
    paths = (stopped.checkpoint_path, stopped.model_path, stopped.history_path)
    contents = [path.read_bytes() for path in paths]
    monkeypatch.setattr("gsp_tf.training.StopOnNaN.on_train_begin", INTERRUPT, raising=False)
    monkeypatch.setattr(Run, "evaluate", FAIL)
    assert run("train", "--resume", stopped.path) == 1
    assert stopped.metrics() == metrics
    assert [path.read_bytes() for path in paths] == contents


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("checkpoint.npz", "has a history but no checkpoint"),
        ("metrics.json", "does not say which images"),
    ],
)
def test_what_is_left_of_a_training_is_not_thrown_away(stopped, refused, lost, message):
    (stopped.path / lost).unlink()
    refused(message, "train", "--resume", stopped.path)
    assert not (stopped.path / lost).exists() and len(stopped.history()["loss"]) == 1


def test_a_finished_run_is_left_alone(trained, tmp_path, refused):
    folder = RunFolder(shutil.copytree(trained.path, tmp_path / "run"))
    before = results(folder)
    to_continue = f"gsp-tf train --resume {folder.path}"
    refused(to_continue, "train", trained.recipe, "--run", folder.path)
    assert run("train", "--resume", folder.path) == 0
    assert results(folder) == before


def test_a_run_locked_elsewhere_is_left_alone(stopped, refused, locked_elsewhere):
    before = {file: file.read_bytes() for file in stopped.path.iterdir() if file.is_file()}
    with locked_elsewhere(stopped.path):
        for command in ["train", "--resume"], ["evaluate"]:
            refused(f"Another process is writing {stopped.path}", *command, stopped.path)
    assert {file: file.read_bytes() for file in before} == before


def test_other_training_images_are_refused(stopped, refused):
    edit_recipe(stopped.path, "split_seed: 0", "split_seed: 1")
    refused("training images are not those", "train", "--resume", stopped.path)


def test_training_images_with_other_labels_or_names_are_refused(stopped, monkeypatch):
    images = Run(stopped.path).splits.train
    first, last = images.paths[0], images.paths[-1]
    assert images.labels[0] != images.labels[-1]
    swapped = [last, *images.paths[1:-1], first]  # as many of each class
    renamed = [*images.paths[:-1], f"{last}.png"]
    moved = [f"/elsewhere{path}" for path in images.paths]

    def continued(paths):
        monkeypatch.setattr(images, "paths", tuple(paths))
        training = SimpleNamespace(folder=stopped, splits=Splits(images, images, images))
        training._train_files = functools.partial(Training._train_files, training)
        Training._check_same_training_images(training)

    for paths in swapped, renamed:
        with pytest.raises(ValueError, match="labels or names of files have changed"):
            continued(paths)
    continued(moved)
    stopped.update_metrics(without=["train_files"])  # a run that began before there was the entry
    continued(renamed)


def test_epochs_that_change_nothing_are_refused(finished, refused):
    recipe = finished.recipe()
    ended_early = replace(recipe.training, epochs=4, patience=1)
    save_recipe(replace(recipe, training=ended_early), finished.recipe_path)
    resume = ["train", "--resume", finished.path]
    refused("training.epochs must be more, received 2", *resume, "--training.epochs", "2")
    refused("Give it a larger --training.patience", *resume, "--training.epochs", "9")
    assert finished.recipe().training.epochs == 4
    assert run(*resume, "--training.epochs", "3", "--training.patience", "null") == 0
    assert finished.metrics()["epochs"] == 3 and finished.recipe().training.patience is None


def test_more_epochs_are_trained_after_a_lost_history(finished, refused):
    more, before = ["train", "--resume", finished.path, "--training.epochs", 3], finished.metrics()
    finished.history_path.write_text("damaged")
    refused("history.csv is damaged", *more)
    assert finished.metrics() == before
    finished.history_path.unlink()
    assert run(*more) == 0
    loss = finished.history()["loss"]
    assert len(loss) == finished.metrics()["epochs"] == 3 and np.isfinite(loss[-1])


@pytest.mark.parametrize("file", ["metrics.json", "recipe.yaml"])
def test_more_epochs_after_an_early_stop_end_as_those_from_the_start(whole_run, finished, file):
    more = "--resume", finished.path, "--training.epochs", "3"
    with stopped_at(file, renamed=True):
        train(*more)
    train(*more)
    whole = whole_run(REPEATABLE.replace("epochs: 2", "epochs: 3"))
    check_same(finished, whole)
    assert finished.recipe() == whole.recipe() and finished.metrics()["epochs"] == 3


def test_a_loss_takes_the_weights_of_the_same_loss_on_the_same_classes(trained, tmp_path):
    first = RunFolder(shutil.copytree(trained.path, tmp_path / "run"))
    recipe = replace(first.recipe(), loss=ClassRecipe("proxy_anchor"), zero_shot=ZeroShotRecipe())
    pairs = replace(recipe, loss=ClassRecipe("contrastive"))
    nested = replace(pairs, loss_wrapper=ClassRecipe("matryoshka", {"dims": (4, 8)}))
    known = first.metrics()["train_classes"]

    def begun(recipe, by=lambda learner: learner):
        first.write_recipe(recipe)
        learner = by(build_learner(recipe, 3, 1))
        learner.save(first.model_path)
        return learner

    def taken(recipe, classes=known, num_classes=3):
        recipe = replace(recipe, initial_run=str(first.path))
        learner = build_learner(recipe, num_classes, 1)
        start_from(recipe, learner.embedder, learner.embedding_loss, classes)
        return np.array_equal(learner.embedding_loss.trainable_weights[:1], [proxies])

    proxies = begun(recipe).embedding_loss.proxies.numpy()
    assert taken(recipe)
    assert not taken(recipe, classes="others") and not taken(recipe, num_classes=4)
    assert not taken(replace(recipe, loss=ClassRecipe("proxy_anchor", {"alpha": 16.0})))
    assert not taken(replace(recipe, loss_wrapper=ClassRecipe("anti_collapse")))
    begun(nested, lambda learner: ChanceConstrainedTrainer(learner)._projection_learner(3))
    assert not taken(nested)


def test_a_run_starts_from_the_model_of_another(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Run, "show", lambda self: None)
    monkeypatch.setattr(Run, "evaluate", lambda self: None)
    monkeypatch.setattr("keras.Model.fit", lambda *arguments, **keywords: None)
    first, second = RunFolder(trained.path), RunFolder(tmp_path / "second")
    start = ["train", trained.recipe, "--initial_run", first.path, "--run", second.path]
    assert run(*start, "--seed", "5") == 0
    best = first.metrics()["best_val_map_at_r"]
    assert second.metrics()["untrained"]["val_map_at_r"] == pytest.approx(best, abs=1e-6)
    assert second.recipe().initial_run == str(first.path)
    embedders = [folder.learner(compile=False).embedder for folder in (second, first)]
    np.testing.assert_equal(*(embedder.get_weights() for embedder in embedders))
    for command in ("train", "check"):
        start = [command, *start[1:4], "--run", tmp_path / "third", "--embedding.dim", "4"]
        assert run(*start) == 1
        printed = "".join(capsys.readouterr())
        assert "does not fit" in printed and "embedding.dim is 8 there and 4 here" in printed
