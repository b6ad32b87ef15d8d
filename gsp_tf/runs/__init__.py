"""Turn a recipe into a run folder with a trained, evaluated model and its report."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.runs._baselines import (
        baselines,
        best_epoch_note,
        stop_note,
        untrained_note,
    )
    from gsp_tf.runs._check import check_recipe
    from gsp_tf.runs._demo import run_demo
    from gsp_tf.runs._evaluation import prefix_metrics
    from gsp_tf.runs._facts import recipe_facts
    from gsp_tf.runs._report import print_results
    from gsp_tf.runs._reranking import TokenModel, has_local_features, rerank_run
    from gsp_tf.runs.choices import choices_text, choose_recipe, climbs, ladder_recipes
    from gsp_tf.runs.comparison import Comparison
    from gsp_tf.runs.data import (
        Splits,
        evaluation_batches,
        fingerprint,
        load_folds,
        load_images,
        load_splits,
    )
    from gsp_tf.runs.ensemble import Ensemble, open_run
    from gsp_tf.runs.folder import RunFolder
    from gsp_tf.runs.frozen import frozen_metrics
    from gsp_tf.runs.ladder import Ladder
    from gsp_tf.runs.model import (
        adapt_prototypes,
        build_embedder,
        build_head,
        build_learner,
        features_model,
    )
    from gsp_tf.runs.named import is_run, require_run, run_folder
    from gsp_tf.runs.places import attributes_of_head, maps_of_head, place_maps
    from gsp_tf.runs.pretrained import frozen_recipe, pretrained_run
    from gsp_tf.runs.run import Run, report_runs

__all__ = [
    "Comparison",
    "Ensemble",
    "Ladder",
    "Run",
    "RunFolder",
    "Splits",
    "best_epoch_note",
    "build_embedder",
    "build_learner",
    "choose_recipe",
    "frozen_metrics",
    "ladder_recipes",
    "load_splits",
    "open_run",
    "place_maps",
    "pretrained_run",
    "report_runs",
    "run_folder",
    "stop_note",
    "untrained_note",
]

import_lazily(__name__)
