"""`gsp-tf check`: what a training would run, and what it lacks."""

from gsp_tf.commands.parsers import recipe_of, recipe_parser

HELP = "Say what train would run and what it lacks."


def parser(files):
    """Its arguments."""
    return recipe_parser(
        "check",
        "Say what train with the same arguments would run, and all that it lacks: load the data, "
        "build the model, compute the loss of one batch. Writes and downloads nothing; exit code "
        "1 if something is missing.",
        files,
    )


def run(options, parser):
    """Its work; gives the exit code."""
    recipe, path, images = recipe_of(options, parser)
    from gsp_tf.experiment import check_recipe

    check = check_recipe(recipe, path, images)
    print(check.text())
    return 1 if check.missing else 0
