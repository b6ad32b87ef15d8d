"""`gsp-tf train`: a training as a recipe says, from its start or where it was stopped."""

from gsp_tf.commands.parsers import recipe_of, recipe_parser
from gsp_tf.commands.results import exit_code, show_run
from gsp_tf.recipe import Recipe

HELP = "Train as a recipe says."


def parser(files):
    """Its arguments."""
    arguments = recipe_parser(
        "train", "Train as a recipe says and evaluate on unseen classes.", files
    )
    arguments.add_argument(
        "--resume", type=str | None, help="Run folder to go on with, by the recipe in it."
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    recipe, path = recipe_of(options, parser)
    if options.resume is not None and (recipe != Recipe() or options.run is not None):
        raise ValueError("--resume takes the recipe of its run folder and no other option.")
    from gsp_tf import experiment
    from gsp_tf.lock import locked

    if options.resume is None:
        folder = experiment.RunFolder(path)
        folder.refuse_existing()
    else:
        folder = experiment.RunFolder(options.resume)
        folder.require(folder.recipe_path)
        recipe = folder.recipe()
    with locked(folder.path):
        if recipe.protocol.is_ensemble:
            splits = experiment.load_folds(recipe)
            train, resume = experiment.train_ensemble, experiment.resume_ensemble
        else:
            splits = experiment.load_splits(recipe)
            train, resume = experiment.train_recipe, experiment.resume_run
        if options.resume is None:
            train(recipe, folder.path, splits)
        else:
            resume(folder.path, splits)
        return exit_code(show_run(folder, recipe, splits))
