"""Training: `train`, `adapt`, `tune`, `check`, `demo`."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Literal

from gsp_tf import runs, tuning
from gsp_tf._console import command_line
from gsp_tf._numbers import Count, NonNegative
from gsp_tf.recipe import DataRecipe, compose, given_values, recipe_values
from gsp_tf.runs import RunFolder, require_run

_LOADING = (
    "name",
    "path",
    "channels",
    "skip_unreadable",
    "min_images_per_class",
    "collage",
    "unlabelled",
)
_NOTHING_GIVEN = """\
a folder of photographs (one folder per class), a .csv file of them or a recipe is needed, such as
  gsp-tf train my_images
  gsp-tf train experiments/demo.yaml --training.epochs 20"""


def train(
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

    On photographs, a pretrained network climbs a ladder: a head on its frozen features trains, then
    its last block, then all of it, each from the best model so far. The best one on validation
    classes is kept. Otherwise, and by a recipe, one model trains as a whole.

    The model is evaluated on unseen classes. Later recipe files override earlier ones field by
    field, and fields on the command line override both them and the choices for photographs.

    Args:
        recipes: Folder of photographs, one folder per class, or a .csv file with the columns path,
            label and, if you like, split; and recipe files (YAML). Fields that are not given are
            chosen to fit the photographs.
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
        changes = _resumed_changes({**fields, **given})
        if RunFolder(resume).is_ladder():
            trained = runs.Ladder(resume).climb(minutes, **changes)
        else:
            require_run(resume)
            _refuse_minutes(minutes, resume)
            trained = runs.open_run(resume).resume(**changes)
    else:
        recipe, path, images = _recipe_of(recipes, fields, skip_unreadable, deterministic)
        of_photographs = _photographs(recipes) is not None
        if of_photographs and runs.climbs(recipe):
            rungs = runs.ladder_recipes(recipe, given_values(recipes[1:], fields))
            splits = runs.load_splits(recipe, images)
            ladder = runs.Ladder.at(run or path, rungs, splits, or_beside=run is None)
            trained = ladder.climb(minutes)
        else:
            _refuse_minutes(minutes, recipe.name)
            trained = runs.open_run(run or _free(path, "train"), recipe)
            if of_photographs and not recipe.protocol.is_ensemble:
                trained.splits = runs.load_splits(recipe, images)
                if trained.splits.unlabelled is not None:
                    print(f"{len(trained.splits.unlabelled):,} images without a class also train.")
            else:
                print(trained.describe(), flush=True)
            trained.train()
    trained.show()
    return _exit_code([trained])


def adapt(
    folder: str,
    *,
    head: Literal["linear", "mlp", "gsp"] = "linear",
    run: str | None = None,
    **fields,
) -> int:
    """Adapt a pretrained network to a folder of photographs, in minutes without a GPU.

    This is the first rung of the ladder of train. The network stays frozen: it computes the
    features of each photograph once, and a small head trains on them. The model of both is compared
    with the network alone, on classes that did not train it. Run the same command again to continue
    after a stop. After photographs were added, changed or removed it trains in another folder.

    Args:
        folder: Folder of photographs, one folder per class, or a .csv file of them, as for train.
        head: linear and mlp map the mean of the features, and start as the network alone, linear
            with a computed map if that is better; gsp chooses among the features of each
            photograph.
        run: Run folder to create or continue; null is runs/NAME-HEAD-SEED, with a number for
            another recipe or other photographs.
    """
    if "initial_run" in fields:
        raise ValueError(
            f"A frozen network starts from weights, not from initial_run={fields['initial_run']}: "
            "give --backbone.name and --backbone.weights RUN."
        )
    if head == "gsp":
        fields = {**fields, "pooling": {"name": "gsp", **fields.get("pooling", {})}}
    once = {"cache": None, **fields.get("data", {})}  # reads each photograph once
    fields = {**fields, "data": once}
    recipe, photographs, images = _fitting(compose([], fields), folder, [], fields)
    if "name" not in fields:
        recipe = replace(recipe, name=f"{recipe.name}-{head}")
    recipe = runs.ladder_recipes(recipe, fields, head)["head"]
    print(runs.choices_text(recipe, photographs), end="\n\n", flush=True)
    path, splits = run or f"runs/{recipe.name}-{recipe.seed}", runs.load_splits(recipe, images)
    ladder = runs.Ladder.at(path, {"head": recipe}, splits, or_beside=run is None)
    ladder.climb().show()
    return _exit_code([ladder])


def tune(
    recipes: list[str] = (),
    *,
    search: list[str] = (),
    trials: Count | None = None,
    objective: str | None = None,
    sampler: Literal["tpe", "random"] | None = None,
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
        recipes: Folder or .csv file of photographs and recipe files, as for train.
        search: What to search, as YAML or as files of it, such as "embedding.dim: [32, 64]" or
            "training.learning_rate: {low: 1e-5, high: 1e-2, log: true}".
        trials: Number of trials, those before --resume included; null is 20, or with --resume as
            many as the search was last asked for.
        objective: Metric of the validation classes; null is the one that chooses the model.
        sampler: How values are chosen; null is tpe, which learns from the earlier trials.
        no_pruning: Train every trial to its end, also those that are behind the others.
        out: Folder to create; null is tuning/NAME-SEED.
        resume: Folder of a search to continue. Several processes may work on one.
    """
    if resume is not None:
        if recipes or search or objective or out or fields or no_pruning or sampler:
            raise ValueError("--resume takes all but --trials from the folder of the search.")
        tuned = tuning.Tuning(resume)
    else:
        space = tuning.TuningSpace.read(search)
        recipe, path, images = _recipe_of(recipes, fields, place="tuning")
        path = out or _free(path, "tune")
        algorithm = sampler or "tpe"
        tuned = tuning.Tuning(path, recipe, space, objective, algorithm, pruning=not no_pruning)
        if images is not None:
            tuned.splits = runs.load_splits(recipe, images)
    is_done = tuned.run(trials)
    tuned.show()
    if not is_done:
        print(f"To continue: {command_line('tune', '--resume', tuned.path)}")
    return 0 if is_done else 130


