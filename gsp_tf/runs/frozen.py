"""The network that a run starts from, alone and with a linear head, and what training adds."""

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import keras
import numpy as np
from scipy.linalg import cholesky, solve_triangular

from gsp_tf._console import show_progress
from gsp_tf._files import reading_arrays, reason, replacing
from gsp_tf.data import ImageSet, class_by_class
from gsp_tf.evaluation import Estimate, RankingMetrics, intervals, ranking_metrics, unit_vectors
from gsp_tf.recipe import Recipe
from gsp_tf.runs._baselines import GAINS, frozen_name, stop_note, untrained_note
from gsp_tf.runs._evaluation import embed_splits
from gsp_tf.runs._initial import start_from
from gsp_tf.runs._inputs import FeatureInputs, ImageInputs, evaluation_inputs
from gsp_tf.runs.data import Splits, load_splits
from gsp_tf.runs.model import build_embedder
from gsp_tf.runs.pretrained import frozen_recipe
from gsp_tf.training import embed
from gsp_tf.visual import display_name

_OF = "of"
_FITTED = 10_000
"""Most training images that a linear head is fitted to."""
_FEW = 10
"""Classes, of which fewer are a poor sample to resample."""
ADVICE = (
    "Train less of the network (backbone.lora.rank, backbone.frozen_to, gsp-tf adapt), or change "
    "it more slowly (training.learning_rate, warmup_epochs, lowest_layer_multiplier, ema_momentum)."
)


def frozen_metrics(recipe: Recipe, splits: Splits | None = None) -> RankingMetrics:
    """Retrieval of a recipe's test images by the network that it starts from, without training.

    The embeddings are the features of the backbone, averaged over their places and divided by their
    length. With `initial_run` they are those of that run's model.

    Args:
        recipe: its data, its backbone, `initial_run` and `evaluation.recall_at` count.
        splits: its images, if they are loaded already.

    Returns:
        `RankingMetrics`, for means with intervals, and for comparisons with `minus`.

    Example:
        >>> from gsp_tf.recipe import BackboneRecipe, DataRecipe
        >>> data = DataRecipe(image_size=24, split_fractions=(0.9, 0.05, 0.05))
        >>> recipe = Recipe(data=data, backbone=BackboneRecipe("conv4"))
        >>> sorted(frozen_metrics(recipe).means())[:2]
        ['map_at_1', 'map_at_2']
    """
    return _StartingNetwork(recipe, load_splits(recipe) if splits is None else splits).metrics()


class _StartingNetwork:
    """The network that a recipe starts from; it embeds the test images once."""

    def __init__(self, recipe, splits):
        self.recipe, self.splits = recipe, splits

    @functools.cached_property
    def _model(self):
        recipe, channels = self.recipe, self.splits.test.channels
        if recipe.initial_run is None:
            return build_embedder(frozen_recipe(recipe), channels)
        embedder = build_embedder(recipe, channels)
        start_from(recipe, embedder)
        return embedder

    @functools.cached_property
    def _searched(self):
        """Embeddings and labels of the test images, and of the gallery if there is one."""
        how = f" by the {frozen_name(self.recipe)}"
        return embed_splits(self._evaluated, self.splits, self._model, how)

    @property
    def _evaluated(self):
        """The recipe, without features on disk if they are not those of this network."""
        recipe, ours = self.recipe, frozen_recipe(self.recipe)
        same = recipe.backbone.frozen_to == ours.backbone.frozen_to
        same = same and recipe.training.precision == ours.training.precision
        if same or recipe.initial_run is not None:
            return recipe
        return replace(recipe, data=replace(recipe.data, feature_cache=None))

    def metrics(self):
        return ranking_metrics(*self._searched, at=self.recipe.evaluation.recall_at)

    def head_metrics(self):
        """The metrics with a linear head that is fitted to the training images."""
        model, inputs = evaluation_inputs(self._evaluated, self._model)
        how = f"Embedding training images by the {frozen_name(self.recipe)}"
        head = _linear_head(*_embed_some(model, inputs, self.splits.train, how))
        queries, labels, references, reference_labels = self._searched
        references = None if references is None else head(references)
        searched = head(queries), labels, references, reference_labels
        return ranking_metrics(*searched, at=self.recipe.evaluation.recall_at)


