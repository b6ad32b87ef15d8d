"""The names of what a run is compared with; they need no TensorFlow."""

from gsp_tf.recipe import Recipe


def baseline_names(recipe: Recipe) -> dict[str, str]:
    """The names in tables of what a run is compared with, by their entries of `metrics.json`."""
    return {"frozen": frozen_name(recipe), "head": "with a linear head"}


def frozen_name(recipe: Recipe) -> str:
    """The name of the metrics of `frozen_metrics` in tables."""
    return "frozen network" if recipe.initial_run is None else "initial run"