def check(
    recipes: list[str] = (),
    *,
    run: str | None = None,
    skip_unreadable: bool = False,
    deterministic: bool = False,
    augmented: str | None = None,
    **fields,
) -> int:
    """Say what train would run and what is missing.

    Takes the arguments of train, loads the data, builds the model and computes the loss of one
    batch. Downloads nothing, and writes nothing but the picture of --augmented. The exit code is 1
    if something is missing.

    Args:
        recipes: Folder or .csv file of photographs and recipe files, as for train.
        run: Run folder that train would create.
        skip_unreadable: Skip image files that cannot be read; the same as data.skip_unreadable.
        deterministic: Give the same numbers each time; the same as training.deterministic.
        augmented: PNG file to write, with some training images and what training sees of them.
    """
    recipe, path, images = _recipe_of(recipes, fields, skip_unreadable, deterministic)
    check = runs.check_recipe(recipe, run or _free(path, "train"), images, augmented)
    print(check.text())
    return 1 if check.missing else 0


def demo(*, runs: str = "runs", epochs: Count | None = None, data: str | None = None) -> int:
    """Compare GAP and GSP in a few minutes.

    Both train on collages of letters, or on photographs of yours, and are compared on unseen
    classes.

    Args:
        runs: Folder for the demo's run folders.
        epochs: Epochs of each run; null uses those of the recipe, or 5 for photographs.
        data: Folder of photographs, one folder per class, or a .csv file of them. The network is
            then efficientnet_lite0 with ImageNet weights from the extra [pretrained], which is also
            evaluated untrained.
    """
    from gsp_tf.runs import print_results, run_demo  # an argument has the name of the package

    report, trained = run_demo(runs, epochs, data)
    print_results([run.folder for run in trained])
    print(f"Report: {report}")
    if trained[-1].status == "interrupted":
        words = "train", "--resume", trained[-1].folder.path
        print(f"To continue this run: {command_line(*words)}")
    return _exit_code(trained)


