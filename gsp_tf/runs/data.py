"""Divide the images of a recipe into those that train, choose the model and test."""

import dataclasses
import hashlib
import inspect
import math
from collections.abc import Sequence
from typing import NamedTuple, get_origin, get_type_hints

import tensorflow as tf

from gsp_tf import data
from gsp_tf._names import named
from gsp_tf.data import ImageSet
from gsp_tf.recipe import DataRecipe, Recipe, augmentation_layers

_OF_LOADERS = (
    *("path", "channels", "skip_unreadable", "min_images_per_class"),
    *("download", "unlabelled"),
)
_CROP = 0.25
"""Share of an image that a reduced copy at least has enough pixels for, as a crop."""


def _division(name):
    """How a published set divides its classes: "halves", "splits", or `None` if it does not."""
    loader = named("data", name)
    takes, returned = inspect.signature(loader).parameters, get_type_hints(loader)["return"]
    if "counts" not in takes or get_origin(returned) is not dict:
        return None
    return "halves" if "skip_unreadable" in takes else "splits"


def load_images(recipe: DataRecipe) -> ImageSet | dict[str, ImageSet]:
    """All images of a recipe, before they are split, or a dict of the splits that the data list.

    They are the files themselves, also with `data.cache`.
    """
    loader = named("data", recipe.name)
    takes = inspect.signature(loader).parameters
    if "path" in takes and recipe.path is None:
        raise ValueError(
            f"data.path is needed for data.name={recipe.name}; the run of a pretrained network has "
            "no images of its own."
        )
    if recipe.collage.grid and _division(recipe.name) == "halves":
        raise ValueError(
            f"data.collage.grid must be 0 with data.name={recipe.name}, which divides its classes "
            f"itself; received {recipe.collage.grid}."
        )
    arguments = {name: getattr(recipe, name) for name in _OF_LOADERS if name in takes}
    if "size" in takes:
        arguments["size"] = _tile_size(recipe)
    if "grid" in takes:
        arguments |= {"label": recipe.collage.label, "grid": recipe.collage.grid or 2}
    loaded = loader(**arguments)
    is_undivided = isinstance(loaded, dict) and "all" in loaded
    return loaded["all"] if is_undivided else loaded


def _read_images(recipe, loaded=None):
    """The images of a recipe, or those that are loaded, from reduced copies with `data.cache`.

    No crop has to enlarge a copy. All rungs of a ladder, with crops or without, share copies.
    """
    loaded = load_images(recipe) if loaded is None else loaded
    if recipe.cache is None:
        return loaded
    if isinstance(loaded, dict):
        return {name: _read_images(recipe, images) for name, images in loaded.items()}
    smallest = min(recipe.min_crop_area, _CROP)
    side = recipe.resize or math.ceil(recipe.image_size / math.sqrt(smallest))
    return data.reduce_images(loaded, recipe.cache, side)


def _load_unlabelled_images(recipe):
    """The images of `data.unlabelled`, reduced if the others are; `None` without any."""
    if recipe.unlabelled is None:
        return None
    is_own = recipe.name in ("folder", "manifest")
    images = data.load_unlabelled(
        recipe.unlabelled, recipe.channels, recipe.skip_unreadable, recipe.path if is_own else None
    )
    return _read_images(recipe, images)


def training_view(recipe):
    """What training sees of an image."""
    return data.TrainingView(
        recipe.image_size,
        recipe.horizontal_flip,
        recipe.min_crop_area,
        recipe.resize,
        augmentation_layers(recipe),
    )


def _tile_size(recipe):
    """Side of a tile of the collage, or of the image without collages."""
    grid = recipe.collage.grid or 1
    if recipe.image_size % grid:
        recipe.refuse("image_size", f"a multiple of data.collage.grid={grid}")
    return recipe.image_size // grid


