"""Runs that are stopped in every way, and end as if they had not been."""

import functools
import signal
import subprocess
import sys

import numpy as np
import pytest

from gsp_tf.cli import main
from gsp_tf.experiment import RunFolder
from gsp_tf.training import epoch_of

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
  min_crop_area: 0.5
backbone: {{name: conv4}}
embedding: {{dim: 8}}
pooling: {{num_prototypes: 4}}
loss: {{name: contrastive}}
miner: {{name: distance_weighted}}
training:
  adapt_batches: 1
  epochs: 6
  steps_per_epoch: 4
  warmup_epochs: 2
  deterministic: true
  patience: 3
  schedule: {{name: plateau, patience: 1, min_delta: 0.5, cooldown: 0}}
"""
MEMORY = """
loss: {name: contrastive}
loss_wrapper: {name: cross_batch_memory, capacity: 48, warmup_steps: 6}
training: {epochs: 5, steps_per_epoch: 4, deterministic: true, learning_rate: 0.003}
"""
CCP = """
trainer: ccp
loss: {name: contrastive}
ccp: {proxies_per_class: 2, pool_size: 3, patience: 1}
training: {epochs: 8, steps_per_epoch: 4, deterministic: true, learning_rate: 0.003}
"""
# Trains; at the N-th time at a place it kills itself, or finds the disk full from then on.
STOP = """
import os, resource, signal, sys
import numpy as np
from gsp_tf import _files as files
from gsp_tf.cli import main
from gsp_tf.training import StopOnNaN

where, count, *arguments = sys.argv[1:]
left = [int(count)]

