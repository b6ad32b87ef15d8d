"""`gsp-tf train`: a training of a folder or a recipe, from its start or where it was stopped."""

from gsp_tf.commands._recipes import recipe_of, require_run, resumed_changes
from gsp_tf.commands.results import exit_code


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
        changes = resumed_changes({**fields, **given})
        require_run(resume)
        from gsp_tf.experiment import open_run

        trained = open_run(resume).resume(**changes)
    else:
        recipe, path, images = recipe_of(recipes, run, skip_unreadable, deterministic, fields)
        from gsp_tf.experiment import load_splits, open_run

        trained = open_run(path, recipe)
        if images is not None:
            trained.splits = load_splits(recipe, images)
        else:
            print(trained.describe(), flush=True)
        trained.train()
    trained.show()
    return exit_code([trained])