class Splits(NamedTuple):
    """The images of an experiment.

    Attributes:
        train: images to train on.
        validation: images that choose the model; those of `test` with protocol conventional or
            tuning.
        test: images that are evaluated: each searches the others, or the gallery.
        gallery: images that the test images search, with the same class ids; `None` without one.
        unlabelled: images without a class to train on, each as a class of its own; `None` without
            any beside those of `train`.

    Example:
        >>> import numpy as np
        >>> images = data.ArrayImages(np.zeros((2, 8, 8, 1), "uint8"), [0, 0], ["a"])
        >>> Splits(images, images, images).searched is images
        True
    """

    train: ImageSet
    validation: ImageSet
    test: ImageSet
    gallery: ImageSet | None = None
    unlabelled: ImageSet | None = None

    @property
    def validation_gallery(self):
        """Images that the validation images search; `None` if each searches the others."""
        return self.gallery if self.validation is self.test else None

    @property
    def searched(self) -> ImageSet:
        """Images that results and reports show: the gallery, or the test images without one."""
        return self.test if self.gallery is None else self.gallery

    @property
    def sets(self) -> dict[str, ImageSet]:
        """The sets of images by name; a set with two names is there once, by the first of them."""
        named = {id(images): (name, images) for name, images in reversed(self._asdict().items())}
        return dict(pair for pair in reversed(named.values()) if pair[1] is not None)

    def digest(self, *names: str) -> str:
        """A text of 16 characters that changes with any image and any label.

        An image changes with its path, size or time, or with its pixels.

        Args:
            names: names of sets, such as "test"; without any, all sets count.
        """
        found = hashlib.sha256()
        named = {name: getattr(self, name) for name in names} or self.sets
        for name, images in named.items():
            if images is None:
                continue
            found.update(f"{name} {len(images)}\n".encode() + images.labels.tobytes())
            for index in range(len(images)):
                found.update(images.identity(index))
        return found.hexdigest()[:16]


def load_splits(recipe: Recipe, images: ImageSet | None = None, download: bool = True) -> Splits:
    """Load the images of a recipe, with disjoint classes for training and test.

    With trainer=classification, training and test have the same classes and disjoint images. With
    data.name=unlabelled, the images themselves are divided, and two views of each image of
    validation and test are a class.

    Args:
        recipe: The recipe; with protocol mlrc it must name its fold.
        images: Result of `load_images`, if they are loaded already.
        download: Whether to download missing data where the recipe says so.

    Example:
        >>> from gsp_tf.recipe import DataRecipe, Recipe
        >>> splits = load_splits(Recipe(data=DataRecipe(image_size=24)))
        >>> set(splits.train.class_names) & set(splits.test.class_names)
        set()
    """
    if not download:
        recipe = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, download=False))
    return _completed([_plain_splits(recipe, images)], recipe.data)[0]


def _plain_splits(recipe, images):
    """The images of a recipe as they are, without canvases."""
    trainer, protocol, recipe = recipe.trainer, recipe.protocol, recipe.data
    if protocol.is_ensemble:
        raise ValueError(
            "protocol.name=mlrc trains a model for each fold; to get the images of one of them, "
            "name it with protocol.fold."
        )
    if trainer == "classification":
        return _classification_splits(recipe, images)
    if protocol.name != "fractions":
        return _protocol_splits(protocol, *_halves(protocol, recipe, images))
    if _division(recipe.name) == "halves":
        raise ValueError(
            f"data.name={recipe.name} has official halves of its classes: choose "
            "protocol.name=mlrc, conventional, ablation or tuning; received fractions."
        )
    images = _read_images(recipe, images)
    if isinstance(images, dict):
        return _listed_splits(recipe, images)
    if recipe.collage.grid:
        return Splits(
            *data.collage_splits(
                data.as_arrays(images, _tile_size(recipe)),
                recipe.collage.background_groups,
                recipe.split_fractions,
                grid=recipe.collage.grid,
                seed=recipe.split_seed,
                label=recipe.collage.label,
            )
        )
    splits = Splits(*data.split_classes(images, recipe.split_fractions, seed=recipe.split_seed))
    return _in_two_views(splits, recipe) if recipe.name == "unlabelled" else splits


def _in_two_views(splits, recipe):
    """Splits whose images are each a class of its own, with two views of those that evaluate."""
    view, seed = training_view(recipe), recipe.split_seed
    return splits._replace(
        validation=data.ViewedImages(splits.validation, view, 2, seed),
        test=data.ViewedImages(splits.test, view, 2, seed),
    )


def _classification_splits(recipe, images):
    """Images of the same classes that train, choose the model and test."""
    images = _read_images(recipe, images)
    if isinstance(images, dict):
        raise ValueError(
            f"trainer=classification divides the images of each class by data.split_fractions, and "
            f"data.name={recipe.name} lists its own splits; received {', '.join(images)}."
        )
    return Splits(*data.split_images(images, recipe.split_fractions, seed=recipe.split_seed))


def load_folds(recipe: Recipe) -> list[Splits]:
    """The images of every fold of protocol mlrc, read once; all have the same test images."""
    halves = _halves(recipe.protocol, recipe.data)
    folds = [
        _protocol_splits(dataclasses.replace(recipe.protocol, fold=fold, repeats=1), *halves)
        for fold in range(recipe.protocol.num_folds)
    ]
    return _completed(folds, recipe.data)


