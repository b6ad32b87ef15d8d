"""`gsp-tf train`: a training of a folder or a recipe, from its start or where it was stopped."""

from gsp_tf.commands.parsers import recipe_of, recipe_parser, resumed_changes
from gsp_tf.commands.results import exit_code, show_run

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
        return _resume(options.resume, resumed_changes(options, parser))
    recipe, path, images = recipe_of(options, parser)
    from gsp_tf import experiment
    from gsp_tf._files import locked
    from gsp_tf.experiment import data_facts, facts_table, model_facts, training_facts

    folder = experiment.RunFolder(path)
    folder.refuse_existing()
    with locked(folder.path):
        if recipe.protocol.is_ensemble:
            train, splits = experiment.train_ensemble, experiment.load_folds(recipe)
        else:
            train, splits = experiment.train_recipe, experiment.load_splits(recipe, images)
        if options.folder is None:
            folds = splits if recipe.protocol.is_ensemble else [splits]
            facts = data_facts(recipe, folds) | model_facts(recipe) | training_facts(recipe)
            print(facts_table(facts), flush=True)
        train(recipe, folder.path, splits)
        return exit_code(show_run(folder, recipe, splits))


def _resume(path, changes):
    from gsp_tf import experiment
    from gsp_tf._files import locked

    folder = experiment.RunFolder(path)
    folder.require(folder.recipe_path)
    with locked(folder.path):
        recipe = folder.recipe()
        if recipe.protocol.is_ensemble:
            resume, splits = experiment.resume_ensemble, experiment.load_folds(recipe)
        else:
            resume, splits = experiment.resume_run, experiment.load_splits(recipe)
        resume(folder.path, splits, changes)
        return exit_code(show_run(folder, folder.recipe(), splits))
