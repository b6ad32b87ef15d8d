"""Describe a recipe in lines of text."""

import math
import warnings

from gsp_tf import layers
from gsp_tf._console import listed
from gsp_tf.data import ViewedImages, identical_images, shared_images
from gsp_tf.recipe import Recipe
from gsp_tf.runs.model import FROZEN, trained_backbone

_SMALLEST = 3
_WEIGHTS = ("pooling_weights", "attention", "attention_maps", "correlation_maps")


def facts_table(facts):
    """Format a dict of facts as lines of text."""
    width = max(map(len, facts))
    return "\n".join(f"{name:{width}}  {fact}" for name, fact in facts.items())


def note_small_map(recipe, learner):
    """Warn if the last map has too few places for a layer that weighs them."""
    shape = trained_backbone(learner).outputs[-1].shape[1:]
    if len(shape) != 3 or min(shape[:2]) >= _SMALLEST or recipe.trainer == "classification":
        return
    is_pooled = recipe.head is None
    if not is_pooled or _weighs_places(learner.embedder.get_layer("pooling")):
        what = recipe.pooling.name if is_pooled else recipe.head.name
        warnings.warn(
            f"The last map of {recipe.backbone.name} is {_times(shape[:2])} for images of "
            f"{recipe.data.image_size} pixels: {what} has hardly any places to choose from. Take "
            f"larger images (--data.image_size) for {_SMALLEST} x {_SMALLEST} or more.",
            stacklevel=2,
        )


def _weighs_places(head):
    """Whether a layer weighs the places of a map or chooses among them."""
    chooses = isinstance(head, (layers.WeldonPooling, layers.OptimalTransportPooling))
    return chooses or any(hasattr(head, name) for name in _WEIGHTS)


def _times(shape):
    return " x ".join(map(str, shape))


def data_facts(recipe, folds):
    """The images of a recipe; `folds` are the `Splits` of each of its models."""
    data, protocol = recipe.data, recipe.protocol
    place = "" if data.path is None else f" in {data.path}"
    divided = protocol.name
    if recipe.trainer == "classification":
        divided = "images of the same classes"
    facts = {
        "data set": f"{data.name}{place}",
        "view": _view(data),
        "protocol": f"{divided}, models are chosen by {recipe.monitor}",
    }
    for number, splits in enumerate(folds):
        prefix = f"fold {number}: " if protocol.is_ensemble else ""
        facts[f"{prefix}train"] = _counted(splits.train)
        if data.name == "unlabelled":
            facts["train"] = f"{len(splits.train):,} images without a class"
        facts[f"{prefix}validation"] = _counted(splits.validation)
    if folds and folds[0].unlabelled is not None:
        facts["unlabelled"] = f"{len(folds[0].unlabelled):,} images without a class also train"
    if folds:
        facts["test"] = _counted(folds[0].test)
        if folds[0].gallery is not None:
            facts["gallery"] = _counted(folds[0].gallery)
    return facts


def shared_facts(splits):
    """The identical images that the sets of `Splits` share, if their contents can be compared."""
    sets = splits.sets
    numbers = identical_images(list(sets.values()))
    if numbers is None:
        return {}
    names = [name for name, images in sets.items() for _ in range(len(images))]
    places = [
        images.paths[row] if hasattr(images, "paths") else f"image {row}"
        for images in sets.values()
        for row in range(len(images))
    ]
    found = [
        f"{len(in_one):,} of {one} and {len(in_other):,} of {other}, such as {places[in_one[0]]} "
        f"and {places[in_other[numbers[in_other] == numbers[in_one[0]]][0]]}"
        for (one, other), (in_one, in_other) in shared_images(numbers, names).items()
    ]
    return {"shared images": "; ".join(found) or f"none is in two of {listed(list(sets))}"}


def _view(data):
    side = data.image_size
    centre = "" if data.resize is None else f" of a shorter side of {data.resize}"
    crops = "" if data.min_crop_area == 1 else f", random crops from {data.min_crop_area} of it on"
    names = ", ".join(layer["name"] for layer in data.augmentation)
    changes = f", changed by {names}" if names else ""
    copies = "" if data.cache is None else f", copies in {data.cache}"
    canvas = data.canvas
    place = "" if canvas.name is None else f" on {canvas.share:.0%} of a canvas of {canvas.name}"
    features = "" if data.feature_cache is None else f", features in {data.feature_cache}"
    return f"central {side} x {side}{centre}{place}{crops}{changes}{copies}{features}"


def _counted(images):
    if isinstance(images, ViewedImages):
        return f"{images.count} views of each of {len(images.images):,} images without a class"
    return f"{len(images):,} images of {len(images.class_names):,} classes"