def _completed(folds, recipe):
    """The splits of every model with images without a class, and on canvases, if there are any."""
    unlabelled = _load_unlabelled_images(recipe)
    folds = [fold._replace(unlabelled=unlabelled) for fold in folds]
    canvas, side = recipe.canvas, recipe.image_size
    if canvas.name is None:
        return folds
    training_tiles, other_tiles = _canvas_tiles(recipe)
    placed = {}  # by the id of a set, because models share test images

    def place(images, tiles):
        if images is not None and id(images) not in placed:
            placed[id(images)] = data.CanvasImages(images, tiles, side, canvas.share, canvas.seed)
        return placed.get(id(images))

    return [
        Splits(
            place(fold.train, training_tiles),
            *(place(images, other_tiles) for images in (fold.validation, fold.test, fold.gallery)),
            place(fold.unlabelled, training_tiles),
        )
        for fold in folds
    ]


def evaluation_batches(
    recipe: Recipe, images: ImageSet, indices: Sequence[int] | None = None
) -> tf.data.Dataset:
    """Batches of images, or of those in `indices`, as evaluation sees them."""
    return data.evaluation_dataset(
        images,
        recipe.data.image_size,
        recipe.evaluation.batch_size,
        indices=indices,
        resize=recipe.data.resize,
    )


def _canvas_tiles(recipe):
    """Tiles of canvases behind training images, and behind all others."""
    canvas = recipe.canvas
    if canvas.path is None and "path" in inspect.signature(named("data", canvas.name)).parameters:
        raise ValueError(f"data.canvas.path is needed for data.canvas.name={canvas.name}.")
    tiles = DataRecipe(
        canvas.name,
        canvas.path,
        image_size=canvas.tile_size,
        channels=recipe.channels,
        skip_unreadable=recipe.skip_unreadable,
        min_images_per_class=1,
    )
    images = load_images(tiles)
    if isinstance(images, dict):
        raise ValueError(
            "data.canvas.name must be a data set without splits of its own, such as cifar100 or "
            f"folder; received {canvas.name}, which has {', '.join(images)}."
        )
    halves = data.halve_classes(len(images.class_names))
    return [data.as_arrays(images.subset(half), canvas.tile_size) for half in halves]


def _listed_splits(recipe, sets):
    """The splits that a manifest or a data set lists."""
    if recipe.collage.grid and _division(recipe.name) != "splits":
        raise ValueError(
            "data.collage splits the classes itself: use a manifest without a split column."
        )
    _check_listed(recipe, sets, {"train", "validation"})
    return Splits(sets["train"], sets["validation"], *_test_half(sets))


def _halves(protocol, recipe, images=None):
    """Training half, test half, and gallery or `None`."""
    if _division(recipe.name) == "splits":
        raise ValueError(
            f"data.name={recipe.name} brings its own splits: choose protocol.name=fractions; "
            f"received {protocol.name}."
        )
    if recipe.collage.grid and _division(recipe.name) != "halves":
        raise ValueError(
            "data.collage divides the classes itself, with protocol.name=fractions; received "
            f"protocol.name={protocol.name}."
        )
    images = _read_images(recipe, images)
    if not isinstance(images, dict):
        train, test = data.halve_classes(len(images.class_names))
        return images.subset(train), images.subset(test), None
    _check_listed(recipe, images, {"train"})
    if "validation" in images:
        raise ValueError(
            f"The manifest {recipe.path} has rows with split validation, and a protocol divides "
            "the rows with split train itself: use protocol.name=fractions, or name them train."
        )
    return images["train"], *_test_half(images)


def _test_half(sets):
    return (sets["query"], sets["gallery"]) if "query" in sets else (sets["test"], None)


def _check_listed(recipe, sets, needed):
    needed = needed | ({"query", "gallery"} if {"query", "gallery"} & set(sets) else {"test"})
    missing = needed - set(sets)
    if missing:
        raise ValueError(
            f"The manifest {recipe.path} has no rows with split {', '.join(sorted(missing))}; "
            f"needed are {', '.join(sorted(needed))}."
        )


def _protocol_splits(protocol, training_half, test, gallery):
    train, validation = data.protocol_classes(
        protocol.name, len(training_half.class_names), protocol.fold or 0, protocol.num_folds
    )
    if protocol.name == "conventional":
        return Splits(training_half, test, test, gallery)
    train, validation = training_half.subset(train), training_half.subset(validation)
    if protocol.name == "tuning":
        return Splits(train, validation, validation)
    return Splits(train, validation, test, gallery)


def fingerprint(images: ImageSet | None) -> str | None:
    """A short text that depends only on the names of the classes of images and their order."""
    if images is None:
        return None
    names = "\n".join(images.class_names)
    return hashlib.sha256(names.encode("utf-8", errors="surrogateescape")).hexdigest()[:16]
