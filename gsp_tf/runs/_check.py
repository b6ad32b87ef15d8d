"""Check what a recipe would run and what is missing."""

import dataclasses
import math
import socket
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from gsp_tf import backbones
from gsp_tf._files import reason, replacing
from gsp_tf._typing import PathLike
from gsp_tf.data import ImageSet, SelectedImages, ViewedImages
from gsp_tf.recipe import Recipe, resolved
from gsp_tf.runs._facts import (
    backbone_bytes,
    data_facts,
    facts_table,
    learner_facts,
    model_facts,
    note_small_map,
    shared_facts,
    training_facts,
)
from gsp_tf.runs._initial import start_from
from gsp_tf.runs._inputs import ImageInputs
from gsp_tf.runs._report import SeenImages
from gsp_tf.runs._trackers import Trackers
from gsp_tf.runs._training import ccp_trainer, check_splits
from gsp_tf.runs.data import load_folds, load_splits, training_view
from gsp_tf.runs.folder import RunFolder
from gsp_tf.runs.model import build_backbone, build_learner
from gsp_tf.visual import view_gallery

_ROWS, _COLUMNS = 8, 6  # of the picture of views
_HOST = "storage.googleapis.com"  # serves the weights of keras.applications


class Check(NamedTuple):
    """What a recipe would run, and what is missing: one message per obstacle."""

    facts: dict[str, str]
    missing: list[str]

    def text(self) -> str:
        """The facts and the missing parts as lines of text."""
        title = f"Missing ({len(self.missing)}):" if self.missing else "Nothing is missing."
        return "\n".join(
            [facts_table(self.facts), "", title, *(f"- {message}" for message in self.missing)]
        )


def check_recipe(
    recipe: Recipe,
    path: PathLike,
    images: ImageSet | None = None,
    augmented: PathLike | None = None,
) -> Check:
    """Load the data of a recipe, build its model and compute the loss of its first batch.

    Nothing is trained, nothing but `augmented` is written, and nothing is downloaded but the
    description of a preset of keras-hub (some kilobytes). Each obstacle is reported, and all that
    does not depend on it is still checked. `path` is the run folder that training would create, and
    `images` what `load_images` gave, if they are loaded already.
    """
    keras.utils.set_random_seed(recipe.seed)
    obstacles = _Obstacles()
    folds = obstacles.attempt(_load, recipe, images) or []
    learner = _learner(recipe, folds, obstacles)
    if learner and recipe.initial_run is not None:
        obstacles.attempt(start_from, recipe, learner.embedder)
    batches = obstacles.attempt(_batches, recipe, folds) if folds else None
    recipe = obstacles.attempt(resolved, recipe) or recipe
    weights = obstacles.attempt(_weights, recipe, learner)
    facts = {"name": recipe.name, **data_facts(recipe, folds), **model_facts(recipe, weights)}
    if folds:
        facts |= shared_facts(folds[0])
    if learner:
        facts |= learner_facts(learner)
        note_small_map(recipe, learner)
    loss = obstacles.attempt(_loss, learner, batches) if learner and batches else None
    if loss is not None:
        facts["first batch"] = f"loss {loss:.4g}"
    if augmented is not None and folds:
        drawn = obstacles.attempt(_draw_views, recipe, folds[0].train, augmented)
        facts |= {"views": drawn} if drawn else {}
    obstacles.attempt(Trackers, recipe, RunFolder(path))
    obstacles.attempt(RunFolder(path).refuse_existing)
    facts |= {**training_facts(recipe), "run folder": str(path)}
    return Check(facts, obstacles.messages)


class _Obstacles:
    """The messages of steps that failed, each once."""

    def __init__(self):
        self.messages = []

    def attempt(self, step, *arguments):
        """The result of a step; `None` if it fails."""
        try:
            return step(*arguments)
        except (ValueError, OSError, ImportError, tf.errors.OpError) as error:
            if reason(error) not in self.messages:
                self.messages.append(reason(error))
            return None


