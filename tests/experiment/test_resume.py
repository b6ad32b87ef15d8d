"""Runs that are stopped in every way, and end as if they had not been."""

import functools
import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from runs import run_command as run

from gsp_tf.experiment import Run, RunFolder
from gsp_tf.training import epoch_of

WARM_UP = """
loss: {name: contrastive}
miner: {name: distance_weighted}
training:
  epochs: 6
  steps_per_epoch: 4
  warmup_epochs: 2
  adapt_batches: 1
  deterministic: true
  patience: 3
  schedule: {name: plateau, patience: 1, min_delta: 0.5, cooldown: 0}
pooling: {name: gsp, num_prototypes: 4}
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


# Runs the commands that it reads one after another, and answers with exit code and output.
WORKER = """
import contextlib, io, json, sys
import keras
from gsp_tf.cli import main

for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
        try:
            main(json.loads(line))
        except SystemExit as exit:
            code = exit.code
    keras.backend.clear_session()
    print(json.dumps([code, printed.getvalue()]), flush=True)
"""


@pytest.fixture(scope="module")
def train():
    """Function that trains in another process, where operations may be deterministic."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", WORKER], **pipes) as worker:

        def call(*arguments):
            worker.stdin.write(json.dumps(["train", *map(str, arguments)]) + "\n")
            worker.stdin.flush()
            code, printed = json.loads(worker.stdout.readline())
            assert code == 0, printed

        yield call
        worker.stdin.close()


