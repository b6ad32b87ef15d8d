"""A pretrained network as it is, as a run."""

import re
from dataclasses import replace
from pathlib import Path

from gsp_tf import backbones
from gsp_tf._files import new_folder
from gsp_tf._names import similar
from gsp_tf._typing import PathLike
from gsp_tf.recipe import (
    BackboneRecipe,
    ClassRecipe,
    DataRecipe,
    EmbeddingRecipe,
    LoRARecipe,
    Recipe,
    TrainingRecipe,
    load_recipe,
    resolved,
)
from gsp_tf.runs.choices import frozen_side
from gsp_tf.runs.folder import RunFolder
from gsp_tf.runs.model import build_learner


def frozen_recipe(recipe: Recipe) -> Recipe:
    """The recipe of a network before training, of 0 epochs: the mean of its last map, at length 1.

    With `backbone.tokens=both` the class token stands beside the mean of the patch tokens.
    """
    backbone = recipe.backbone
    return Recipe(
        name=recipe.name,
        data=replace(recipe.data, feature_cache=None),
        protocol=recipe.protocol,
        backbone=replace(
            backbone,
            weights=recipe.initial_run or backbone.weights,
            freeze_batch_normalization=False,
            frozen_to="network",
            freeze=[],
            lora=LoRARecipe(),
        ),
        embedding=EmbeddingRecipe(None, "after_pooling", map=None),
        pooling=ClassRecipe("gap"),
        loss=ClassRecipe("contrastive"),
        view_loss=recipe.view_loss,
        training=TrainingRecipe(epochs=0),
        evaluation=recipe.evaluation,
    )


def pretrained_run(network: str, runs: PathLike = "runs") -> Path:
    """The path of a run folder with a pretrained network as it is, made unless it exists.

    It serves like the folder of any run: its model gives the mean of the last map at length 1, of
    images of 224 x 224 pixels, or more for a Swin transformer with larger windows. It has no images
    of its own.

    Args:
        network: name of a backbone with weights, such as "efficientnet_lite0"; "hub:PRESET", such
            as "hub:dinov2_small"; or a recipe file, of which data and backbone count, for images of
            another size or for the class token.
        runs: parent of the run folder, which is named after the network or the recipe.

    Raises:
        FileExistsError: if the folder holds another run or other files.
        ImportError: if the package of the network or its weights is missing.
        OSError: if the weights cannot be downloaded.
        ValueError: if the network is unknown, or has no pretrained weights.

    Example:
        >>> pretrained_run("efficientnet_lite")
        Traceback (most recent call last):
            ...
        ValueError: efficientnet_lite is neither a run folder ... did you mean efficientnet_...?
    """
    recipe = resolved(frozen_recipe(_recipe_of(network)))
    folder = RunFolder(Path(runs, re.sub(r"[^\w.-]+", "-", recipe.name)))
    if folder.recipe_path.is_file():
        if replace(folder.recipe(), evaluation=recipe.evaluation) != recipe:
            raise FileExistsError(
                f"{folder.path} is another run than {network} as it is. Rename or remove it."
            )
        return RunFolder.open(folder.path).path
    learner = build_learner(recipe, num_classes=1, channels=recipe.data.channels)
    with new_folder(folder.path) as temporary:
        written = RunFolder(temporary)
        written.start(recipe)
        learner.save(written.model_path)
        written.update_metrics(status="finished", epochs=0, best_epoch=None)
    return folder.path


def _recipe_of(network):
    """A recipe of a network whose data and backbone count."""
    if Path(network).suffix in (".yaml", ".yml"):
        recipe = load_recipe(network)
        if recipe.backbone.weights is None and recipe.initial_run is None:
            recipe.backbone.refuse("weights", f"those of a pretrained network in {network}")
        return replace(recipe, data=replace(recipe.data, name="folder", path=None))
    name, _, preset = network.partition(":")
    known = backbones.names()
    if name not in known:
        raise ValueError(
            f"{network} is neither a run folder nor a network of gsp-tf backbones"
            f"{similar(name, known)}"
        )
    weights = backbones.pretrained(name)
    if not weights:
        raise ValueError(
            f"{name} has no pretrained weights, and without training it needs some. Networks with "
            "a star in gsp-tf backbones have theirs on this machine."
        )
    return Recipe(
        name=network,
        data=DataRecipe("folder", image_size=frozen_side(name, preset)),
        backbone=BackboneRecipe(name, weights[0], preset=preset or None),
    )
