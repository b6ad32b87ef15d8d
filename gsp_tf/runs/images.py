"""Load the images of a recipe."""

import inspect
import math
from typing import get_origin, get_type_hints

from gsp_tf import data
from gsp_tf._names import named
from gsp_tf.data import ImageSet
from gsp_tf.recipe import DataRecipe, augmentation_layers


def division(name):
    """How a published set divides its classes: "halves", "splits", or `None` if it does not."""
    loader = named("data", name)
    takes, returned = inspect.signature(loader).parameters, get_type_hints(loader)["return"]
    if "counts" not in takes or get_origin(returned) is not dict:
        return None
    return "halves" if "skip_unreadable" in takes else "splits"


def load_images(recipe: DataRecipe) -> tuple[ImageSet | None, dict[str, ImageSet] | None]:
    """Load all images of a recipe, before they are split.

    Args:
        recipe: The recipe's section `data`.

    Returns:
        The images and `None`, or `None` and a dict of sets if a data set or a manifest lists them.

    Raises:
        ValueError: if the images cannot be read.

    Example:
        >>> from gsp_tf.recipe import DataRecipe
        >>> load_images(DataRecipe("folder"))
        Traceback (most recent call last):
            ...
        ValueError: data.path is needed for data.name=folder; ...
    """
    loader = named("data", recipe.name)
    takes = inspect.signature(loader).parameters
    if "path" in takes and recipe.path is None:
        raise ValueError(
            f"data.path is needed for data.name={recipe.name}; the run of a pretrained network has "
            "no images of its own."
        )
    if recipe.collage.grid and division(recipe.name) == "halves":
        raise ValueError(
            f"data.collage.grid must be 0 with data.name={recipe.name}, which divides its classes "
            f"itself; received {recipe.collage.grid}."
        )
    fields = (
        *("path", "channels", "skip_unreadable", "min_images_per_class"),
        *("download", "unlabelled"),
    )
    arguments = {name: getattr(recipe, name) for name in fields if name in takes}
    if "size" in takes:
        arguments["size"] = tile_size(recipe)
    if "grid" in takes:
        arguments |= {"label": recipe.collage.label, "grid": recipe.collage.grid or 2}
    loaded = loader(**arguments)
    if recipe.cache is not None:
        loaded = _reduce(loaded, recipe)
    if isinstance(loaded, ImageSet):
        return loaded, None
    return (loaded["all"], None) if "all" in loaded else (None, loaded)


def _reduce(loaded, recipe):
    """The same images, or dict of sets, read from reduced copies; no crop has to enlarge them."""
    if isinstance(loaded, dict):
        return {name: _reduce(images, recipe) for name, images in loaded.items()}
    side = recipe.resize or math.ceil(recipe.image_size / math.sqrt(recipe.min_crop_area))
    return data.reduce_images(loaded, recipe.cache, side)


def load_unlabelled_images(recipe):
    """The images of `data.unlabelled`, reduced if the others are; `None` without any."""
    if recipe.unlabelled is None:
        return None
    is_own = recipe.name in ("folder", "manifest")
    images = data.load_unlabelled(
        recipe.unlabelled, recipe.channels, recipe.skip_unreadable, recipe.path if is_own else None
    )
    return images if recipe.cache is None else _reduce(images, recipe)


def training_view(recipe):
    """What training sees of an image."""
    return data.TrainingView(
        recipe.image_size,
        recipe.horizontal_flip,
        recipe.min_crop_area,
        recipe.resize,
        augmentation_layers(recipe),
    )


def tile_size(recipe):
    """Side of a tile of the collage, or of the image without collages."""
    grid = recipe.collage.grid or 1
    if recipe.image_size % grid:
        recipe.refuse("image_size", f"a multiple of data.collage.grid={grid}")
    return recipe.image_size // grid
