"""`gsp-tf train`: train on a folder or by a recipe, or continue a run."""

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
    """Train on a folder of photographs or by a recipe.

    The model is evaluated on unseen classes. Later recipe files override earlier ones field by
    field, and fields on the command line override the files. Both override the choices for a folder
    of photographs, or the defaults shown here.

    Args:
        recipes: Folder of photographs, one folder per class, and recipe files (YAML). Fields that
            are not given are chosen to fit the folder.
        run: Run folder to create; null is runs/NAME-SEED. With several recipe files it is
            runs/FIRST-NAME-SEED: FIRST is the first file, and NAME combines the others unless one
            sets it.
        resume: Run folder to continue, by the recipe in it. A finished run continues from its last
            state with a larger --training.epochs or another --training.patience.
        skip_unreadable: Skip image files that cannot be read; the same as data.skip_unreadable.
        deterministic: Give the same numbers each time; the same as training.deterministic.
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
            if trained.splits.unlabelled is not None:
                print(f"{len(trained.splits.unlabelled):,} images without a class also train.")
        else:
            print(trained.describe(), flush=True)
        trained.train()
    trained.show()
    return exit_code([trained])
