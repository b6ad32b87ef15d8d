"""Modules in the place of wandb and mlflow, with the same names, which remember what they get.

The real packages are large. They were run by hand, offline, with the recipes of the tests.
"""

import itertools
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import keras


def install(monkeypatch):
    """Puts the modules in their places; returns the runs by tracker and identifier.

    `broken` is an epoch that wandb does not take.
    """
    runs = SimpleNamespace(wandb={}, mlflow={}, broken=None)
    for name, contents in {**_wandb(runs), **_mlflow(runs)}.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    return runs


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