def arrive():
    left[0] -= 1
    if left[0] == 0 and where.startswith("full disk"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    elif left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def on_train_batch_end(self, batch, logs=None):
    arrive()

def replace(source, target, original=os.replace):
    if os.path.basename(target) == where:
        arrive()
    original(source, target)

def savez(path, original=np.savez, **arrays):
    arrive()
    original(path, **arrays)

if where == "step":
    StopOnNaN.on_train_batch_end = on_train_batch_end
if where == "full disk at checkpoint.npz":
    np.savez = savez
files.os.replace = replace
main(arguments)
"""

EVIDENCE = pytest.mark.evidence


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, digits):
    """Function that writes a recipe, some of its sections replaced."""

    def write(sections=""):
        path = tmp_path_factory.mktemp("recipes") / "recipe.yaml"
        names = [line.split(":")[0] for line in sections.splitlines() if line[:1].isalpha()]
        kept, drop = [], False
        for line in RECIPE.format(path=digits).splitlines():
            drop = line.split(":")[0] in names if line[:1].isalpha() else drop
            kept += [] if drop else [line]
        path.write_text("\n".join([*kept, sections]), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def whole_run(recipe, tmp_path_factory):
    """Function that gives the run of a recipe that is not stopped, trained once."""

    @functools.cache
    def trained(sections):
        folder = RunFolder(tmp_path_factory.mktemp("runs") / "whole")
        train("train", recipe(sections), "--run", folder.path)
        return folder

    return trained


def train(*arguments, code="from gsp_tf.cli import main; main()", expected=0):
    """Train in a fresh process; its output."""
    process = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert process.returncode == expected, process.stdout
    return process.stdout


def results(folder):
    """Everything a run ends with but its duration and versions."""
    metrics = folder.metrics()
    kept = {k: v for k, v in metrics.items() if k not in ("training_seconds", "versions")}
    return kept, folder.history()


@pytest.mark.parametrize(
    ("sections", "where", "count", "goes_on_from"),
    [
        pytest.param("", "step", 6, 1, id="warm-up, in an epoch"),
        pytest.param(
            "", "checkpoint.npz", 5, 3, id="plateau, writing the checkpoint", marks=EVIDENCE
        ),
        pytest.param(MEMORY, "step", 11, 2, id="memory, in an epoch", marks=EVIDENCE),
        pytest.param(CCP, "model.keras", 3, None, id="ccp, writing the best model"),
        pytest.param(CCP, "step", 22, 5, id="ccp, in a later problem", marks=EVIDENCE),
        pytest.param(
            CCP,
            "full disk at checkpoint.npz",
            4,
            2,
            id="ccp, disk full at checkpoint",
            marks=EVIDENCE,
        ),
    ],
)
def test_a_killed_run_goes_on_and_ends_as_if_it_had_not_been(
    recipe, whole_run, tmp_path, sections, where, count, goes_on_from
):
    path, whole = recipe(sections), whole_run(sections)
    stopped = RunFolder(tmp_path / "stopped")
    expected = 1 if where.startswith("full disk") else -signal.SIGKILL
    output = train(where, count, "train", path, "--run", stopped.path, code=STOP, expected=expected)
    if where.startswith("full disk"):
        assert "gsp-tf: error:" in output and "Traceback" not in output
    assert stopped.metrics().get("status") in ("running", "failed")
    assert stopped.learner().embedder.output_shape == (None, 8)
    first_epoch = epoch_of(stopped.checkpoint_path)
    assert goes_on_from is None or first_epoch == goes_on_from
    assert first_epoch <= len(stopped.history().get("loss", ())) <= first_epoch + 1
    train("train", "--resume", stopped.path)
    assert results(stopped) == results(whole)
    for ours, theirs in zip(
        stopped.learner().get_weights(), whole.learner().get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert sorted(file.name for file in stopped.path.iterdir()) == sorted(
        file.name for file in whole.path.iterdir()
    )


def run(*arguments):
    """Exit code of a command in this process."""
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    return exit.value.code


QUICK = """
loss: {name: contrastive}
training: {epochs: 2, steps_per_epoch: 2}
"""


def test_ctrl_c_and_on(recipe, tmp_path, monkeypatch):
    whole, folder = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "run")
    assert run("train", recipe(QUICK), "--run", whole.path) == 0
    with monkeypatch.context() as patch:
        patch.setattr("gsp_tf.training.StopOnNaN.on_train_batch_end", _interrupt_in(1))
        assert run("train", recipe(QUICK), "--run", folder.path) == 130
    assert folder.metrics()["status"] == "interrupted" and folder.checkpoint_path.exists()
    interrupted = folder.metrics()["test"]
    assert interrupted["num_queries"] == 60
    with monkeypatch.context() as patch:  # stopped again, in the evaluation
        patch.setattr("gsp_tf.experiment.run.evaluate_run", _fail)
        assert run("train", "--resume", folder.path) == 1
    assert "test" not in folder.metrics()
    assert run("train", "--resume", folder.path) == 0
    assert folder.metrics()["status"] == "finished" and folder.metrics()["epochs"] == 2
    assert epoch_of(folder.checkpoint_path) == 1
    assert folder.metrics()["test"] == pytest.approx(whole.metrics()["test"], abs=0.02)
    assert folder.history()["loss"] == pytest.approx(whole.history()["loss"], rel=1e-3)


def test_sigterm_and_on_with_the_flag_for_determinism(recipe, tmp_path):
    path = recipe(QUICK.replace("epochs: 2", "epochs: 3"))
    whole, stopped = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "stopped")
    train("train", path, "--run", whole.path, "--deterministic")
    assert whole.recipe().training.deterministic
    code = STOP.replace("signal.SIGKILL", "signal.SIGTERM")
    command = ("step", 3, "train", path, "--run", stopped.path, "--deterministic")
    train(*command, code=code, expected=143)
    assert stopped.metrics()["status"] == "interrupted"
    train("train", "--resume", stopped.path)
    assert results(stopped) == results(whole)


def test_a_stop_before_the_state_is_restored_changes_nothing(recipe, tmp_path, monkeypatch):
    folder = stopped_run(recipe, tmp_path, monkeypatch)
    before = {k: v for k, v in folder.metrics().items() if k != "test"}
    with monkeypatch.context() as patch:
        patch.setattr("gsp_tf.training.StopOnNaN.on_train_begin", _interrupt, raising=False)
        patch.setattr("gsp_tf.experiment.run.evaluate_run", _fail)
        assert run("train", "--resume", folder.path) == 1
    assert folder.metrics() == before
    assert run("train", "--resume", folder.path) == 0


def test_a_history_without_a_checkpoint_is_not_thrown_away(recipe, tmp_path, monkeypatch, capsys):
    folder = stopped_run(recipe, tmp_path, monkeypatch)
    folder.checkpoint_path.unlink()
    assert run("train", "--resume", folder.path) == 1
    assert "has a history but no checkpoint" in capsys.readouterr().err
    assert len(folder.history()["loss"]) == 1


def _interrupt(*arguments, **keywords):
    raise KeyboardInterrupt


def _interrupt_in(epoch):
    def on_train_batch_end(self, batch, logs=None):
        if self._epoch == epoch:
            raise KeyboardInterrupt

    return on_train_batch_end


def test_a_finished_run_is_left_alone(recipe, tmp_path, capsys):
    folder = RunFolder(tmp_path / "run")
    assert run("train", recipe(QUICK), "--run", folder.path) == 0
    before = results(folder)
    assert run("train", recipe(QUICK), "--run", folder.path) == 1
    assert f"gsp-tf train --resume {folder.path}" in capsys.readouterr().err
    assert run("train", "--resume", folder.path) == 0
    assert results(folder) == before


def test_a_run_that_another_process_writes_is_left_alone(
    recipe, tmp_path, capsys, locked_elsewhere, monkeypatch
):
    folder = stopped_run(recipe, tmp_path, monkeypatch)
    before = {file: file.read_bytes() for file in folder.path.iterdir() if file.is_file()}
    for command in (["train", "--resume"], ["evaluate"]):
        with locked_elsewhere(folder.path):
            assert run(*command, folder.path) == 1
        assert f"Another process is writing {folder.path}" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in before} == before
    with locked_elsewhere(tmp_path / "new"):
        assert run("train", recipe(QUICK), "--run", tmp_path / "new") == 1
    assert [file.name for file in (tmp_path / "new").iterdir()] == [".lock"]


def test_a_run_killed_in_its_evaluation_is_evaluated(recipe, tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")

    def fail(*arguments):
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("gsp_tf.experiment.run.evaluate_run", fail)
        assert run("train", recipe(QUICK), "--run", folder.path) == 1
    assert "test" not in folder.metrics()
    history = folder.history()
    assert run("train", "--resume", folder.path) == 0
    assert folder.metrics()["test"]["num_queries"] == 60 and folder.history() == history


def test_a_run_killed_before_its_first_epoch_starts_anew(recipe, tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("gsp_tf.training.SaveBest.save", _fail)
        assert run("train", recipe(QUICK), "--run", folder.path) == 1
    assert sorted(path.name for path in folder.path.iterdir()) == [".lock", "recipe.yaml"]
    assert run("train", "--resume", folder.path) == 0
    assert folder.metrics()["status"] == "finished" and folder.metrics()["epochs"] == 2


def _fail(*arguments):
    raise OSError("No space left on device")


def stopped_run(recipe, tmp_path, monkeypatch):
    """A run with a checkpoint."""
    folder = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("gsp_tf.training.StopOnNaN.on_train_batch_end", _interrupt_in(1))
        assert run("train", recipe(QUICK), "--run", folder.path) == 130
    return folder


def test_other_training_images_are_refused(recipe, tmp_path, monkeypatch, capsys, digits):
    folder = stopped_run(recipe, tmp_path, monkeypatch)
    text = folder.recipe_path.read_text("utf-8")
    folder.recipe_path.write_text(text.replace("split_seed: 0", "split_seed: 1"), "utf-8")
    assert run("train", "--resume", folder.path) == 1
    assert "training images are not those" in capsys.readouterr().err


def test_a_damaged_checkpoint_is_named(recipe, tmp_path, monkeypatch, capsys):
    folder = stopped_run(recipe, tmp_path, monkeypatch)
    for damage in (b"", b"PK\x03\x04 half a file"):
        folder.checkpoint_path.write_bytes(damage)
        assert run("train", "--resume", folder.path) == 1
        assert "checkpoint.npz is damaged, or is not a checkpoint" in capsys.readouterr().err


def test_options_beside_resume_are_refused(tmp_path, capsys):
    assert run("train", "--resume", tmp_path, "--seed", "3") == 1
    assert "--resume takes the recipe of its run folder" in capsys.readouterr().err
    assert run("train", "--resume", tmp_path) == 1
    assert "it has no recipe.yaml" in capsys.readouterr().err


def test_a_finished_run_is_given_more_epochs(recipe, whole_run, tmp_path):
    """Its last state continues: the numbers are those of a run of so many epochs from the start."""
    whole, folder = whole_run(""), RunFolder(tmp_path / "run")
    train("train", recipe(""), "--run", folder.path, "--training.epochs", "4")
    assert folder.metrics()["status"] == "finished" and folder.metrics()["epochs"] == 4
    train("train", "--resume", folder.path, "--training.epochs", "6")
    assert results(folder) == results(whole) and folder.recipe() == whole.recipe()


FROZEN = "backbone: {name: conv4, freeze_batch_normalization: true}"


def test_more_epochs_that_change_nothing_are_refused(recipe, tmp_path, capsys):
    folder = RunFolder(tmp_path / "run")
    options = ["--training.epochs", "4", "--training.patience", "1"]
    options += ["--training.learning_rate", "1e-12"]
    assert run("train", recipe(QUICK + FROZEN), *options, "--run", folder.path) == 0
    epochs = folder.metrics()["epochs"]
    assert epochs == 2
    resume = ["train", "--resume", folder.path]
    assert run(*resume, "--training.epochs", epochs) == 1
    assert f"training.epochs must be more, received {epochs}" in capsys.readouterr().err
    assert run(*resume, "--training.epochs", "9") == 1
    assert "Give it a larger --training.patience" in capsys.readouterr().err
    assert folder.recipe().training.epochs == 4
    assert run(*resume, "--training.epochs", "3", "--training.patience", "null") == 0
    assert folder.metrics()["epochs"] == 3 and folder.recipe().training.patience is None
    folder.checkpoint_path.unlink()
    assert run(*resume, "--training.epochs", "5") == 1
    assert "has a history but no checkpoint" in capsys.readouterr().err


def test_a_run_starts_from_the_model_of_another(recipe, tmp_path, capsys):
    first, second = RunFolder(tmp_path / "first"), RunFolder(tmp_path / "second")
    path = recipe(QUICK + FROZEN)
    assert run("train", path, "--run", first.path) == 0
    start = ["train", path, "--initial_run", first.path, "--run", second.path]
    assert run(*start, "--seed", "5", "--training.learning_rate", "1e-12") == 0
    metrics = first.metrics()
    best = metrics["best_val_map_at_r"]
    assert second.metrics()["untrained"]["val_map_at_r"] == pytest.approx(best, abs=1e-6)
    assert second.recipe().initial_run == str(first.path)
    models = [folder.learner(compile=False).embedder for folder in (first, second)]
    images = np.random.default_rng(0).uniform(0, 255, (2, 16, 16, 1))
    np.testing.assert_allclose(models[0](images), models[1](images), atol=1e-5)
    for command in ("train", "check"):
        start = [command, *start[1:4], "--run", tmp_path / "third", "--embedding.dim", "4"]
        assert run(*start) == 1
        printed = "".join(capsys.readouterr())
        assert "does not fit" in printed and "embedding.dim is 8 there and 4 here" in printed
