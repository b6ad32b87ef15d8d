"""`gsp-tf train`: a training of a folder or a recipe, from its start or where it was stopped."""

from gsp_tf.commands._recipes import recipe_of, resumed_changes
from gsp_tf.commands.results import exit_code, show_run


def command(
    recipes: list[str] = (),
    *,
    run: str | None = None,
    resume: str | None = None,
    skip_unreadable: bool = False,
    deterministic: bool = False,
    **fields,
) -> int:
    """Train on a folder of photographs, or as a recipe says.

    The model is evaluated on unseen classes. Of several recipe files later ones win field by field,
    a field on the command line wins over them, and they win over what is chosen for a folder of
    photographs (one folder per class), or over the defaults shown here.

    Args:
        recipes: Folder of photographs, one folder per class, for which everything is chosen that is
            not said here, and recipe files (YAML).
        run: Run folder to create; null is runs/NAME-SEED, or with several recipe files
            runs/FIRST-NAME-SEED, whose NAME is that of the others, unless one of them says it.
        resume: Run folder to continue, by the recipe in it. A finished run continues from its last
            state with a larger --training.epochs, or another --training.patience.
        skip_unreadable: Continue without image files that cannot be read; the same as
            data.skip_unreadable.
        deterministic: The same numbers each time; the same as training.deterministic.
    """
    if resume is not None:
        others = {"recipes": recipes, "run": run, "skip": skip_unreadable, "same": deterministic}
        given = {name: value for name, value in others.items() if value}
        return _resume(resume, resumed_changes({**fields, **given}))
    recipe, path, images = recipe_of(recipes, run, skip_unreadable, deterministic, fields)
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
        if images is None:
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
