"""Modules in the place of wandb and mlflow, with the same signatures, which remember what they get.

The real packages are large. They were run by hand, offline, with the recipes of the tests.
"""

import itertools
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import keras


class Kept:
    """A run of a tracker: parameters, values by step, results and how it ended."""

    def __init__(self, name):
        self.name, self.parameters, self.epochs, self.results = name, {}, [], {}
        self.status = "running"

    def values(self, metric):
        """Pairs of an epoch and a value."""
        return [(epoch, logs[metric]) for epoch, logs in self.epochs if metric in logs]


def install(monkeypatch):
    """Puts the modules in their places; returns the runs by tracker and identifier."""
    runs = SimpleNamespace(wandb={}, mlflow={}, broken=None)
    modules = {**_wandb(runs), **_mlflow(runs)}
    for name, module in modules.items():
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    return runs


def _wandb(runs):
    wandb, numbers = ModuleType("wandb"), itertools.count()
    integration, callbacks = (
        ModuleType(f"wandb.{n}") for n in ("integration", "integration.keras")
    )
    wandb.run = None

    class Run:
        def __init__(self, id):
            self.id, self.summary = id, runs.wandb[id].results

        def finish(self, exit_code=None, quiet=None):
            _break(runs, "finish", 1)
            runs.wandb[self.id].status = exit_code
            wandb.run = None

    def init(
        entity=None,
        project=None,
        dir=None,
        id=None,
        name=None,
        config=None,
        allow_val_change=None,
        group=None,
        mode=None,
        resume=None,
    ):
        _break(runs, "init")
        assert wandb.run is None and (resume == "allow") == (id is not None)
        id = id or f"run{next(numbers)}"
        runs.wandb.setdefault(id, Kept(name)).parameters |= config
        runs.wandb[id].place = (entity, project, group, mode, dir)
        wandb.run = Run(id)
        return wandb.run

    class WandbMetricsLogger(keras.callbacks.Callback):
        def __init__(self, log_freq="epoch", initial_global_step=0):
            super().__init__()
            assert wandb.run is not None

        def on_epoch_end(self, epoch, logs=None):
            _break(runs, epoch)
            rate = float(self.model.optimizer.learning_rate)
            runs.wandb[wandb.run.id].epochs.append((epoch, {**logs, "rate": rate}))

    wandb.init, callbacks.WandbMetricsLogger = init, WandbMetricsLogger
    return {m.__name__: m for m in (wandb, integration, callbacks)}


def _mlflow(runs):
    mlflow, callbacks, numbers = ModuleType("mlflow"), ModuleType("mlflow.keras"), itertools.count()
    active = []

    def start_run(run_id=None, experiment_id=None, run_name=None, nested=False):
        assert not active
        run_id = run_id or f"{next(numbers):032x}"
        runs.mlflow.setdefault(run_id, Kept(run_name)).place = mlflow.place
        active.append(runs.mlflow[run_id])
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id))

    def log_params(params, synchronous=None, run_id=None):
        if len(params) > 100 or set(params) & set(active[0].parameters):
            raise ValueError("INVALID_PARAMETER_VALUE")
        active[0].parameters |= params

    def end_run(status="FINISHED"):
        active.pop().status = status

    class MlflowCallback(keras.callbacks.Callback):
        def __init__(self, log_every_epoch=True, log_every_n_steps=None, model_id=None):
            super().__init__()

        def on_epoch_end(self, epoch, logs=None):
            active[0].epochs.append((epoch, dict(logs)))

    mlflow.place = None
    mlflow.set_tracking_uri = lambda uri: setattr(mlflow, "place", uri)
    mlflow.set_experiment = lambda experiment_name=None, experiment_id=None: None
    mlflow.log_metrics = lambda metrics, step=None: active[0].results.update(metrics)
    mlflow.start_run, mlflow.log_params, mlflow.end_run = start_run, log_params, end_run
    callbacks.MlflowCallback = MlflowCallback
    return {m.__name__: m for m in (mlflow, callbacks)}


def _break(runs, *places):
    if runs.broken in places:
        raise RuntimeError("the server\ndoes not answer")
