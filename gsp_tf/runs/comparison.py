"""One table of many runs, in the form of the papers' tables."""

import functools
import os
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gsp_tf._files import csv_table, replace_text
from gsp_tf._typing import PathLike
from gsp_tf.runs._baselines import baselines, untrained_note
from gsp_tf.runs.folder import RunFolder
from gsp_tf.visual import display_name

_OF_CLASSES = ("nmi", "f1", "class_wise_map_at_r")

_BEST = "best R@1"
_MARKS = {
    "†": "training was interrupted",
    "‡": "no epoch was better than the untrained model",
    "§": "the last epoch was the best: longer training may give more",
}


class _Cell(NamedTuple):
    """A metric over runs, in percent."""

    mean: float
    std: float | None  # sample standard deviation; None for a single value
    marks: str = ""  # those of `_MARKS` that hold for a run

    def __str__(self):
        deviation = "" if self.std is None else f" ± {self.std:.2f}"
        return f"{self.mean:.2f}{deviation}{self.marks}"


class _Column(NamedTuple):
    """The subject of a column."""

    dataset: str  # with the protocol if the runs have several
    dimension: str  # such as "512D"
    metric: str  # such as "MAP@R"


class Comparison:
    """The results of runs: one row per method, one column per data set and metric.

    A method is the name of a recipe. Runs of one method on one data set have different seeds; their
    cell shows the mean and the sample standard deviation. Rows before a method that began with
    pretrained weights show its network without training and with a linear head, in the columns of
    the method; those of the models of protocol mlrc are left out. A run of protocol mlrc gives two
    results: the mean of its models, and the concatenation of one model per fold. With repeats, a
    single such run has its own deviation, over every choice of models. The best Recall@1 of several
    conventional runs is also shown, because the thesis reports it (Gürbüz 2022, section 5.3.4.1). A
    run with interrupted training counts with its best model so far, and is marked; so is a run
    whose model is the untrained one, or that of its last epoch. A note has the best epoch of every
    run, where 0 is the untrained model.

    Args:
        paths: folders of `Run` or `Ensemble`.
        skip: whether to leave out runs that cannot be compared instead of raising an error.

    Attributes:
        skipped: list of str, the reasons why folders are left out.

    Raises:
        FileNotFoundError: if a folder is not a run folder.
        ValueError: if there is no run, a run has no results yet, a run is given twice, or two
            results of a column have different test classes or numbers of test images. With `skip`,
            only if no run is left.

    Example:
        >>> Comparison([])
        Traceback (most recent call last):
            ...
        ValueError: A comparison needs a run folder, received none.
    """

    def __init__(self, paths: Sequence[PathLike], skip: bool = False):
        self.skipped = []
        self._skip = skip
        runs = [*self._accepted(_Result, paths)]
        if not runs:
            reasons = "".join(f"\n  {reason}" for reason in self.skipped)
            raise ValueError(f"A comparison needs a run folder, received none.{reasons}")
        _name_datasets(runs)
        datasets = list(dict.fromkeys(run.dataset for run in runs))
        values = defaultdict(lambda: defaultdict(list))
        self._marked = {mark: defaultdict(list) for mark in _MARKS}
        self._best_epochs = defaultdict(list)
        comparable = functools.partial(_comparable, firsts={}, seeds=set())
        for run in self._accepted(comparable, runs):
            for mark in run.marks:
                self._marked[mark][run.method].append(str(run.path))
            if run.best_epoch is not None:
                self._best_epochs[run.method].append(run.best_epoch)
            for method, cells in run.rows().items():
                for (dimension, metric), cell in cells.items():
                    of_runs = values[method][_Column(run.dataset, dimension, metric)]
                    if method == run.method or cell not in of_runs:  # one network, several seeds
                        of_runs.append(cell)
        for row in values.values():
            for column in [c for c in row if c.metric == "R@1" and len(row[c]) > 1]:
                row[column._replace(metric=_BEST)].append(max(row[column]))
        metrics = _metric_order(runs)
        self.columns = sorted(
            {column for row in values.values() for column in row},
            key=lambda c: (
                datasets.index(c.dataset),
                -int(c.dimension[:-1]),
                metrics.index(c.metric),
            ),
        )
        self.rows = {
            method: {column: _over_runs(cells) for column, cells in row.items()}
            for method, row in values.items()
        }

    def _accepted(self, make, items):
        """What is made of each item, without those that are refused if these are left out."""
        for item in items:
            try:
                yield make(item)
            except (OSError, ValueError) as error:
                if not self._skip:
                    raise
                self.skipped.append(str(error))

    def markdown(self) -> str:
        """The table as Markdown, `mean ± deviation` in percent."""
        header = ["method", *(" ".join(column) for column in self.columns)]
        lines = [["---"] + ["---:"] * len(self.columns)]
        for method, row in self.rows.items():
            cells = [str(row.get(column, "–")) for column in self.columns]
            lines.append([method, *cells])
        lines = [[cell.replace("|", "\\|") for cell in line] for line in (header, *lines)]
        table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        return table + "".join(f"\n{note}\n" for note in self._footnotes())

    def csv(self) -> str:
        """The table as CSV: each mean, each deviation, and how many runs have each mark."""
        names = [" ".join(column) for column in self.columns]
        numbers = [n for name in names for n in (name, f"{name} std")]
        names_of_counts = "interrupted runs", "untrained runs", "runs with the last epoch"
        rows = [["method", *numbers, *names_of_counts]]
        for method, row in self.rows.items():
            cells = [row.get(column, _Cell(None, None)) for column in self.columns]
            values = [value for cell in cells for value in (cell.mean, cell.std)]
            counts = [len(marked.get(method, ())) for marked in self._marked.values()]
            rows.append([method, *values, *counts])
        return csv_table(rows)

    def write(self, folder: PathLike) -> list[Path]:
        """Write `table.md` and `table.csv` to a folder and return their paths."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"md": self.markdown(), "csv": self.csv()}
        paths = {folder / f"table.{suffix}": text for suffix, text in texts.items()}
        for path, text in paths.items():
            replace_text(path, text)
        return list(paths)

    def _footnotes(self):
        if self._best_epochs:
            found = (f"{name} {', '.join(of)}" for name, of in self._best_epochs.items())
            yield f"best epoch (0 is before training): {'; '.join(found)}"
        for mark, marked in self._marked.items():
            if marked:
                paths = ", ".join(path for paths in marked.values() for path in paths)
                yield f"{mark} {_MARKS[mark]}: {paths}"


class _Result:
    """The parts of a run folder that a table needs."""

    def __init__(self, path):
        folder = RunFolder(path)
        folder.require(folder.recipe_path)
        recipe, metrics = folder.recipe(), folder.metrics()
        self.path = folder.path
        self.method, self.seed = recipe.name, recipe.seed
        self.protocol = recipe.protocol.name
        self._dim = recipe.embedding.dim
        self._num_folds = recipe.protocol.num_folds
        self._is_ensemble = recipe.protocol.is_ensemble
        self._baselines = {
            f"{recipe.name}, {name}": baseline.metrics
            for name, baseline in baselines(recipe, metrics).items()
        }
        self._result = metrics.get("ensemble" if self._is_ensemble else "test")
        status = metrics.get("status", "not known")
        interrupted = status == "interrupted"
        best, epochs = metrics.get("best_epoch", 0) or 0, metrics.get("epochs")
        is_last = status == "finished" and bool(epochs) and best == epochs
        in_vain = untrained_note(metrics) is not None and bool(epochs)
        self.marks = "†" * interrupted + "‡" * in_vain + "§" * is_last
        self.best_epoch = f"{best} of {epochs}" if epochs and "best_epoch" in metrics else None
        if self._result is None or not (folder.is_trained() or interrupted):
            raise ValueError(f"{self.path} has no final results yet: its status is {status!r}.")
        self.dataset, self.path_of_data = _names_of_data(recipe.data)
        self.test_classes = metrics.get("test_classes")
        self.num_images = sum(self._result.get(f"num_{name}", 0) for name in ("queries", "skipped"))

    def metrics(self):
        """Names of the metrics to show, with their names in the papers."""
        names = self._result["concatenated"]["mean"] if self._is_ensemble else self._result
        if self.protocol == "conventional":
            shown = {n: f"R@{n[10:]}" for n in names if n.startswith("recall_at_")}
        else:
            shown = {"precision_at_1": "P@1", "map_at_r": "MAP@R"}
        return shown | {n: display_name(n) for n in _OF_CLASSES if n in names}

    def rows(self):
        """Results by the name of a method: those of what the run is compared with, and its own."""
        baselines = {name: self._cells(found) for name, found in self._baselines.items()}
        return {**baselines, self.method: self.results()}

    def _cells(self, values, deviations=None, models=1, marks=""):
        """Cells of the metrics that are there, of the embeddings of models together."""
        dimension = f"{models}C" if self._dim is None else f"{models * self._dim}D"  # C without map
        cells = {}
        for name, shown in self.metrics().items():
            if name in values:
                std = None if deviations is None else deviations[name]
                cell = _Cell(100 * values[name], None if std is None else 100 * std, marks)
                cells[dimension, shown] = cell
        return cells

    def results(self):
        """dict from dimension and metric to `Cell`."""
        if not self._is_ensemble:
            return self._cells(self._result, marks=self.marks)
        single, joined = self._result["separated"], self._result["concatenated"]
        cells = self._cells(joined["mean"], joined["std"], self._num_folds, self.marks)
        return cells | self._cells(single["mean"], single["std"], 1, self.marks)


def _comparable(run, firsts, seeds):
    """The run; refuses other test images than the first of its column has, and a seed again."""
    first, key = firsts.setdefault(run.dataset, run), (run.method, run.dataset, run.seed)
    differing = None
    if first.test_classes != run.test_classes:
        differing = "classes"
    elif first.num_images != run.num_images:
        differing = f"images ({run.num_images:,} and {first.num_images:,})"
    if differing is not None:
        raise ValueError(
            f"{run.path} and {first.path} have different test {differing}, so that one column "
            f"({run.dataset}) cannot hold both."
        )
    if key in seeds:
        raise ValueError(
            f"{run.path} is a second run of {run.method!r} on {run.dataset} with seed {run.seed}; "
            "the runs of a method need different seeds."
        )
    seeds.add(key)
    return run


def _name_datasets(runs):
    """Add paths to data sets with the same name, and protocols if there are several."""
    several = len({run.protocol for run in runs}) > 1
    paths = defaultdict(dict)  # a folder has one name, however a recipe gives its path
    for run in runs:
        paths[run.dataset].setdefault(os.path.abspath(run.path_of_data), run.path_of_data)
    for run in runs:
        same = paths[run.dataset]
        name = run.dataset if len(same) == 1 else same[os.path.abspath(run.path_of_data)]
        run.dataset = name + (f", {run.protocol}" if several else "")


def _names_of_data(recipe):
    """The name of a data set in a table, and a longer one in case another set has that name."""
    name = full = recipe.name
    if recipe.name in ("folder", "manifest"):
        path = Path(recipe.path)
        name, full = (path.stem if recipe.name == "manifest" else path.name), str(path)
    form = " collage" if recipe.collage.grid else ""
    if recipe.canvas.name is not None:
        form = f" {recipe.canvas.share:.0%} of a canvas"
    return name + form, full + form


def _metric_order(runs):
    order = list(dict.fromkeys(shown for run in runs for shown in run.metrics().values()))
    if "R@1" in order:
        order.insert(order.index("R@1") + 1, _BEST)
    return order


def _over_runs(cells):
    if len(cells) == 1:
        return cells[0]
    means = [cell.mean for cell in cells]
    marks = "".join(mark for mark in _MARKS if any(mark in cell.marks for cell in cells))
    return _Cell(statistics.mean(means), statistics.stdev(means), marks)
