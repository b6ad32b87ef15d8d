"""The parsers of the commands."""

from pathlib import Path

from jsonargparse import ArgumentParser

from gsp_tf.recipe import add_recipe_arguments, located, parsed_recipe


def command_parser(description):
    """A parser that raises what it refuses.

    Args:
        description: what the command does.

    Returns:
        `jsonargparse.ArgumentParser`.
    """
    return ArgumentParser(description=description, exit_on_error=False)


def recipe_parser(command, description, files):
    """The parser of a command that takes recipe files and all their fields.

    Args:
        command: its name.
        description: what it does.
        files: paths of the recipe files that it will read.

    Returns:
        `jsonargparse.ArgumentParser`.
    """
    parser = command_parser(
        f"{description} Usage: gsp-tf {command} RECIPE ... [--FIELD VALUE ...]; of "
        "several recipe files later ones win field by field, a field on the command line wins over "
        "them, and they over the defaults shown here."
    )
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
