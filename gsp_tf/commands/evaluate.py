"""`gsp-tf evaluate`: a run evaluated again."""

from gsp_tf.commands.results import show_run


def command(run: str):
    """Evaluate a run again.

    The best model is evaluated, and the report is written.

    Args:
        run: Run folder.
    """
    from gsp_tf import experiment

    folder = experiment.RunFolder(run)
    folder.require(folder.recipe_path)
    recipe = folder.recipe()
    if recipe.protocol.is_ensemble:
        splits = experiment.load_folds(recipe)
        experiment.evaluate_ensemble(folder.path, splits)
    else:
        splits = experiment.load_splits(recipe)
        experiment.evaluate_run(folder.path, splits)
    show_run(folder, recipe, splits)
