"""The callbacks that a recipe names: trackers of experiments and those of Keras."""

import itertools
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import keras
import pytest
from digit_runs import run_command

from gsp_tf._files import read_sealed_json
from gsp_tf.recipe import load_recipe, save_recipe
from gsp_tf.runs import Run, RunFolder

CALLBACKS = """
training: {epochs: 3, steps_per_epoch: 1, warmup_epochs: 1, learning_rate_multipliers: {"k|b": 2}}
callbacks:
  wandb: {project: birds, group: a, mode: offline}
  mlflow: {tracking_uri: "sqlite:///runs.db"}
  csv_logger: {filename: mine.csv}
  model_checkpoint: {filepath: "epoch {epoch}.keras"}
  early_stopping: {monitor: loss, mode: max, patience: 2}
  tensor_board: {histogram_freq: 1}
"""


def _kept(name, place):
    """A run of a tracker: its parameters, pairs of epoch and metrics, results and how it ended."""
    return SimpleNamespace(
        name=name, place=place, parameters={}, epochs=[], results={}, status="running"
    )


def _wandb(runs):
    active, numbers = [], itertools.count()

    def init(*, entity, project, group, mode, dir, id, name, config, allow_val_change, resume):
        assert not active and (resume == "allow") == (id is not None)
        id = id or f"run{next(numbers)}"
        kept = runs.wandb.setdefault(id, _kept(name, (entity, project, group, mode, dir)))
        kept.parameters |= config
        active.append(kept)
        return SimpleNamespace(id=id, summary=kept.results, finish=finish)

    def finish(exit_code):
        active.pop().status = exit_code

    class WandbMetricsLogger(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if runs.broken == epoch:
                raise RuntimeError("the server\ndoes not answer")
            rate = float(self.model.optimizer.learning_rate)
            active[0].epochs.append((epoch, {**logs, "rate": rate}))

    callbacks = {"WandbMetricsLogger": WandbMetricsLogger}
    return {"wandb": {"init": init}, "wandb.integration": {}, "wandb.integration.keras": callbacks}


def _mlflow(runs):
    places, active, numbers = [None], [], itertools.count()

    def start_run(*, run_id, run_name):
        assert not active
        run_id = run_id or f"{next(numbers):032x}"
        active.append(runs.mlflow.setdefault(run_id, _kept(run_name, places[-1])))
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id))

    def log_params(params):
        if len(params) > 100 or set(params) & set(active[0].parameters):
            raise ValueError("INVALID_PARAMETER_VALUE")
        active[0].parameters |= params

    def end_run(status):
        active.pop().status = status

    class MlflowCallback(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            active[0].epochs.append((epoch, dict(logs)))

    functions = {
        "set_tracking_uri": places.append,
        "set_experiment": lambda name: None,
        "log_metrics": lambda metrics: active[0].results.update(metrics),
        "start_run": start_run,
        "log_params": log_params,
        "end_run": end_run,
    }
    return {"mlflow": functions, "mlflow.keras": {"MlflowCallback": MlflowCallback}}


@pytest.fixture
def trackers(monkeypatch):
    """Runs by tracker and identifier, which modules in the place of wandb and mlflow remember.

    `broken` is an epoch that wandb does not take. The real packages, which are large, were run by
    hand, offline, with the recipes of the tests.
    """
    runs = SimpleNamespace(wandb={}, mlflow={}, broken=None)
    for name, contents in {**_wandb(runs), **_mlflow(runs)}.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    return runs


def test_a_run_and_its_continuation_are_one_run_of_each_tracker(
    trackers, write_recipe, without_pages, tmp_path
):
    folder = RunFolder(tmp_path / "run")
    assert run_command("train", write_recipe(CALLBACKS), "--run", folder.path) == 0
    command = ("train", "--resume", folder.path, "--training.epochs", "4")
    assert run_command(*command) == 0
    ((wandb_id, wandb),), ((mlflow_id, mlflow),) = trackers.wandb.items(), trackers.mlflow.items()
    kept = read_sealed_json(folder.trackers_path, "")
    assert kept == {"wandb": wandb_id, "mlflow": mlflow_id}
    assert (wandb.name, wandb.status, mlflow.status) == ("digits", 0, "FINISHED")
    assert wandb.place == (None, "birds", "a", "offline", str(folder.path))
    assert mlflow.place == "sqlite:///runs.db"
    assert wandb.parameters["training"]["epochs"] == 4  # the run that continues has more
    assert wandb.parameters["callbacks"]["wandb"]["project"] == "birds"
    assert mlflow.parameters["training.epochs"] == 3 and len(mlflow.parameters) > 100
    assert mlflow.parameters["training.learning_rate_multipliers"] == {"k|b": 2.0}
    history, metrics = folder.history(), folder.metrics()
    for kept in (wandb, mlflow):
        # The last epoch of the first run is repeated.
        values = {epoch: logs["val_map_at_r"] for epoch, logs in kept.epochs}
        before = metrics["untrained"]["val_map_at_r"]
        assert values == dict(enumerate([before, *history["val_map_at_r"]]))
        assert [epoch for epoch, _ in kept.epochs] == [0, 1, 2, 3, 3, 4]
        assert kept.results["test/map_at_r"] == metrics["test"]["map_at_r"]
        ends = [kept.results[f"test/map_at_r_{end}"] for end in ("low", "high")]
        assert ends == metrics["test_intervals"]["map_at_r"]
        assert kept.results["best_val_map_at_r"] == metrics["best_val_map_at_r"]
    lines = (folder.path / "mine.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["epoch", "0", "1", "2", "2", "3"]
    saved = sorted(path.name for path in folder.path.glob("epoch *.keras"))
    assert saved == ["epoch 2.keras", "epoch 3.keras", "epoch 4.keras"]  # after the warm-up


def test_a_named_callback_ends_training(write_recipe, tmp_path):
    stop = "{early_stopping: {monitor: learning_rate, mode: max, patience: 1}}"
    short = ["--training.epochs", "9", "--training.steps_per_epoch", "1"]
    run = Run(tmp_path / "run", load_recipe(write_recipe(f"callbacks: {stop}"), short))
    seen = []
    follow = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(set(logs)))
    run.fit([follow])
    assert run.status == "finished" and run.folder.metrics()["epochs"] == len(seen) == 2
    assert seen[0] > {"val_map_at_r", "learning_rate", "loss"}
    assert "test" not in run.folder.metrics() and not run.folder.embeddings_path.exists()


def test_later_files_and_options_add_callbacks_and_change_their_fields(tmp_path):
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    files[0].write_text("callbacks: {wandb: {project: a, group: b}, mlflow: {}}")
    files[1].write_text("callbacks: {wandb: {project: c}, early_stopping: {patience: 2}}")
    recipe = load_recipe(files, ["--callbacks", "{mlflow: null, wandb: {mode: offline}}"])
    assert list(recipe.callbacks) == ["wandb", "early_stopping"]
    given = {"project": "c", "entity": None, "group": "b", "mode": "offline"}
    assert recipe.callbacks["wandb"] == given
    assert recipe.callbacks["early_stopping"]["monitor"] == "val_loss"
    save_recipe(recipe, tmp_path / "all.yaml")
    assert load_recipe(tmp_path / "all.yaml", resolve=False) == recipe


def test_a_missing_package_is_named_before_training(write_recipe, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    recipe = write_recipe("callbacks: {wandb: {}}")
    assert run_command("train", recipe, "--run", tmp_path / "run") == 1
    assert 'WandbTracker needs wandb: pip install ".[trackers]"' in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_training_goes_on_without_a_tracker_that_fails_in_an_epoch(
    trackers, write_recipe, without_pages, tmp_path, capsys
):
    trackers.broken = 2
    recipe = write_recipe("callbacks: {wandb: {}, mlflow: {}}")
    short = ("--training.epochs", "3", "--training.steps_per_epoch", "1")
    assert run_command("train", recipe, "--run", tmp_path / "run", *short) == 0
    notes = capsys.readouterr().err
    assert notes.count("wandb") == 1 and "did not accept epoch 2; later epochs" in notes
    metrics = RunFolder(tmp_path / "run").metrics()
    assert (metrics["status"], metrics["epochs"]) == ("finished", 3)
    (wandb,), (mlflow,) = trackers.wandb.values(), trackers.mlflow.values()
    assert [epoch for epoch, _ in wandb.epochs] == [0, 1] and wandb.results == {}
    assert [epoch for epoch, _ in mlflow.epochs] == [0, 1, 2, 3] and mlflow.status == "FINISHED"
