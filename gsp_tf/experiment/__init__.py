"""From a recipe to a run folder with a trained, evaluated model and its report."""

from gsp_tf.experiment.data import load_splits
from gsp_tf.experiment.model import build_embedder, build_learner, pooling_weights
from gsp_tf.experiment.report import report_runs
from gsp_tf.experiment.run import RunFolder, evaluate_run, train_recipe

__all__ = [
    "RunFolder",
    "build_embedder",
    "build_learner",
    "evaluate_run",
    "load_splits",
    "pooling_weights",
    "report_runs",
    "train_recipe",
]
