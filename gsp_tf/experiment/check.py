"""What a recipe would run, and what it lacks."""

import dataclasses
import math
from typing import NamedTuple

import keras
import tensorflow as tf

from gsp_tf import backbones
from gsp_tf.experiment.ccp import ccp_trainer
from gsp_tf.experiment.data import load_folds, load_splits
from gsp_tf.experiment.errors import reason
from gsp_tf.experiment.folder import RunFolder
from gsp_tf.experiment.losses import complete_arguments
from gsp_tf.experiment.model import build_learner
from gsp_tf.experiment.poolings import ATTRIBUTED
from gsp_tf.experiment.run import check_retrieval, training_batches


class Check(NamedTuple):
    """What a recipe would run, and what it lacks.

    Args:
        facts: dict from what it is about to a line of text.
        missing: list of str, a message for each obstacle; empty if training can begin.
    """

    facts: dict
    missing: list

    def text(self):
        """All of it, to be printed."""
        width = max(map(len, self.facts))
        lines = [f"{name:{width}}  {fact}" for name, fact in self.facts.items()]
        title = f"Missing ({len(self.missing)}):" if self.missing else "Nothing is missing."
        return "\n".join([*lines, "", title, *(f"- {message}" for message in self.missing)])


def check_recipe(recipe, path):
    """Load the data of a recipe, build its model and compute the loss of its first batch.

    Nothing is trained, written or downloaded. An obstacle does not hide the others: what does not
    depend on it is looked at all the same.

    Args:
        recipe: `gsp_tf.recipe.Recipe`.
        path: run folder that training would create.

    Returns:
        `Check`.

    Example:
        >>> from gsp_tf.recipe import BackboneRecipe, DataRecipe, Recipe
        >>> recipe = Recipe(data=DataRecipe(image_size=24), backbone=BackboneRecipe("conv4"))
        >>> check = check_recipe(recipe, "no/such/run")
        >>> check.missing
        []
        >>> check.facts["test"]
        '9,200 images of 230 classes'
    """
    keras.utils.set_random_seed(recipe.seed)
    obstacles = _Obstacles()
    folds = obstacles.attempt(_load, recipe) or []
    learner = _learner(recipe, folds, obstacles)
    batches = obstacles.attempt(_batches, recipe, folds) if folds else None
    recipe = dataclasses.replace(
        recipe, loss=obstacles.attempt(complete_arguments, recipe.loss) or recipe.loss
    )
    facts = {"name": recipe.name, **_data_facts(recipe, folds), **_model_facts(recipe, learner)}
    loss = obstacles.attempt(_loss, learner, batches) if learner and batches else None
    if loss is not None:
        facts["first batch"] = f"loss {loss:.4g}"
    obstacles.attempt(RunFolder(path).refuse_existing)
    facts |= {**_training_facts(recipe), "run folder": str(path)}
    return Check(facts, obstacles.messages)


class _Obstacles:
    """What cannot be done, each message once."""

    def __init__(self):
        self.messages = []

    def attempt(self, step, *arguments):
        """What a step returns; `None` if it cannot be done."""
        try:
            return step(*arguments)
        except (ValueError, OSError, ImportError, tf.errors.OpError) as error:
            if reason(error) not in self.messages:
                self.messages.append(reason(error))
            return None


def _load(recipe):
    """The splits of every model."""
    data = recipe.data
    recipe = dataclasses.replace(recipe, data=dataclasses.replace(data, download=False, cache=None))
    try:
        return load_folds(recipe) if recipe.protocol.is_ensemble else [load_splits(recipe)]
    except FileNotFoundError as error:
        note = "\n  data.download is true: training would download it." if data.download else ""
        raise FileNotFoundError(f"{error}{note}") from error


def _batches(recipe, folds):
    """The batches of the first model; refuses images that one of the models cannot use."""
    batches = [training_batches(recipe, splits.train) for splits in folds]
    for splits in folds:
        check_retrieval(splits)
    return batches[0]


def _learner(recipe, folds, obstacles):
    """The learner of the first model; with random weights where its own are not at hand."""
    if folds:
        size = len(folds[0].train.class_names), folds[0].train.channels
    else:
        size = 2, recipe.data.channels
    backbone, side = recipe.backbone, recipe.data.image_size
    with_random_weights = dataclasses.replace(
        recipe, backbone=dataclasses.replace(backbone, weights=None)
    )
    if not _is_downloaded(backbone):
        try:
            return _build(recipe, *size)
        except (ValueError, OSError, ImportError):  # of the backbone, of the rest, or of both
            obstacles.attempt(
                backbones.create, backbone.name, (side, side, size[1]), backbone.weights
            )
    return obstacles.attempt(_build, with_random_weights, *size)


def _build(recipe, num_classes, channels):
    learner = build_learner(recipe, num_classes, channels)
    if recipe.trainer == "ccp":
        ccp_trainer(recipe, learner)
    return learner


