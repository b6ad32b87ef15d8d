"""Print the results of runs as a table in the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from gsp_tf._console import counted
from gsp_tf.runs._baselines import baseline_names, ending_notes
from gsp_tf.runs.folder import RunFolder
from gsp_tf.visual import display_name

_COLUMNS = ("precision_at_1", "r_precision", "map_at_r")
_OF_CLASSIFIERS = ("accuracy",)
_OF_CLASSES = ("nmi", "ami", "f1", "class_wise_map_at_r")


def print_results(folders: Sequence[RunFolder]):
    """Print the test metrics of evaluated runs as one table, in percent.

    Below it stands which epoch the model of each run is of, and how a training was stopped.
    """
    recipes = [folder.recipe() for folder in folders]
    results = [folder.metrics() for folder in folders]
    first = results[0]["test"]
    recalls = [name for name in first if name.startswith("recall_at_") and name != "recall_at_1"]
    counts = results[0]["num_classes"]
    kinds = "image", "class" if "accuracy" in first else "unseen class"
    if recipes[0].data.name == "unlabelled":
        kinds = "view", "unseen image"
    queries, classes = map(counted, (first["num_queries"], counts["test"]), kinds)
    table = Table(title=f"{queries} of {classes}, in percent")
    table.add_column("run")
    columns = [
        *(name for name in _OF_CLASSIFIERS if name in first),
        *_COLUMNS,
        *recalls,
        *(name for name in _OF_CLASSES if name in first),
    ]
    for name in columns:
        table.add_column(display_name(name).replace("Recall", "R"), justify="right")
    rows = [  # the runs of a protocol start from the same network
        (name, *_cells(result[key], columns))
        for recipe, result in zip(recipes, results, strict=True)
        for key, name in baseline_names(recipe).items()
        if key in result
    ]
    for row in dict.fromkeys(rows):
        table.add_row(*row)
    for recipe, result in zip(recipes, results, strict=True):
        table.add_row(recipe.name, *_cells(result["test"], columns))
    Console().print(table)
    for recipe, result in zip(recipes, results, strict=True):
        for note in ending_notes(recipe, result):
            print(f"{recipe.name}: {note}")


def _cells(metrics, names):
    """Metrics in percent as texts."""
    return tuple(f"{100 * metrics[name]:.2f}" if name in metrics else "–" for name in names)
