"""`gsp-tf train`: train on a folder or by a recipe, or continue a run."""

from gsp_tf._numbers import NonNegative
from gsp_tf.commands._recipes import free, is_ladder, recipe_of, require_run, resumed_changes
from gsp_tf.commands._results import exit_code
from gsp_tf.recipe import given_values


def command(
    recipes: list[str] = (),
    *,
    run: str | None = None,
    resume: str | None = None,
    minutes: NonNegative | None = None,
    skip_unreadable: bool = False,
    deterministic: bool = False,
    **fields,
) -> int:
    """Train on a folder of photographs or by a recipe.

    A pretrained network on a folder climbs a ladder: a head on its frozen features trains, then its
    last block, then all of it, each from the best model so far. The best one on validation classes
    is kept. Otherwise, and by a recipe, one model trains as a whole.

    The model is evaluated on unseen classes. Later recipe files override earlier ones field by
    field, and fields on the command line override both them and the choices for a folder.

    Args:
        recipes: Folder of photographs, one folder per class, and recipe files (YAML). Fields that
            are not given are chosen to fit the folder.
        run: Run folder to create; null is runs/NAME-SEED. With several recipe files it is
            runs/FIRST-NAME-SEED: FIRST is the first file, and NAME combines the others unless one
            sets it.
        resume: Run folder to continue, by the recipe in it. A finished run continues from its last
            state with a larger --training.epochs or another --training.patience.
        minutes: Time for a ladder, after which the epoch ends; null sets no limit.
        skip_unreadable: Skip image files that cannot be read; the same as data.skip_unreadable.
        deterministic: Give the same numbers each time; the same as training.deterministic.
    """
    if resume is not None:
        others = {"recipes": recipes, "run": run, "skip": skip_unreadable, "same": deterministic}
        given = {name: value for name, value in others.items() if value}
        changes = resumed_changes({**fields, **given})
        if is_ladder(resume):
            from gsp_tf.runs import Ladder

            trained = Ladder(resume).climb(minutes, **changes)
        else:
            require_run(resume)
            from gsp_tf.runs import open_run

            trained = open_run(resume).resume(**changes)
    else:
        recipe, path, images = recipe_of(recipes, run, skip_unreadable, deterministic, fields)
        from gsp_tf.runs import Ladder, climbs, ladder_recipes, load_splits, open_run

        if images is not None and climbs(recipe):
            rungs = ladder_recipes(recipe, given_values(recipes[1:], fields))
            splits = load_splits(recipe, images)
            trained = Ladder.at(path, rungs, splits, or_beside=run is None).climb(minutes)
        else:
            trained = open_run(run or free(path, "train"), recipe)
            if images is not None:
                trained.splits = load_splits(recipe, images)
                if trained.splits.unlabelled is not None:
                    print(f"{len(trained.splits.unlabelled):,} images without a class also train.")
            else:
                print(trained.describe(), flush=True)
            trained.train()
    trained.show()
    return exit_code([trained])
