"""The parsers of the commands."""

import argparse
from pathlib import Path

from jsonargparse import ArgumentParser

from gsp_tf.recipe import add_recipe_arguments, located, parsed_recipe

_MOST_USED = {
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
    "resume": "run folder to go on with",
}


def command_parser(description):
    """A parser that raises what it refuses.

    Args:
        description: what the command does.

    Returns:
        `jsonargparse.ArgumentParser`.
    """
    return ArgumentParser(description=description, exit_on_error=False)


def existing_run(path):
    """A run folder that a command was given, refused before TensorFlow is imported if it is none.

    Args:
        path: the folder.

    Returns:
        the path.

    Raises:
        FileNotFoundError: if there is no recipe in it.
    """
    from gsp_tf.experiment import RunFolder

    folder = RunFolder(path)
    folder.require(folder.recipe_path)
    return path


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
        usage=f"gsp-tf {command} RECIPE ... [--FIELD VALUE ...]",
        description=f"{description} Of several recipe files later ones win field by field, a field "
        "on the command line wins over them, and they over the defaults shown here.",
        exit_on_error=False,
    )
    parser.add_argument("--help-all", action=_HelpAll, help="Show all options and exit.")
    add_recipe_arguments(parser, files)
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

    Args:
        options: what `parser` made of the command line.
        parser: that of `recipe_parser`.

    Returns:
        the pair of a `Recipe` and a str.

    Raises:
        ValueError: if a field has a value that is not accepted; it names the file.
    """
    files = [str(file) for file in options.config or ()]
    try:
        recipe = parsed_recipe(parser, options)
    except ValueError as error:
        raise located(error, files) from error
    recipe.data.skip_unreadable |= options.skip_unreadable
    recipe.training.deterministic |= options.deterministic
    first = [Path(files[0]).stem] if len(files) > 1 else []
    return recipe, options.run or "runs/" + "-".join([*first, recipe.name, str(recipe.seed)])
