"""`gsp-tf evaluate`: a run evaluated again."""

from gsp_tf.commands.parsers import command_parser
from gsp_tf.commands.results import show_run

HELP = "Evaluate a run again."


def parser():
    """Its arguments."""
    arguments = command_parser("Evaluate the best model of a run again and write its report.")
    arguments.add_argument("run", type=str, help="Run folder.")
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    from gsp_tf import experiment

    folder = experiment.RunFolder(options.run)
    folder.require(folder.recipe_path)
    recipe = folder.recipe()
    if recipe.protocol.is_ensemble:
        splits = experiment.load_folds(recipe)
        experiment.evaluate_ensemble(folder.path, splits)
    else:
        splits = experiment.load_splits(recipe)
        experiment.evaluate_run(folder.path, splits)
    show_run(folder, recipe, splits)
    return 0