def _is_downloaded(backbone):
    """Whether the weights come with the backbone, from a place that is not asked here."""
    is_known = backbone.name in backbones.names()
    return is_known and backbone.weights in backbones.pretrained(backbone.name)


def _loss(learner, batches):
    images, labels = next(iter(batches))
    outputs = learner(images, training=True)
    loss = float(learner.compute_loss(x=images, y=labels, y_pred=outputs))
    if not math.isfinite(loss):
        raise ValueError(f"The loss of the first batch is not finite but {loss}.")
    return loss


def _data_facts(recipe, folds):
    data, protocol = recipe.data, recipe.protocol
    place = "" if data.path is None else f" in {data.path}"
    facts = {
        "data set": f"{data.name}{place}",
        "view": _view(data),
        "protocol": f"{protocol.name}, models are chosen by {protocol.monitor}",
    }
    for number, splits in enumerate(folds):
        prefix = f"fold {number}: " if protocol.is_ensemble else ""
        facts[f"{prefix}train"] = _counted(splits.train)
        facts[f"{prefix}validation"] = _counted(splits.validation)
    if folds:
        facts["test"] = _counted(folds[0].test)
        if folds[0].gallery is not None:
            facts["gallery"] = _counted(folds[0].gallery)
    return facts


def _view(data):
    side = data.image_size
    centre = "" if data.resize is None else f" of a shorter side of {data.resize}"
    crops = "" if data.min_crop_area == 1 else f", random crops from {data.min_crop_area} of it on"
    copies = "" if data.cache is None else f", copies in {data.cache}"
    return f"central {side} x {side}{centre}{crops}{copies}"


def _counted(images):
    return f"{len(images):,} images of {len(images.class_names):,} classes"


def _model_facts(recipe, learner):
    backbone, loss = recipe.backbone, recipe.loss
    weights = "random weights" if backbone.weights is None else f"weights {backbone.weights}"
    if _is_downloaded(backbone):
        weights += " (Keras downloads them; not looked at here)"
    frozen = ", batch normalisation frozen" if backbone.freeze_batch_normalization else ""
    facts = {
        "backbone": f"{backbone.name}, {weights}{frozen}",
        **_head_facts(recipe),
        "loss": _call(loss.name, loss.arguments),
    }
    for name, part, arguments in (
        ("miner", loss.miner, loss.miner_arguments),
        ("wrapper", loss.wrapper, loss.wrapper_arguments),
    ):
        if part != "none":
            facts[name] = _call(part, arguments)
    if recipe.zero_shot.weight:
        facts["zero-shot loss"] = f"weight {recipe.zero_shot.weight}"
    if recipe.trainer == "ccp":
        ccp = recipe.ccp
        facts["ccp"] = f"{ccp.proxies_per_class} proxies a class, chosen from {ccp.pool_size}"
    if learner:
        layers = learner.embedder.layers
        network = next(layer for layer in layers if isinstance(layer, keras.Model))
        for name, model in (("backbone", network), ("embedder", learner.embedder)):
            facts[f"parameters of {name}"] = (
                f"{_size(model.weights):,}, trainable {_size(model.trainable_weights):,}"
            )
    return facts


def _head_facts(recipe):
    head, pooling, embedding = recipe.head, recipe.pooling, recipe.embedding
    dimensions = f"{embedding.dim} dimensions"
    if head.name != "pooling":
        return {"head": _call(head.name, head.arguments), "embedding": dimensions}
    arguments = dict(pooling.arguments)
    if pooling.name in ATTRIBUTED:
        for name in ("num_prototypes", "transport_ratio", "entropy_smoothing"):
            arguments[name] = getattr(pooling, name)
    return {
        "pooling": _call(pooling.name, arguments) if arguments else pooling.name,
        "embedding": f"{dimensions}, mapped {embedding.position.replace('_', ' ')}",
    }


def _size(variables):
    return sum(math.prod(variable.shape) for variable in variables)


def _call(name, arguments):
    return f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"


def _training_facts(recipe):
    data, training, protocol = recipe.data, recipe.training, recipe.protocol
    patience = training.patience if recipe.trainer == "fit" else recipe.ccp.patience
    end = "" if patience is None else f", patience {patience}"
    warmup = f", {training.warmup_epochs} of them warm-up" if training.warmup_epochs else ""
    classes, images = data.classes_per_batch, data.images_per_class
    models = protocol.num_folds * protocol.repeats if protocol.is_ensemble else 1
    return {
        "batch": f"{classes} classes x {images} images = {classes * images} images",
        "optimizer": f"{training.optimizer}({training.learning_rate}), {training.schedule.name} "
        "learning rate",
        "training": f"at most {training.epochs:,} epochs{warmup} x {training.steps_per_epoch:,} "
        f"steps{end}",
        "models": str(models),
    }
