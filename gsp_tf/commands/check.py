"""`gsp-tf check`: say what train would run and what is missing."""

from gsp_tf.commands._recipes import free, recipe_of


def command(
    recipes: list[str] = (),
    *,
    run: str | None = None,
    skip_unreadable: bool = False,
    deterministic: bool = False,
    augmented: str | None = None,
    **fields,
) -> int:
    """Say what train would run and what is missing.

    Takes the arguments of train, loads the data, builds the model and computes the loss of one
    batch. Downloads nothing, and writes nothing but the picture of --augmented. The exit code is 1
    if something is missing.

    Args:
        recipes: Folder of photographs and recipe files, as for train.
        run: Run folder that train would create.
        skip_unreadable: Skip image files that cannot be read; the same as data.skip_unreadable.
        deterministic: Give the same numbers each time; the same as training.deterministic.
        augmented: PNG file to write, with some training images and what training sees of them.
    """
    recipe, path, images = recipe_of(recipes, run, skip_unreadable, deterministic, fields)
    from gsp_tf.runs import check_recipe

    check = check_recipe(recipe, run or free(path, "train"), images, augmented)
    print(check.text())
    return 1 if check.missing else 0
