"""Build the recipe that a command runs."""

import warnings
from pathlib import Path

from gsp_tf.recipe import DataRecipe, compose, given_values, recipe_values

_LOADING = (
    "name",
    "path",
    "channels",
    "skip_unreadable",
    "min_images_per_class",
    "cache",
    "collage",
)
_NOTHING_GIVEN = """\
a folder of photographs (one folder per class) or a recipe file is needed, such as
  gsp-tf train my_images
  gsp-tf train experiments/demo.yaml --training.epochs 20"""


def recipe_of(recipes, run, skip_unreadable=False, deterministic=False, fields=None, place="runs"):
    """The recipe, the path of its folder by name, and its images if they are loaded already."""
    files, folder, fields = list(recipes), None, dict(fields or {})
    if files and Path(files[0]).is_dir():
        folder = files.pop(0)
    if skip_unreadable:
        fields["data"] = {**fields.get("data", {}), "skip_unreadable": True}
    if deterministic:
        fields["training"] = {**fields.get("training", {}), "deterministic": True}
    if not files and folder is None and "data" not in fields:
        raise ValueError(_NOTHING_GIVEN)
    recipe, images = compose(files, fields), None
    first = [Path(files[0]).stem] if len(files) > 1 and folder is None else []
    if folder is not None:
        from gsp_tf.runs import choices_text

        recipe, photographs, images = fitting(recipe, folder, files, fields)
        print(choices_text(recipe, photographs), end="\n\n", flush=True)
    name = "-".join([*first, recipe.name, str(recipe.seed)])
    return recipe, run or f"{place}/{name}", images


def fitting(recipe, folder, files, fields):
    """The recipe chosen for a folder, under the given fields, its photographs, and those to use.

    The last are `None` if the recipe loads them in another way.
    """
    from gsp_tf.runs import choose_recipe, load_images

    data = DataRecipe(
        "folder",
        folder,
        channels=recipe.data.channels,
        skip_unreadable=True,
        min_images_per_class=recipe.data.min_images_per_class,
    )
    images = load_images(data)
    given = given_values(files, fields)
    backbone = given.get("backbone", {})
    fixed = [backbone.get("name"), backbone.get("weights"), given.get("initial_run")]
    fixed.append(backbone.get("preset"))
    chosen = choose_recipe(folder, images, *fixed)
    recipe = compose(files, fields, under=recipe_values(chosen))
    is_same = all(getattr(recipe.data, name) == getattr(data, name) for name in _LOADING)
    return recipe, images, images if is_same else None


def free(path, command):
    """A path without a run: this one, or with the first free number appended."""
    from gsp_tf.runs import RunFolder

    free = next(str(folder.path) for folder in RunFolder(path).numbered() if folder.is_free())
    if free != path:
        begun = Path(path, "recipe.yaml" if command == "train" else "tuning.yaml").is_file()
        continues = f" If the first was stopped, gsp-tf {command} --resume {path} continues it."
        warnings.warn(
            f"{path} exists, so this run goes to {free}.{continues if begun else ''}",
            stacklevel=2,
        )
    return free


def resumed_changes(given):
    """The new values of `epochs` and `patience` for a resumed run; refuses any other field."""
    training = given.get("training", {})
    if set(given) - {"training"} or set(training) - {"epochs", "patience"}:
        raise ValueError(
            "--resume takes the recipe of its run folder, and of its fields only "
            "--training.epochs and --training.patience can be given."
        )
    return training


def is_ladder(path):
    """Whether a folder is one that `gsp-tf train FOLDER` made with a pretrained network."""
    from gsp_tf.runs import RunFolder

    return RunFolder(path).is_ladder()


def require_run(path):
    """Refuse a path that is not a run folder, before a command imports TensorFlow."""
    from gsp_tf.runs import RunFolder

    folder = RunFolder(path)
    folder.require(folder.recipe_path)
