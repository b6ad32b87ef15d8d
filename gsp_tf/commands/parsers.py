"""The parsers of the commands."""

import argparse
import itertools
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from jsonargparse import ArgumentParser

from gsp_tf.recipe import DataRecipe, add_recipe_arguments, located, parsed_recipe, save_recipe

_LOADING = (
    "name",
    "path",
    "channels",
    "skip_unreadable",
    "min_images_per_class",
    "cache",
    "collage",
)

_MOST_USED = {
    "folder": "folder of photographs; the same as FOLDER",
    "data.name": "folder, manifest, glyphs, cub200, ...",
    "data.path": "folder of the images, or the CSV file",
    "data.image_size": "side of the images, in pixels",
    "data.classes_per_batch": "classes in a training batch",
    "data.images_per_class": "images of each class in a training batch",
    "data.horizontal_flip": "mirror training images at random",
    "data.min_crop_area": "smallest share that a random crop keeps",
    "protocol.name": "which classes train and test",
    "backbone.name": "network: resnet20, resnet50, ...",
    "backbone.weights": "weights to start from: a file or imagenet",
    "embedding.dim": "dimension of the embedding",
    "pooling.name": "gsp, gap, ...",
    "loss.name": "proxy_nca, multi_similarity, ...",
    "training.epochs": "number of epochs",
    "training.steps_per_epoch": "batches in an epoch",
    "training.learning_rate": "step size",
    "name": "name of the run in tables and reports",
    "seed": "seed of the weights and batches",
    "run": "run folder to create",
    "resume": "run folder to continue",
    "initial_run": "run folder whose model to start from",
}


def command_parser(description):
    """A parser that raises what it refuses.

    Args:
        description: what the command does.

    Returns:
        `jsonargparse.ArgumentParser`.
    """
    return ArgumentParser(description=description, exit_on_error=False)


def require_run(path):
    """Refuse what is no run folder, before a command imports TensorFlow.

    Args:
        path: the folder that it was given.

    Raises:
        FileNotFoundError: if there is no recipe in it.
    """
    from gsp_tf.experiment import RunFolder

    folder = RunFolder(path)
    folder.require(folder.recipe_path)


def recipe_parser(command, description, files):
    """The parser of a command that takes recipe files and all their fields.

    Args:
        command: its name.
        description: what it does.
        files: paths of the recipe files that it will read.

    Returns:
        `jsonargparse.ArgumentParser`.
    """
    parser = _RecipeParser(
        usage=f"gsp-tf {command} [FOLDER] [RECIPE ...] [--FIELD VALUE ...]",
        description=f"{description} Of several recipe files later ones win field by field, a field "
        "on the command line wins over them, and they over what is chosen for a folder of "
        "photographs (one folder a class), or over the defaults shown here.",
        exit_on_error=False,
    )
    parser.add_argument("--help-all", action=_HelpAll, help="Show all options and exit.")
    add_recipe_arguments(parser, files)
    parser.add_argument(
        "--folder",
        type=str | None,
        help="Folder of photographs, one folder a class, for which everything is chosen that is "
        f"not said here; the same as gsp-tf {command} FOLDER.",
    )
    parser.add_argument(
        "--skip-unreadable",
        action="store_true",
        help="Go on without image files that cannot be read; the same as data.skip_unreadable.",
    )
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="The same numbers each time; the same as training.deterministic.",
    )
    parser.add_argument(
        "--run",
        type=str | None,
        help="Run folder to create; null is runs/NAME-SEED, or with several recipe files "
        "runs/FIRST-NAME-SEED, whose NAME is that of the others, unless one of them says it.",
    )
    return parser


class _RecipeParser(ArgumentParser):
    """A parser whose help shows the options that are most used."""

    def format_help(self):
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], [])
        formatter.add_text(self.description)
        actions = {action.dest: action for action in self._actions}
        shown = [(actions[name], text) for name, text in _MOST_USED.items() if name in actions]
        rows = [
            f"  {action.option_strings[-1]:<26} {text}"
            + ("" if action.default in (None, False) else f" ({action.default})")
            for action, text in shown
        ]
        rows += ["", f"All {len(self._actions)} options, with what they do: --help-all"]
        return "\n".join([formatter.format_help(), "most used options (defaults):", *rows, ""])

    def format_all(self):
        """The help with all options."""
        return super().format_help()


