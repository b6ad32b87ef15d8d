"""The image sets of a recipe."""

from gsp_tf import data


def load_splits(recipe):
    """Training, validation and test images of a recipe, of disjoint classes.

    Args:
        recipe: `gsp_tf.recipe.DataRecipe`.

    Returns:
        three `ImageSet`s.

    Raises:
        ValueError: if the data cannot give these splits; the message says why.

    Example:
        >>> from gsp_tf.recipe import DataRecipe
        >>> train, validation, test = load_splits(DataRecipe(image_size=24))
        >>> set(train.class_names) & set(test.class_names)
        set()
    """
    if recipe.name != "glyphs" and recipe.path is None:
        raise ValueError(f"data.path is needed for data.name={recipe.name}.")
    if recipe.name == "manifest":
        sets = data.load_manifest(recipe.path, recipe.channels, recipe.skip_unreadable)
        if "all" not in sets:
            return _manifest_splits(recipe, sets)
        images = sets["all"]
    elif recipe.name == "folder":
        images = data.load_folder(recipe.path, recipe.channels, recipe.skip_unreadable)
    elif recipe.name == "omniglot":
        images = data.load_omniglot(recipe.path, size=_tile_size(recipe))
    else:
        images = data.load_glyphs(size=_tile_size(recipe))
    if recipe.collage.grid:
        return data.collage_splits(
            data.as_arrays(images, _tile_size(recipe)),
            recipe.collage.background_groups,
            recipe.split_fractions,
            grid=recipe.collage.grid,
            seed=recipe.split_seed,
        )
    return data.split_classes(images, recipe.split_fractions, seed=recipe.split_seed)


def _tile_size(recipe):
    """Side of one character: that of the image, or of a tile of the collage."""
    grid = recipe.collage.grid or 1
    if recipe.image_size % grid:
        raise ValueError(
            f"data.image_size must be a multiple of data.collage.grid={grid}, "
            f"received {recipe.image_size}."
        )
    return recipe.image_size // grid


def _manifest_splits(recipe, sets):
    if recipe.collage.grid:
        raise ValueError(
            "data.collage splits the classes itself: use a manifest without a split column."
        )
    missing = {"train", "validation", "test"} - set(sets)
    if missing:
        raise ValueError(
            f"The manifest {recipe.path} has no rows with split {', '.join(sorted(missing))}; "
            "training needs train, validation and test."
        )
    return sets["train"], sets["validation"], sets["test"]
