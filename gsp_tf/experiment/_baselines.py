"""What a run is compared with, by name and in numbers; this needs no TensorFlow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gsp_tf.recipe import Recipe

RUNGS = "rungs"
"""The folder with the runs of a ladder, which are all compared with its frozen network."""

GAINS = {"frozen": "gain", "head": "gain_over_head"}
"""Entries of `metrics.json` for what a run is compared with, and for the differences."""


class Baseline(NamedTuple):
    """What a run is compared with, and what training added to it.

    Attributes:
        metrics: its metrics on the queries of the run, as shares.
        gain: the run's metrics minus these.
        gain_intervals: low and high end of the 95 % intervals of `gain`, where there are some.

    Example:
        >>> Baseline({"map_at_r": 0.5}, {"map_at_r": 0.1}, {}).gain
        {'map_at_r': 0.1}
    """

    metrics: dict[str, float]
    gain: dict[str, float]
    gain_intervals: dict[str, list[float]]


def baselines(recipe: Recipe, metrics: Mapping[str, Any]) -> dict[str, Baseline]:
    """What a run is compared with: the network that it started from, alone and with a linear head.

    Args:
        recipe: the recipe of the run.
        metrics: contents of its `metrics.json`.

    Returns:
        `Baseline` by its name in tables; empty for a run that was compared with nothing.

    Example:
        >>> kept = {"frozen": {"map_at_r": 0.5}, "gain": {"map_at_r": 0.1}, "gain_intervals": {}}
        >>> list(baselines(Recipe(), kept))
        ['frozen network']
    """
    return {
        name: Baseline(metrics[key], metrics[GAINS[key]], metrics[f"{GAINS[key]}_intervals"])
        for key, name in baseline_names(recipe).items()
        if GAINS[key] in metrics
    }


def baseline_names(recipe: Recipe) -> dict[str, str]:
    """The names in tables of what a run is compared with, by their entries of `metrics.json`."""
    return {"frozen": frozen_name(recipe), "head": "with a linear head"}


def untrained_note(metrics: Mapping[str, Any]) -> str | None:
    """Why the model that a run keeps is the one before training; `None` for a trained model.

    Args:
        metrics: contents of its `metrics.json`.

    Example:
        >>> untrained_note({"status": "finished", "epochs": 3, "best_epoch": None})
        'No epoch was better than the untrained model, which is the model of this run.'
        >>> untrained_note({"status": "finished", "epochs": 3, "best_epoch": 2})
    """
    if metrics.get("best_epoch", 0) is not None:
        return None
    if metrics.get("epochs"):
        return "No epoch was better than the untrained model, which is the model of this run."
    if metrics.get("status") == "finished":
        return "It was not trained."
    return "Its training ended before the first epoch was complete: this is the untrained model."


def frozen_name(recipe: Recipe) -> str:
    """The name of the metrics of `frozen_metrics` in tables."""
    initial = recipe.initial_run
    is_whole = initial is None or Path(initial).parent.name == RUNGS
    return "frozen network" if is_whole else "initial run"