def model_facts(recipe, weights=None):
    """The model and the losses of a recipe; `weights` describes its initial weights."""
    backbone, loss = recipe.backbone, recipe.loss
    if weights is None:
        weights = "random weights" if backbone.weights is None else f"weights {backbone.weights}"
    if recipe.initial_run is not None:
        weights = f"the model of {recipe.initial_run}"
    frozen = ", batch normalisation frozen" if backbone.freeze_batch_normalization else ""
    if backbone.frozen_to is not None:
        frozen += f", {frozen_part(backbone)}"
    if backbone.freeze:
        frozen += f", frozen in {' '.join(backbone.freeze)}"
    if backbone.lora.rank:
        frozen += f", low-rank adaptation of rank {backbone.lora.rank}"
    facts = {"backbone": f"{network_name(backbone)}, {weights}{frozen}"}
    if recipe.trainer == "classification":
        return facts | {"head": "global average pooling, softmax classifier"}
    facts |= {**_head_facts(recipe), "loss": _call(loss.name, loss.arguments)}
    others = {"miner": recipe.miner, "wrapper": recipe.loss_wrapper, "view loss": recipe.view_loss}
    for name, part in others.items():
        if part is not None:
            facts[name] = _call(part.name, part.arguments)
    if recipe.zero_shot.weight:
        facts["zero-shot loss"] = f"weight {recipe.zero_shot.weight}"
    if recipe.trainer == "ccp":
        ccp = recipe.ccp
        facts["ccp"] = f"{ccp.proxies_per_class} proxies per class, chosen from {ccp.pool_size}"
    return facts


def learner_facts(learner):
    """The sizes of a model."""
    network = trained_backbone(learner)
    facts = {}
    for frozen in _frozen_parts(learner):
        shape = frozen.output.shape[1:]
        facts["frozen map"] = f"{_times(shape)}, {2 * math.prod(shape):,} bytes in float16"
    shape = network.outputs[-1].shape[1:]
    is_map = len(shape) == 3
    facts["last map"] = _times(shape) if is_map else f"{shape[0]} tokens x {shape[1]}"
    of_backbone = _backbone_weights(learner), network.trainable_weights
    of_embedder = learner.embedder.weights, learner.embedder.trainable_weights
    for name, (weights, trainable) in (("backbone", of_backbone), ("embedder", of_embedder)):
        facts[f"parameters of {name}"] = f"{_size(weights):,}, trainable {_size(trainable):,}"
    return facts


def backbone_bytes(learner):
    """Bytes of the weights of a learner's backbone in float32."""
    return 4 * _size(_backbone_weights(learner))


def _backbone_weights(learner):
    """The weights of a backbone, those of its frozen part included."""
    parts = *_frozen_parts(learner), trained_backbone(learner)
    return [weight for part in parts for weight in part.weights]


def _frozen_parts(learner):
    return [layer for layer in learner.embedder.layers if layer.name == FROZEN]


def _head_facts(recipe):
    head, pooling, embedding = recipe.head, recipe.pooling, recipe.embedding
    if head is not None:
        return {"head": _call(head.name, head.arguments), "embedding": dimensions(recipe)}
    arguments = pooling.arguments
    kind = "mapped" if embedding.map == "linear" else f"mapped by an {embedding.map}"
    mapped = "" if embedding.map is None else f", {kind} {embedding.position.replace('_', ' ')}"
    return {
        "pooling": _call(pooling.name, arguments) if arguments else pooling.name,
        "embedding": f"{dimensions(recipe)}{mapped}",
    }


def dimensions(recipe):
    dim = recipe.embedding.dim
    return "the dimensions of the features" if dim is None else f"{dim} dimensions"


def network_name(backbone):
    """The name of a network, with its preset and tokens if it has some."""
    preset = "" if backbone.preset is None else f" {backbone.preset}"
    tokens = "" if backbone.tokens == "patch" else f", tokens {backbone.tokens}"
    return f"{backbone.name}{preset}{tokens}"


def frozen_part(backbone):
    """What of a backbone is frozen."""
    return "frozen" if backbone.frozen_to == "network" else f"frozen up to {backbone.frozen_to}"


def _size(variables):
    return sum(math.prod(variable.shape) for variable in variables)


def _call(name, arguments):
    return f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"


def recipe_facts(recipe: Recipe) -> dict[str, str]:
    """What a recipe says about the model and its training, in words; the data are not read."""
    return model_facts(recipe) | training_facts(recipe)


def training_facts(recipe):
    data, training, protocol = recipe.data, recipe.training, recipe.protocol
    patience = recipe.ccp.patience if recipe.trainer == "ccp" else training.patience
    end = "" if patience is None else f", patience {patience}"
    warmup = f", {training.warmup_epochs} of them warm-up" if training.warmup_epochs else ""
    models = protocol.num_folds * protocol.repeats if protocol.is_ensemble else 1
    return {
        "batch": _batch(data),
        "optimizer": f"{training.optimizer}({training.learning_rate}), {training.schedule.name} "
        "learning rate",
        "training": f"at most {training.epochs:,} epochs{warmup} x {training.steps_per_epoch:,} "
        f"steps{end}",
        "models": str(models),
    }


def _batch(data):
    classes, images = data.classes_per_batch, data.images_per_class
    others = data.unlabelled_per_batch
    parts = [f"{classes} classes x {images} images"] if classes else []
    if others:
        parts.append(f"{others} images {'without' if classes else 'of any'} class")
    total = data.views * (classes * images + others)
    views = "" if data.views == 1 else f", in {data.views} views"
    return f"{' + '.join(parts)}{views} = {total} images"