def train_and_stop(where, count, *arguments, code, expected):
    """Train in a process of its own that comes to its end at a place; what it prints."""
    process = subprocess.run(
        [sys.executable, "-c", code, *map(str, (where, count, "train", *arguments))],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        # A test suite that runs in the background may have been told to ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.returncode == expected, process.stdout
    return process.stdout


@pytest.fixture(scope="module")
def recipe(write_recipe):
    return functools.cache(write_recipe)


@pytest.fixture(scope="module")
def whole_run(recipe, train, tmp_path_factory):
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


@pytest.mark.parametrize(
    ("sections", "where", "count", "continues_from"),
    [
        pytest.param(WARM_UP, "step", 6, 1, id="warm-up, in an epoch"),
        pytest.param(
            WARM_UP, "checkpoint.npz", 5, 3, id="plateau, writing the checkpoint", marks=EVIDENCE
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
def test_a_killed_run_continues_and_ends_as_if_it_had_not_been(
    recipe, whole_run, train, tmp_path, sections, where, count, continues_from
):
    path, whole = recipe(sections), whole_run(sections)
    stopped = RunFolder(tmp_path / "stopped")
    expected = 1 if where.startswith("full disk") else -signal.SIGKILL
    command = (where, count, path, "--run", stopped.path)
    output = train_and_stop(*command, code=STOP, expected=expected)
    if where.startswith("full disk"):
        assert "gsp-tf: error:" in output and "Traceback" not in output
    assert stopped.metrics().get("status") in ("running", "failed")
    assert stopped.learner().embedder.output_shape == (None, 8)
    first_epoch = epoch_of(stopped.checkpoint_path)
    assert continues_from is None or first_epoch == continues_from
    assert first_epoch <= len(stopped.history().get("loss", ())) <= first_epoch + 1
    train("--resume", stopped.path)
    assert results(stopped) == results(whole)
    for ours, theirs in zip(
        stopped.learner().get_weights(), whole.learner().get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert sorted(file.name for file in stopped.path.iterdir()) == sorted(
        file.name for file in whole.path.iterdir()
    )


QUICK = """
loss: {name: contrastive}
training: {epochs: 2, steps_per_epoch: 2}
"""


@pytest.fixture(scope="module")
def interrupted(recipe, tmp_path_factory):
    """A run that Ctrl-C stopped in its second epoch, to be copied."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gsp_tf.training.StopOnNaN.on_train_batch_end", _interrupt_in(1))
        assert run("train", recipe(QUICK), "--run", folder.path) == 130
    return folder


@pytest.fixture
def stopped(interrupted, tmp_path):
    """A run with a checkpoint."""
    return RunFolder(shutil.copytree(interrupted.path, tmp_path / "run"))


def test_ctrl_c_and_on(recipe, stopped, tmp_path, monkeypatch):
    whole, folder = RunFolder(tmp_path / "whole"), stopped
    assert run("train", recipe(QUICK), "--run", whole.path) == 0
    assert folder.metrics()["status"] == "interrupted" and folder.checkpoint_path.exists()
    assert folder.metrics()["test"]["num_queries"] == 60
    assert "interrupted after 1 epoch" in folder.report_path.read_text("utf-8")
    with monkeypatch.context() as patch:  # stopped again, in the evaluation
        patch.setattr(Run, "evaluate", _fail)
        assert run("train", "--resume", folder.path) == 1
    assert "test" not in folder.metrics()
    history = folder.history()
    assert run("train", "--resume", folder.path) == 0
    assert folder.history() == history
    assert folder.metrics()["status"] == "finished" and folder.metrics()["epochs"] == 2
    assert epoch_of(folder.checkpoint_path) == 1
    assert folder.metrics()["test"] == pytest.approx(whole.metrics()["test"], abs=0.02)
    assert folder.history()["loss"] == pytest.approx(whole.history()["loss"], rel=1e-3)


def test_two_signals_and_on_with_the_flag_for_determinism(recipe, whole_run, train, tmp_path):
    path, whole = recipe(WARM_UP.replace("  deterministic: true\n", "")), whole_run(WARM_UP)
    stopped = RunFolder(tmp_path / "stopped")
    begin = ("step", 10, path, "--run", stopped.path, "--deterministic")
    resume = ("step", 6, "--resume", stopped.path)
    for command, name, expected in ((begin, "SIGINT", 130), (resume, "SIGTERM", 143)):
        code = STOP.replace("signal.SIGKILL", f"signal.{name}")
        train_and_stop(*command, code=code, expected=expected)
        assert stopped.recipe().training.deterministic
        assert stopped.metrics()["status"] == "interrupted"
    train("--resume", stopped.path)
    assert results(stopped) == results(whole)


def test_a_stop_before_the_state_is_restored_changes_nothing(stopped, monkeypatch):
    before = {k: v for k, v in stopped.metrics().items() if k != "test"}
    with monkeypatch.context() as patch:
        patch.setattr("gsp_tf.training.StopOnNaN.on_train_begin", _interrupt, raising=False)
        patch.setattr(Run, "evaluate", _fail)
        assert run("train", "--resume", stopped.path) == 1
    assert stopped.metrics() == before
    assert run("train", "--resume", stopped.path) == 0


def test_a_history_without_a_checkpoint_is_not_thrown_away(stopped, capsys):
    stopped.checkpoint_path.unlink()
    assert run("train", "--resume", stopped.path) == 1
    assert "has a history but no checkpoint" in capsys.readouterr().err
    assert len(stopped.history()["loss"]) == 1


def _interrupt(*arguments, **keywords):
    raise KeyboardInterrupt


def _interrupt_in(epoch):
    def on_train_batch_end(self, batch, logs=None):
        if self._epoch == epoch:
            raise KeyboardInterrupt

    return on_train_batch_end


def test_a_finished_run_is_left_alone(trained, tmp_path, capsys):
    folder = RunFolder(shutil.copytree(trained.path, tmp_path / "run"))
    before = results(folder)
    assert run("train", trained.recipe, "--run", folder.path) == 1
    assert f"gsp-tf train --resume {folder.path}" in capsys.readouterr().err
    assert run("train", "--resume", folder.path) == 0
    assert results(folder) == before


def test_a_run_that_another_process_writes_is_left_alone(
    recipe, stopped, tmp_path, capsys, locked_elsewhere
):
    before = {file: file.read_bytes() for file in stopped.path.iterdir() if file.is_file()}
    for command in (["train", "--resume"], ["evaluate"]):
        with locked_elsewhere(stopped.path):
            assert run(*command, stopped.path) == 1
        assert f"Another process is writing {stopped.path}" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in before} == before
    with locked_elsewhere(tmp_path / "new"):
        assert run("train", recipe(QUICK), "--run", tmp_path / "new") == 1
    assert [file.name for file in (tmp_path / "new").iterdir()] == [".lock"]


def test_a_run_killed_before_its_first_epoch_starts_again(recipe, tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("gsp_tf.training.SaveBest.save", _fail)
        assert run("train", recipe(QUICK), "--run", folder.path) == 1
    assert sorted(path.name for path in folder.path.iterdir()) == [".lock", "recipe.yaml"]
    assert run("train", "--resume", folder.path) == 0
    assert folder.metrics()["status"] == "finished" and folder.metrics()["epochs"] == 2


def _fail(*arguments):
    raise OSError("No space left on device")


def test_other_training_images_are_refused(stopped, capsys):
    text = stopped.recipe_path.read_text("utf-8")
    stopped.recipe_path.write_text(text.replace("split_seed: 0", "split_seed: 1"), "utf-8")
    assert run("train", "--resume", stopped.path) == 1
    assert "training images are not those" in capsys.readouterr().err


def test_a_damaged_checkpoint_is_named(stopped, capsys):
    for damage in (b"", b"PK\x03\x04 half a file"):
        stopped.checkpoint_path.write_bytes(damage)
        assert run("train", "--resume", stopped.path) == 1
        assert "checkpoint.npz is damaged, or is not a checkpoint" in capsys.readouterr().err


def test_options_beside_resume_are_refused(tmp_path, capsys):
    assert run("train", "--resume", tmp_path, "--seed", "3") == 1
    assert "--resume takes the recipe of its run folder" in capsys.readouterr().err
    assert run("train", "--resume", tmp_path) == 1
    assert "it has no recipe.yaml" in capsys.readouterr().err


def test_a_finished_run_is_given_more_epochs(recipe, whole_run, train, tmp_path):
    """Its last state continues: the numbers are those of a run of so many epochs from the start."""
    whole, folder = whole_run(WARM_UP), RunFolder(tmp_path / "run")
    train(recipe(WARM_UP), "--run", folder.path, "--training.epochs", "4")
    assert folder.metrics()["status"] == "finished" and folder.metrics()["epochs"] == 4
    train("--resume", folder.path, "--training.epochs", "6")
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


def test_a_run_starts_from_the_model_of_another(trained, tmp_path, capsys):
    first, second = RunFolder(trained.path), RunFolder(tmp_path / "second")
    start = ["train", trained.recipe, "--initial_run", first.path, "--run", second.path]
    unchanged = ["--training.learning_rate", "1e-12", "--training.epochs", "1"]
    unchanged += ["--backbone.freeze_batch_normalization", "true"]
    assert run(*start, "--seed", "5", *unchanged) == 0
    best = first.metrics()["best_val_map_at_r"]
    assert second.metrics()["untrained"]["val_map_at_r"] == pytest.approx(best, abs=1e-6)
    assert second.recipe().initial_run == str(first.path)
    models = [folder.learner(compile=False).embedder for folder in (first, second)]
    images = np.random.default_rng(0).uniform(0, 255, (2, 16, 16, 1))
    for ours, theirs in zip(models[1](images), models[0](images), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    for command in ("train", "check"):
        start = [command, *start[1:4], "--run", tmp_path / "third", "--embedding.dim", "4"]
        assert run(*start) == 1
        printed = "".join(capsys.readouterr())
        assert "does not fit" in printed and "embedding.dim is 8 there and 4 here" in printed