def _embed_some(model, inputs, images, description):
    """Vectors and labels of the training images that a linear head is computed from."""
    chosen = class_by_class(images.labels)
    classes = images.labels[chosen[: _FITTED // 2]]  # so few that each has several images
    chosen = chosen[np.isin(images.labels[chosen], classes)][:_FITTED]
    batches = inputs.evaluation_batches(images, np.sort(chosen))
    return embed(model, show_progress(batches, description, len(batches)))


def head_features(
    embedder: keras.Model, inputs: ImageInputs | FeatureInputs, images: ImageSet
) -> tuple[np.ndarray, np.ndarray]:
    """What the linear map of an embedder maps, of training images `(N, C)`, and their labels."""
    start = embedder.input if inputs.start is None else inputs.start
    mapped = keras.Model(start, embedder.get_layer("embedding").input)
    return _embed_some(mapped, inputs, images, "Computing the linear head")


def whitening_weights(features, labels, dim):
    """The weights of `_whitening` for a layer whose outputs are divided by their length."""
    kernel, bias = _whitening(features, labels, dim)
    size = np.linalg.norm(kernel) / np.sqrt(dim)  # that of an identity is 1: rates fit both
    return kernel / size, bias / size


def class_means(vectors, labels):
    """The mean direction of each class."""
    unit = unit_vectors(vectors)
    means = [unit[labels == label].mean(axis=0) for label in np.unique(labels)]
    return unit_vectors(np.stack(means))


def _whitening(
    features: np.ndarray, labels: np.ndarray, dim: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel `(C, D)` and bias of the map after which features spread alike within their classes.

    Hatch et al., "Within-class covariance normalization for SVM-based speaker recognition",
    Interspeech 2006, with the shrinkage of Ledoit and Wolf: there may be more dimensions than
    images. Distances after it are those of Mahalanobis by the covariance within classes. A smaller
    dimension keeps the directions in which the mapped features vary most.
    """
    from sklearn.covariance import LedoitWolf
    from sklearn.decomposition import PCA

    mean = features.mean(axis=0)
    _, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), len(mean)))
    np.add.at(sums, classes, features)
    within = LedoitWolf(assume_centered=True).fit(features - (sums / sizes[:, None])[classes])
    spread = within.covariance_ + np.finfo("float32").eps * np.eye(len(mean))
    kernel = solve_triangular(cholesky(spread, lower=True), np.eye(len(mean)), lower=True).T
    if dim is not None and dim < len(mean):
        kernel = kernel @ PCA(dim).fit((features - mean) @ kernel).components_.T
    return kernel, -mean @ kernel


def _linear_head(features, labels):
    """The map of `_whitening`, to vectors of length 1."""
    kernel, bias = _whitening(features, labels)
    return lambda inputs: unit_vectors(inputs @ kernel + bias).astype("float32")


def kept_baselines(run) -> dict[str, RankingMetrics]:
    """The metrics that a run is compared with, computed once; none for random weights."""
    recipe, folder = run.recipe, run.folder
    if recipe.initial_run is not None and frozen_name(recipe) == "frozen network":  # a rung
        recipe = replace(recipe, initial_run=None)
    is_random = recipe.backbone.weights is None and recipe.initial_run is None
    if is_random or not recipe.training.epochs or recipe.trainer == "classification":
        return {}
    network, labels = _StartingNetwork(recipe, run.splits), run.splits.test.labels
    # The rungs of a ladder share the files, and have the same network, images and these fields.
    seen = recipe.data.image_size, recipe.data.resize, recipe.evaluation.recall_at
    try:
        of = f"{seen} {run.test_images}"
        found = {"frozen": _kept(folder.frozen_path, of, labels, network.metrics)}
        if recipe.data.classes_per_batch:  # otherwise training knows no classes
            of += run.splits.digest("train")
            found["head"] = _kept(folder.head_path, of, labels, network.head_metrics)
        return found
    except (ImportError, OSError, ValueError) as error:  # the weights may be elsewhere by now
        warnings.warn(
            f"The network that the training of {folder.path} started from is not there to "
            f"compare with: {reason(error)}",
            stacklevel=2,
        )
        return {}


def _kept(path, of, labels, measure):
    """Metrics from a file if they are `of` the same images and fields, or measured and kept."""
    try:
        with reading_arrays(path, "an archive of arrays") as arrays:
            values = dict(arrays)
        if str(values.pop(_OF)) == of:
            return RankingMetrics(values, labels)
    except (OSError, ValueError, KeyError):
        pass  # not there, or damaged
    found = measure()
    with replacing(path) as temporary:
        np.savez(temporary, **found.values, **{_OF: of})
    return found


def gain_entries(
    tuned: RankingMetrics, baselines: Mapping[str, RankingMetrics], names: list[str]
) -> dict:
    """Entries of `metrics.json`: the baselines, and the differences of a trained model to them."""
    entries = {}
    for key, baseline in baselines.items():
        for entry, metrics in ((key, baseline), (GAINS[key], tuned.minus(baseline))):
            means = {name: found for name, found in metrics.means().items() if name in names}
            entries[entry] = {name: found.value for name, found in means.items()}
            entries[f"{entry}_intervals"] = intervals(means)
    return entries


def _gain_of(recipe: Recipe, metrics: Mapping, over: str = "frozen") -> tuple[str, Estimate] | None:
    """The metric that chooses the model and what training added to it, from `metrics.json`."""
    name = "precision_at_1" if recipe.monitor == "val_recall_at_1" else "map_at_r"
    gain = GAINS[over]
    if name not in metrics.get(gain, {}):
        return None
    ends = metrics[f"{gain}_intervals"].get(name, (np.nan, np.nan))
    return name, Estimate(metrics[gain][name], *ends)


def _helped(gain: Estimate) -> bool:
    """Whether a difference, and all of its interval if it has one, is above 0."""
    return min(gain.value, np.nan_to_num(gain.low, nan=gain.value)) > 0


def gain_text(recipe: Recipe, metrics: Mapping) -> str | None:
    """What training added to the network that it started from, in a few sentences.

    A training that was stopped, or whose model is the untrained one, is not judged.
    """
    found = _gain_of(recipe, metrics)
    if found is None:
        return None
    (name, gain), of_head = found, _gain_of(recipe, metrics, "head")
    shown = "Recall@1" if name == "precision_at_1" else display_name(name)
    fact = (
        f"{shown} is {100 * metrics['test'][name]:.1f} %, and that of the {frozen_name(recipe)} is "
        f"{100 * metrics['frozen'][name]:.1f} %: a difference of {_points(gain)} over the same "
        f"{metrics['test']['num_queries']:,} queries"
    )
    fact += " (95 % interval from resampled classes)." if np.isfinite(gain.low) else "."
    if of_head is not None:
        fact += (
            f" With a linear head that is computed from the training images it is "
            f"{100 * metrics['head'][name]:.1f} %, a difference of {_points(of_head[1])}."
        )
    classes = metrics["num_classes"]["test"]
    if classes < _FEW:
        fact += f" {classes} test classes are few: intervals of so few are too narrow."
    untrained, stopped = untrained_note(metrics), stop_note(metrics)
    if untrained is not None:
        fact = f"The model before training: {fact}"
    if untrained is not None or stopped is not None:
        return fact if stopped is None else f"{stopped} {fact}"
    if not _helped(gain):
        is_worse = max(gain.value, np.nan_to_num(gain.high, nan=gain.value)) < 0
        judged = "made retrieval worse" if is_worse else "is not shown to make retrieval better"
    elif of_head is not None and not _helped(of_head[1]):
        judged = "made retrieval better, but not better than a linear head does"
    else:
        return f"Training made retrieval better. {fact}"
    return f"Training {judged}. {fact} {ADVICE}"


def gain_texts(recipe: Recipe, models: Sequence[Mapping]) -> list[str]:
    """What training added to what several models are compared with, from their `metrics.json`."""
    said, missed, name = [], False, frozen_name(recipe)
    untrained = sum(untrained_note(metrics) is not None for metrics in models)
    if untrained:
        said.append(f"{untrained} of {len(models)} models are untrained: no epoch was better.")
    for over, compared in (("frozen", name), ("head", f"{name} with a linear head")):
        found = filter(None, (_gain_of(recipe, metrics, over) for metrics in models))
        gains = sorted(gain for _, gain in found)
        if gains:
            better = sum(map(_helped, gains))
            missed = missed or better < len(gains)
            said.append(
                f"{better} of {len(gains)} models are better than the {compared}: the differences "
                f"are {_points(gains[0])} to {_points(gains[-1])}."
            )
    return [*said, ADVICE] if missed else said


def _points(gain):
    """A difference in percentage points, with its interval."""
    ends = f" [{100 * gain.low:+z.1f}, {100 * gain.high:+z.1f}]" if np.isfinite(gain.low) else ""
    return f"{100 * gain.value:+z.1f}{ends} points"
