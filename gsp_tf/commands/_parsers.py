"""Build the parsers of the commands from the signatures and docstrings of their functions."""

import argparse
import inspect
import typing

from docstring_parser import parse as parse_docstring
from jsonargparse import ArgumentParser

from gsp_tf.recipe import add_recipe_arguments

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
    "pooling": "gsp, gap, ...: --pooling.name gap (gsp)",
    "loss": "--loss.name triplet --loss.margin 0.2 (proxy_nca)",
    "training.epochs": "number of epochs",
    "training.steps_per_epoch": "batches in an epoch",
    "training.learning_rate": "step size",
    "name": "name of the run in tables and reports",
    "seed": "seed of the weights and batches",
    "run": "run folder to create",
    "search": "ranges and choices: 'embedding.dim: [32, 64]'",
    "minutes": "minutes to train a ladder",
    "trials": "number of trials",
    "out": "folder to create",
    "resume": "folder to continue",
    "initial_run": "run folder whose model to start from",
}
_OF_FROZEN = {
    "head": "linear, mlp or gsp",
    **{name: _MOST_USED[name] for name in ("backbone.name", "backbone.weights")},
    "backbone.preset": "image preset of keras-hub, for --backbone.name hub",
    "loss": "--loss.name triplet --loss.margin 0.2 (multi_similarity)",
    **{
        name: _MOST_USED[name]
        for name in (
            "data.image_size",
            "embedding.dim",
            "training.epochs",
            "training.learning_rate",
            "name",
            "seed",
            "run",
        )
    },
}


def command_parser(command, function):
    """A parser for the arguments of a typed function, which raises errors instead of exiting."""
    # Positional parameters become arguments, keyword-only ones become options, and **fields becomes
    # the options of a recipe.
    described = parse_docstring(function.__doc__)
    text = " ".join(filter(None, (described.short_description, described.long_description)))
    helps = {part.arg_name: part.description for part in described.params}
    parameters, hints = inspect.signature(function).parameters, typing.get_type_hints(function)
    takes_recipe = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    of_class = _RecipeParser if takes_recipe else ArgumentParser
    parser = of_class(description=text, exit_on_error=False, allow_abbrev=False)
    for name, parameter in parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            _add(parser, parameter, hints[name], help=helps[name])
    if takes_recipe:
        sources = "[FOLDER] [RECIPE ...]"
        if "recipes" not in parameters:
            sources, parser.most_used, parser.title = "FOLDER", _OF_FROZEN, "most used options"
        parser.usage = f"gsp-tf {command} {sources} [--FIELD VALUE ...]"
        parser.add_argument("--help-all", action=_HelpAll, help="Show all options and exit.")
        add_recipe_arguments(parser, skip=parameters)
    return parser


def _add(parser, parameter, hint, **options):
    is_option = parameter.kind is parameter.KEYWORD_ONLY
    has_default = parameter.default is not parameter.empty
    flag = parameter.name
    if hint is bool:
        options["action"] = "store_true"
    elif hint == str | bool:  # an option with an optional text
        options |= {"type": str, "nargs": "?", "const": "", "default": None}
    elif typing.get_origin(hint) is list:
        nargs = "*" if has_default and not is_option else "+"
        options |= {"type": typing.get_args(hint)[0], "nargs": nargs}
    else:
        options["type"] = hint
    if is_option:
        flag = f"--{parameter.name.replace('_', '-')}"
        if has_default and "action" not in options:
            options.setdefault("default", parameter.default)
        elif not has_default:
            options["required"] = True
    parser.add_argument(flag, **options)


class _RecipeParser(ArgumentParser):
    """A parser whose help shows the most used options."""

    most_used, title = _MOST_USED, "most used options (defaults)"

    def format_help(self):
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], [])
        formatter.add_text(self.description)
        actions = {action.dest: action for action in self._actions}
        shown = [(actions[name], text) for name, text in self.most_used.items() if name in actions]
        has_defaults = self.most_used is _MOST_USED
        rows = [
            f"  {action.option_strings[-1]:<26} {text}"
            + (f" ({action.default})" if has_defaults and action.default else "")
            for action, text in shown
        ]
        rows += ["", f"All {len(self._actions)} options, with what they do: --help-all"]
        return "\n".join([formatter.format_help(), f"{self.title}:", *rows, ""])

    def format_all(self):
        """The help with all options."""
        return super().format_help()


class _HelpAll(argparse.Action):
    """Print the help with all options."""

    def __init__(self, option_strings, dest, **arguments):
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **arguments)

    def __call__(self, parser, *_):
        print(parser.format_all(), end="")
        parser.exit()
