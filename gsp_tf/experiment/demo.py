"""The main job: GAP against GSP on collages of letters."""

from datetime import datetime
from importlib import resources
from pathlib import Path

from gsp_tf.experiment.data import load_splits
from gsp_tf.experiment.report import report_runs
from gsp_tf.experiment.run import train_recipe
from gsp_tf.recipe import load_recipe

_GAP = ["--name", "GAP", "--pooling.name", "gap", "--zero_shot.weight", "0"]


def run_demo(runs, epochs=None):
    """Train the demo's recipe with GAP and with GSP, and write one report about both.

    Args:
        runs: folder in which a folder for this demo is made.
        epochs: epochs of each run, `None` as in the recipe.

    Returns:
        path of the report, and the run folders: two, or one if the first was interrupted.
    """
    folder = Path(runs) / f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    length = [] if epochs is None else ["--training.epochs", str(epochs)]
    paths = []
    with resources.as_file(resources.files("gsp_tf") / "recipes" / "demo.yaml") as path:
        recipes = [load_recipe(path, [*_GAP, *length]), load_recipe(path, length)]
    splits = load_splits(recipes[0])
    for recipe in recipes:
        print(f"Training {recipe.name}", flush=True)
        run = train_recipe(recipe, folder / recipe.name.lower(), splits)
        paths.append(run.path)
        if run.metrics()["status"] == "interrupted":
            break
    report = report_runs(
        paths, folder / "report.html", "GAP and GSP on collages of unseen letters", splits
    )
    return report, paths