def _recipe_of(recipes, fields, skip_unreadable=False, deterministic=False, place="runs"):
    """The recipe, the path of its folder by name, and its images if they are loaded already."""
    folder, fields = _photographs(recipes), dict(fields)
    files = [*recipes] if folder is None else [*recipes[1:]]
    if skip_unreadable:
        fields["data"] = {**fields.get("data", {}), "skip_unreadable": True}
    if deterministic:
        fields["training"] = {**fields.get("training", {}), "deterministic": True}
    if not files and folder is None and "data" not in fields:
        raise ValueError(_NOTHING_GIVEN)
    recipe, images = compose(files, fields), None
    first = [Path(files[0]).stem] if len(files) > 1 and folder is None else []
    if folder is not None:
        recipe, photographs, images = _fitting(recipe, folder, files, fields)
        print(runs.choices_text(recipe, photographs), end="\n\n", flush=True)
    name = "-".join([*first, recipe.name, str(recipe.seed)])
    return recipe, f"{place}/{name}", images


def _photographs(recipes):
    """The folder or .csv file of photographs that comes first; `None` without one."""
    is_first = recipes and (Path(recipes[0]).is_dir() or Path(recipes[0]).suffix.lower() == ".csv")
    return recipes[0] if is_first else None


def _fitting(recipe, folder, files, fields):
    """The recipe chosen for a folder, under the given fields, its photographs, and those to use.

    The last are `None` if the recipe loads them in another way: then they are not loaded yet.
    """
    data = DataRecipe.of_photographs(
        folder,
        channels=recipe.data.channels,
        min_images_per_class=recipe.data.min_images_per_class,
        unlabelled=recipe.data.unlabelled,
    )
    images = runs.load_images(data)
    given = given_values(files, fields)
    backbone = given.get("backbone", {})
    fixed = [backbone.get("name"), backbone.get("weights"), given.get("initial_run")]
    fixed.append(backbone.get("preset"))
    chosen = runs.choose_recipe(folder, images, *fixed)
    recipe = compose(files, fields, under=recipe_values(chosen))
    is_same = all(getattr(recipe.data, name) == getattr(data, name) for name in _LOADING)
    return recipe, images, images if is_same else None


def _free(path, command):
    """A path without a run: this one, or with the first free number appended."""
    free = next(str(folder.path) for folder in RunFolder(path).numbered() if folder.is_free())
    if free != path:
        begun = Path(path, "recipe.yaml" if command == "train" else "tuning.yaml").is_file()
        resume = command_line(command, "--resume", path)
        continues = f" If the first was stopped, {resume} continues it."
        warnings.warn(
            f"{path} exists, so this run goes to {free}.{continues if begun else ''}",
            stacklevel=2,
        )
    return free


def _resumed_changes(given):
    """The new values of `epochs` and `patience` for a resumed run; refuses any other field."""
    training = given.get("training", {})
    if set(given) - {"training"} or set(training) - {"epochs", "patience"}:
        raise ValueError(
            "--resume takes the recipe of its run folder, and of its fields only "
            "--training.epochs and --training.patience can be given."
        )
    return training


def _refuse_minutes(minutes, name):
    """Refuse a time for a training that would not end after it."""
    if minutes is not None:
        raise ValueError(
            "--minutes is the time of a ladder, which a pretrained network climbs on a folder of "
            f"photographs; {name} trains one model. Give --training.epochs instead."
        )


def _exit_code(runs):
    """The exit code of training: 1, with a message, if a run diverged, 130 if interrupted, or 0."""
    statuses = {run.status for run in runs}
    if "diverged" in statuses:
        print(
            "gsp-tf: error: the loss was not finite; the run holds the model that was best until "
            "then. Try a smaller --training.learning_rate.",
            file=sys.stderr,
        )
        return 1
    return 130 if "interrupted" in statuses else 0
