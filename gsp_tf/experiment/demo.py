"""The demo: GAP against GSP on collages of letters."""

from datetime import datetime
from importlib import resources
from pathlib import Path

from gsp_tf._typing import PathLike
from gsp_tf.experiment.report import report_runs
from gsp_tf.experiment.run import Run
from gsp_tf.recipe import load_recipe

_GAP = ["--name", "GAP", "--pooling.name", "gap", "--zero_shot.weight", "0"]


def run_demo(runs: PathLike, epochs: int | None = None) -> tuple[Path, list[Run]]:
    """Train the demo's recipe with GAP and with GSP, and write one report about both.

    Args:
        runs: parent of the new folder for this demo.
        epochs: epochs of each run; `None` takes those of the recipe.

    Returns:
        the path of the report, and the two runs, or only the first if it was interrupted.

    Example:
        report, runs = run_demo("runs", epochs=5)
    """
    folder = Path(runs) / f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    length = [] if epochs is None else ["--training.epochs", str(epochs)]
    with resources.as_file(resources.files("gsp_tf") / "recipes" / "demo.yaml") as path:
        recipes = [load_recipe(path, [*_GAP, *length]), load_recipe(path, length)]
    trained = []
    for recipe in recipes:
        print(f"Training {recipe.name}", flush=True)
        run = Run(folder / recipe.name.lower(), recipe)
        if trained:
            run.splits = trained[0].splits
        trained.append(run.train())
        if run.status == "interrupted":
            break
    title = "GAP and GSP on collages of unseen letters"
    return report_runs(trained, folder / "report.html", title), trained
