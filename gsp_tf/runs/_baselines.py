"""What a run is compared with, by name and in numbers; this needs no TensorFlow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gsp_tf._console import counted
from gsp_tf.recipe import Recipe
from gsp_tf.visual import display_name

RUNGS = "rungs"
"""The folder with the runs of a ladder, which are all compared with its frozen network."""

GAINS = {"frozen": "gain", "head": "gain_over_head"}
"""Entries of `metrics.json` for what a run is compared with, and for the differences."""

RESULTS = [
    f"{name}{end}"
    for name in ("test", "test_by_dim", *GAINS, *GAINS.values())
    for end in ("", "_intervals")
]
"""The entries of `metrics.json` that an evaluation writes, and the next one replaces."""


_STOPPED = {
    "interrupted": "was interrupted",
    "diverged": "diverged",
    "failed": "failed",
    "running": "was stopped",
}


class Baseline(NamedTuple):
    """What a run is compared with, and what training added to it."""

    metrics: dict[str, float]
    intervals: dict[str, list[float]]
    gain: dict[str, float]
    gain_intervals: dict[str, list[float]]


def baselines(recipe: Recipe, metrics: Mapping[str, Any]) -> dict[str, Baseline]:
    """What a run is compared with, by its name in tables, from its `metrics.json`.

    The network that it started from, alone and with a linear head; empty for a run that was
    compared with nothing.
    """
    found = {}
    for key, name in ("frozen", frozen_name(recipe)), ("head", "with a linear head"):
        if key in metrics:
            entries = key, f"{key}_intervals", GAINS[key], f"{GAINS[key]}_intervals"
            found[name] = Baseline(*(metrics.get(entry, {}) for entry in entries))
    return found


def untrained_note(metrics: Mapping[str, Any]) -> str | None:
    """Why the model that a run keeps is the one before training; `None` for a trained model.

    Args:
        metrics: contents of its `metrics.json`.

    Example:
        >>> untrained_note({"status": "finished", "epochs": 3, "best_epoch": None})
        'No epoch was better than the untrained model, which is the model of this run.'
        >>> untrained_note({"status": "finished", "epochs": 3, "best_epoch": 2})
    """
    if metrics.get("best_epoch", 0) is not None or metrics.get("status") == "running":
        return None  # killed in `resume`, a process leaves the numbers from before
    if metrics.get("epochs"):
        return "No epoch was better than the untrained model, which is the model of this run."
    if metrics.get("status") == "finished":
        return "It was not trained."
    return "Its training ended before the first epoch was complete: this is the untrained model."


def stop_note(metrics: Mapping[str, Any]) -> str | None:
    """How a training was stopped; `None` for one that ended by itself.

    Args:
        metrics: contents of its `metrics.json`.

    Example:
        >>> stop_note({"status": "interrupted", "epochs": 3, "best_epoch": 2})
        'Training was interrupted after 3 epochs; the model is the best until then.'
        >>> stop_note({"status": "finished", "epochs": 3, "best_epoch": 2})
    """
    status = metrics.get("status")
    if status not in _STOPPED:
        return None
    after = f" after {counted(metrics.get('epochs', 0), 'epoch')}"
    if status == "running":  # a process that was killed has not counted its epochs
        after = " before its end"
    elif status == "diverged" and metrics.get("diverged_at"):
        epoch, step = metrics["diverged_at"]
        after += f" (the loss was not finite in epoch {epoch}, step {step})"
    kept = "" if untrained_note(metrics) else "; the model is the best until then"
    return f"Training {_STOPPED[status]}{after}{kept}."


def best_epoch_note(recipe: Recipe, metrics: Mapping[str, Any]) -> str | None:
    """Which epoch the model of a run is of, and the metric that chose it, before training too.

    Args:
        recipe: the recipe of the run.
        metrics: contents of its `metrics.json`.

    Returns:
        One or more sentences, those of `untrained_note` for an untrained model; `None` if the
        epoch is not known.

    Example:
        >>> kept = {"status": "finished", "epochs": 15, "best_epoch": 5}
        >>> values = {"best_val_map_at_r": 0.5, "untrained": {"val_map_at_r": 0.25}}
        >>> print(best_epoch_note(Recipe(), kept | values))
        Best epoch 5 of 15; 0 is before training. Validation MAP@R is 50.0 %, and 25.0 % in epoch 0.
    """
    untrained = untrained_note(metrics)
    if untrained is not None:
        return untrained
    best, epochs, status = (metrics.get(name) for name in ("best_epoch", "epochs", "status"))
    if not best or not epochs or status == "running":
        return None
    note = f"Best epoch {best} of {epochs}; 0 is before training."
    monitor, before = recipe.monitor, metrics.get("untrained", {})
    if monitor in before and f"best_{monitor}" in metrics:
        name, value = display_name(monitor.removeprefix("val_")), metrics[f"best_{monitor}"]
        note += (
            f" Validation {name} is {100 * value:.1f} %, and {100 * before[monitor]:.1f} % in "
            "epoch 0."
        )
    if best == epochs and status == "finished":
        note += " The last epoch is the best one: longer training may give more."
    return note


def ending_notes(recipe: Recipe, metrics: Mapping[str, Any]) -> list[str]:
    """The notes of a page or a table on how training ended; the stop is part of a verdict."""
    stop = None if GAINS["frozen"] in metrics else stop_note(metrics)
    return [note for note in (stop, best_epoch_note(recipe, metrics)) if note is not None]


def frozen_name(recipe: Recipe) -> str:
    """The name of the metrics of `frozen_metrics` in tables."""
    initial = recipe.initial_run
    is_whole = initial is None or Path(initial).parent.name == RUNGS
    return "frozen network" if is_whole else "initial run"
