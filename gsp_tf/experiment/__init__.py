"""From a recipe to a run folder with a trained, evaluated model and its report."""

from typing import TYPE_CHECKING

from gsp_tf.lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.experiment.check import check_recipe
    from gsp_tf.experiment.choices import choices_text, choose_recipe
    from gsp_tf.experiment.comparison import Comparison
    from gsp_tf.experiment.data import Splits, load_folds, load_images, load_splits
    from gsp_tf.experiment.ensemble import (
        evaluate_ensemble,
        model_folders,
        resume_ensemble,
        train_ensemble,
    )
    from gsp_tf.experiment.evaluate import evaluate_run
    from gsp_tf.experiment.folder import RunFolder
    from gsp_tf.experiment.model import build_embedder, build_learner
    from gsp_tf.experiment.place_maps import place_maps
    from gsp_tf.experiment.report import report_runs
    from gsp_tf.experiment.run import resume_run, train_recipe

__all__ = [
    "Comparison",
    "RunFolder",
    "Splits",
    "build_embedder",
    "build_learner",
    "check_recipe",
    "choices_text",
    "choose_recipe",
    "evaluate_ensemble",
    "evaluate_run",
    "load_folds",
    "load_images",
    "load_splits",
    "model_folders",
    "place_maps",
    "report_runs",
    "resume_ensemble",
    "resume_run",
    "train_ensemble",
    "train_recipe",
]

import_lazily(__name__)
