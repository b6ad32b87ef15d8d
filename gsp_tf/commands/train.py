"""`gsp-tf train`: a training of a folder or a recipe, from its start or where it was stopped."""

from gsp_tf.commands.parsers import recipe_of, recipe_parser, resumed_changes
from gsp_tf.commands.results import exit_code

HELP = "Train on a folder of photographs, or as a recipe says."


def parser(files):
    """Its arguments."""
    arguments = recipe_parser(
        "train",
        "Train on a folder of photographs or as a recipe says, and evaluate on unseen classes.",
        files,
    )
    arguments.add_argument(
        "--resume",
        type=str | None,
        help="Run folder to continue, by the recipe in it. A finished run continues from its last "
        "state with a larger --training.epochs, or another --training.patience.",
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    if options.resume is not None:
        changes = resumed_changes(options, parser)
        from gsp_tf.experiment import open_run

        run = open_run(options.resume).resume(**changes)
    else:
        recipe, path, images = recipe_of(options, parser)
        from gsp_tf.experiment import load_splits, open_run

        run = open_run(path, recipe)
        if images is not None:
            run.splits = load_splits(recipe, images)
        if options.folder is None:
            print(run.describe(), flush=True)
        run.train()
    run.show()
    return exit_code([run])