def _load(recipe, images):
    """The splits of each model."""
    data = recipe.data
    recipe = dataclasses.replace(recipe, data=dataclasses.replace(data, download=False, cache=None))
    try:
        return load_folds(recipe) if recipe.protocol.is_ensemble else [load_splits(recipe, images)]
    except FileNotFoundError as error:
        note = "\n  data.download is true: training would download it." if data.download else ""
        raise FileNotFoundError(f"{error}{note}") from error


def _batches(recipe, folds):
    """The batches of the first model; refuses images that any of the models cannot use."""
    for splits in folds:
        check_splits(recipe, splits)
    return [ImageInputs(recipe, of.unlabelled).training_batches(of.train) for of in folds][0]


def _draw_views(recipe, images, path):
    """Write a picture of some images and views of them, and say so."""
    rows = np.unique(np.linspace(0, len(images) - 1, _ROWS).astype(int))
    some = SelectedImages(images, rows)
    views = ViewedImages(some, training_view(recipe.data), _COLUMNS, recipe.seed)
    seen = SeenImages(recipe, some)
    seen = np.stack([seen[row] for row in range(len(some))])
    figure = view_gallery(seen, np.stack([views.image(row) for row in range(len(views))]))
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    return f"{len(rows)} training images, {_COLUMNS} views of each, drawn in {path}"


def _learner(recipe, folds, obstacles):
    """The learner of the first model, with random weights if its own are missing."""
    if folds:
        size = len(folds[0].train.class_names), folds[0].train.channels
    else:
        size = 2, recipe.data.channels
    backbone, side = recipe.backbone, recipe.data.image_size
    with_random_weights = dataclasses.replace(
        recipe, backbone=dataclasses.replace(backbone, weights=None)
    )
    if not _is_named(backbone):
        try:
            return _build(recipe, *size)
        except (ValueError, OSError, ImportError):  # from the backbone, the rest, or both
            obstacles.attempt(build_backbone, recipe, (side, side, size[1]))
    return obstacles.attempt(_build, with_random_weights, *size)


def _build(recipe, num_classes, channels):
    learner = build_learner(recipe, num_classes, channels)
    if recipe.trainer == "ccp":
        ccp_trainer(recipe, learner)
    return learner


def _is_named(backbone):
    """Whether the weights come by name, which is not tried here: it could download or convert."""
    is_known = backbone.name in backbones.names()
    return is_known and backbone.weights in backbones.pretrained(backbone.name)


def _weights(recipe, learner):
    """A line about weights that come by name; `None` for other weights."""
    backbone = recipe.backbone
    if not _is_named(backbone) or recipe.initial_run is not None:
        return None
    source = backbones.weights_source(backbone.name, recipe.data.image_size, backbone.preset)
    if source.is_local:
        return f"weights {backbone.weights} {source.text}"
    if source.path is None and backbone.preset is not None:
        return f"weights {backbone.weights}: {source.text}"
    if source.path is None:
        return f"weights {backbone.weights} (downloaded unless cached; not looked at here)"
    if source.package is not None:
        raise ImportError(f"backbone.weights={backbone.weights} takes the weights {source.text}.")
    try:
        socket.getaddrinfo(_HOST, 443)
    except OSError as error:
        raise OSError(
            f"backbone.weights={backbone.weights} takes the file {source.path}, which is not "
            f"there, and {_HOST}, from which Keras downloads it, is not found ({error}). Put the "
            "file there, or start from random weights: --backbone.weights null."
        ) from error
    size = f", about {backbone_bytes(learner) / 1e6:.0f} MB" if learner else ""
    return f"weights {backbone.weights}, which Keras will download{size}"


def _loss(learner, batches):
    images, labels = next(iter(batches))
    outputs = learner(images, training=True)
    loss = learner.compute_loss(x=images, y=labels, y_pred=outputs)
    loss = float(ops.convert_to_numpy(loss))
    if not math.isfinite(loss):
        raise ValueError(f"The loss of the first batch is not finite but {loss}.")
    return loss
