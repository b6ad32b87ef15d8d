"""The network that a run starts from, measured without training, and what training adds."""

import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import replace

import keras
import numpy as np

from gsp_tf._console import show_progress
from gsp_tf._files import replacing
from gsp_tf.evaluation import Estimate, RankingMetrics, ranking_metrics
from gsp_tf.experiment._initial import start_from
from gsp_tf.experiment.data import Splits, evaluation_batches, load_splits
from gsp_tf.experiment.errors import reason
from gsp_tf.experiment.model import build_backbone, build_embedder
from gsp_tf.layers import L2Normalization
from gsp_tf.recipe import Recipe
from gsp_tf.training import embed
from gsp_tf.visual import display_name

_LABELS = "labels"
ADVICE = "docs/finetuning.md says what to change."


def _is_pretrained(recipe):
    """Whether a recipe trains embeddings from weights that are not random."""
    weights = recipe.backbone.weights is not None or recipe.initial_run is not None
    return weights and recipe.trainer != "classification"


def frozen_name(recipe: Recipe) -> str:
    """The name of the metrics of `frozen_metrics` in tables.

    Args:
        recipe: the recipe.

    Example:
        >>> frozen_name(Recipe())
        'frozen network'
    """
    return "frozen network" if recipe.initial_run is None else "initial run"


def frozen_metrics(recipe: Recipe, splits: Splits | None = None) -> RankingMetrics:
    """Retrieval of a recipe's test images by the network that it starts from, without training.

    The embeddings are the features of the backbone, averaged over their places and divided by their
    length. With `initial_run` they are those of that run's model.

    Args:
        recipe: its data, its backbone, `initial_run` and `evaluation.recall_at` count.
        splits: its images, if they are loaded already.

    Returns:
        `RankingMetrics`, for means with intervals, and for comparisons with `minus`.

    Raises:
        ValueError: if the data or the weights cannot be used.

    Example:
        >>> from gsp_tf.recipe import BackboneRecipe, DataRecipe
        >>> recipe = Recipe(data=DataRecipe(image_size=24), backbone=BackboneRecipe("conv4"))
        >>> sorted(frozen_metrics(recipe).means())[:2]
        ['map_at_1', 'map_at_2']
    """
    splits = load_splits(recipe) if splits is None else splits
    model = _frozen_network(recipe, splits.test.channels)
    searched = []
    for name, images in (("test", splits.test), ("gallery", splits.gallery)):
        if images is None:
            searched += [None, None]
            continue
        batches = evaluation_batches(recipe, images)
        description = f"Embedding the {name} images by the {frozen_name(recipe)}"
        searched += embed(model, show_progress(batches, description, len(batches)))
    return ranking_metrics(*searched, at=recipe.evaluation.recall_at)


def _frozen_network(recipe, channels):
    """The model of the embeddings before training."""
    if recipe.initial_run is not None:
        embedder = build_embedder(recipe, channels)
        start_from(recipe, embedder)
        return embedder
    size = recipe.data.image_size
    backbone = build_backbone(replace(recipe, head=None), (size, size, channels))
    features = backbone.outputs[-1]  # the patch tokens, after a class token
    is_set = len(features.shape) == 3
    pooling = keras.layers.GlobalAveragePooling1D if is_set else keras.layers.GlobalAveragePooling2D
    return keras.Model(backbone.input, L2Normalization()(pooling()(features)))


def kept_frozen_metrics(run) -> RankingMetrics | None:
    """`frozen_metrics` of the test images of a run, computed once; None for random weights."""
    if not _is_pretrained(run.recipe):
        return None
    path = run.folder.frozen_path
    found = _read(path, run.splits.test.labels)
    if found is not None:
        return found
    try:
        found = frozen_metrics(run.recipe, run.splits)
    except (ImportError, OSError, ValueError) as error:  # the weights may be elsewhere by now
        warnings.warn(
            f"The network that the training of {run.folder.path} started from is not there to "
            f"compare with: {reason(error)}",
            stacklevel=2,
        )
        return None
    with replacing(path) as temporary:
        np.savez(temporary, **found.values, **{_LABELS: found.labels})
    return found


def _read(path, labels):
    """Metrics from a file; None if it is not there, damaged, or of other queries."""
    try:
        with np.load(path) as arrays:
            values = dict(arrays)
        same = np.array_equal(values.pop(_LABELS), labels)
        return RankingMetrics(values, labels) if same else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def gain_entries(tuned: RankingMetrics, frozen: RankingMetrics, names: list[str]) -> dict:
    """Entries of `metrics.json`: the frozen network, and the differences that training made."""
    entries = {}
    for key, metrics in (("frozen", frozen), ("gain", tuned.minus(frozen))):
        means = {name: found for name, found in metrics.means().items() if name in names}
        entries[key] = {name: found.value for name, found in means.items()}
        entries[f"{key}_intervals"] = {
            name: [found.low, found.high] for name, found in means.items() if np.isfinite(found.low)
        }
    return entries


def gain_of(recipe: Recipe, metrics: Mapping) -> tuple[str, Estimate] | None:
    """The metric that chooses the model and what training added to it, from `metrics.json`."""
    name = "precision_at_1" if recipe.monitor == "val_recall_at_1" else "map_at_r"
    if name not in metrics.get("gain", {}):
        return None
    ends = metrics["gain_intervals"].get(name, (np.nan, np.nan))
    return name, Estimate(metrics["gain"][name], *ends)


def helped(gain: Estimate) -> bool:
    """Whether a difference, and all of its interval if it has one, is above 0."""
    return min(gain.value, np.nan_to_num(gain.low, nan=gain.value)) > 0


def gain_text(recipe: Recipe, metrics: Mapping) -> str | None:
    """What training added to the network that it started from, in a sentence or two."""
    found = gain_of(recipe, metrics)
    if found is None:
        return None
    name, gain = found
    queries = f"over the same {metrics['test']['num_queries']:,} queries"
    difference = f"{100 * gain.value:+.1f}"
    if np.isfinite(gain.low):
        difference += f" [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
        queries += " (95 % interval from resampled classes)"
    shown = "Recall@1" if name == "precision_at_1" else display_name(name)
    fact = (
        f"{shown} is {100 * metrics['test'][name]:.1f} %, and that of the {frozen_name(recipe)} is "
        f"{100 * metrics['frozen'][name]:.1f} %: a difference of {difference} points {queries}."
    )
    if helped(gain):
        return f"Training made retrieval better. {fact}"
    is_worse = max(gain.value, np.nan_to_num(gain.high, nan=gain.value)) < 0
    judged = "made retrieval worse" if is_worse else "is not shown to make retrieval better"
    return f"Training {judged}. {fact} {ADVICE}"
