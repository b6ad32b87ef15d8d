"""`gsp-tf tune`: search for a better recipe."""

from typing import Literal

from gsp_tf._numbers import Count
from gsp_tf.commands._recipes import free, recipe_of


def command(
    recipes: list[str] = (),
    *,
    search: list[str] = (),
    trials: Count | None = None,
    objective: str | None = None,
    sampler: Literal["tpe", "random"] = "tpe",
    no_pruning: bool = False,
    out: str | None = None,
    resume: str | None = None,
    **fields,
) -> int:
    """Search for the values of a recipe's fields that are best on the validation classes.

    Trains the recipe again and again with values that optuna chooses. The test classes are not
    looked at. Writes a table of the trials, a page, and the best recipe. If the command is stopped,
    --resume continues the search, and the trial that was running.

    Args:
        recipes: Folder of photographs and recipe files, as for train.
        search: What to search, as YAML or as files of it, such as "embedding.dim: [32, 64]" or
            "training.learning_rate: {low: 1e-5, high: 1e-2, log: true}".
        trials: Number of trials, those before --resume included; null is 20, or with --resume as
            many as the search was last asked for.
        objective: Metric of the validation classes; null is the one that chooses the model.
        sampler: How values are chosen; tpe learns from the earlier trials.
        no_pruning: Train every trial to its end, also those that are behind the others.
        out: Folder to create; null is tuning/NAME-SEED.
        resume: Folder of a search to continue. Several processes may work on one.
    """
    if resume is not None:
        if recipes or search or objective or out or fields or no_pruning or sampler != "tpe":
            raise ValueError("--resume takes all but --trials from the folder of the search.")
        from gsp_tf.tuning import Tuning

        tuning = Tuning(resume)
    else:
        from gsp_tf.tuning import Tuning, TuningSpace

        space = TuningSpace.read(search)
        recipe, path, images = recipe_of(recipes, out, fields=fields, place="tuning")
        path = out or free(path, "tune")
        tuning = Tuning(path, recipe, space, objective, sampler, pruning=not no_pruning)
        if images is not None:
            from gsp_tf.runs import load_splits

            tuning.splits = load_splits(recipe, images)
    is_done = tuning.run(trials)
    tuning.show()
    if not is_done:
        print(f"To continue: gsp-tf tune --resume {tuning.path}")
    return 0 if is_done else 130