class _HelpAll(argparse.Action):
    """Prints the help with all options."""

    def __init__(self, option_strings, dest, **arguments):
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **arguments)

    def __call__(self, parser, *_):
        print(parser.format_all(), end="")
        parser.exit()


def recipe_of(options, parser):
    """The recipe that a command was given, and the path of its run folder.

    What is chosen for a folder of photographs is printed.

    Args:
        options: what `parser` made of the command line; its `arguments` are those themselves.
        parser: that of `recipe_parser`.

    Returns:
        the triple of a `Recipe`, a str, and the `ImageSet` of the folder of photographs or `None`.

    Raises:
        ValueError: if a field has a value that is not accepted, and then it names the file; or if
            neither images nor a recipe is named.
    """
    files = [str(file) for file in options.config or ()]
    arguments = options.pop("arguments")
    given = parser.parse_args(arguments, defaults=False)
    if not files and options.folder is None and "data" not in given:
        raise ValueError(_NOTHING_GIVEN)
    try:
        recipe = _completed(parser, options)
    except ValueError as error:
        raise located(error, files) from error
    images, first = None, [Path(files[0]).stem] if len(files) > 1 else []
    if options.folder is not None:
        recipe, images = _fitting(recipe, options.folder, parser, arguments, given)
        first = []
    path = options.run or _free("runs/" + "-".join([*first, recipe.name, str(recipe.seed)]))
    return recipe, path, images


_NOTHING_GIVEN = """\
a folder of photographs (one folder a class) or a recipe file is needed, such as
  gsp-tf train my_images
  gsp-tf train experiments/demo.yaml --training.epochs 20"""


def _completed(parser, options):
    """The recipe in options, with what has an option of its own."""
    recipe = parsed_recipe(parser, options)
    recipe.data.skip_unreadable |= options.skip_unreadable
    recipe.training.deterministic |= options.deterministic
    return recipe


def _fitting(recipe, folder, parser, arguments, given):
    """What is chosen for a folder, under what was given, and its images if that leaves them."""
    from gsp_tf.experiment import choices_text, choose_recipe, load_images

    data = DataRecipe(
        "folder",
        folder,
        channels=recipe.data.channels,
        skip_unreadable=True,
        min_images_per_class=recipe.data.min_images_per_class,
    )
    images, _ = load_images(data)
    fixed = (given.get(name) for name in ("backbone.name", "backbone.weights", "initial_run"))
    chosen = choose_recipe(folder, images, *fixed)
    with TemporaryDirectory() as temporary:
        file = Path(temporary, "recipe.yaml")
        save_recipe(chosen, file)
        options = parser.parse_args(["--config", str(file), *arguments])
        recipe = _completed(parser, options)
    print(choices_text(recipe, images), end="\n\n", flush=True)
    is_same = all(getattr(recipe.data, name) == getattr(data, name) for name in _LOADING)
    return recipe, images if is_same else None


def _free(path):
    """A path at which no run is: this one, or with the next free number behind it."""
    numbered = (path if n == 1 else f"{path}-{n}" for n in itertools.count(1))
    free = next(p for p in numbered if not Path(p).is_file() and not any(Path(p).glob("[!.]*")))
    if free != path:
        warnings.warn(
            f"{path} exists, so this run goes to {free}. If the first was stopped, "
            f"gsp-tf train --resume {path} continues it.",
            stacklevel=2,
        )
    return free


def resumed_changes(options, parser):
    """What a command changes of the run that it resumes.

    Args:
        options: what `parser` made of the command line; its `arguments` are those themselves.
        parser: that of `recipe_parser`.

    Returns:
        dict of values of "epochs" and "patience" in `recipe.training`, those that were given.

    Raises:
        ValueError: if anything else was given.
    """
    given = vars(parser.parse_args(options.arguments, defaults=False).as_flat())
    names = {"training.epochs": "epochs", "training.patience": "patience"}
    if set(given) - {"resume", *names}:
        raise ValueError(
            "--resume takes the recipe of its run folder, and of its fields only "
            "--training.epochs and --training.patience can be given."
        )
    return {names[name]: value for name, value in given.items() if name in names}
