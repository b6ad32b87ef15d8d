"""What a search leaves: its trials as a table, a page and the best recipe."""

import csv
import io

from rich.console import Console
from rich.table import Table

from gsp_tf._files import csv_cell, replace_text
from gsp_tf.recipe import save_recipe
from gsp_tf.runs import RunFolder
from gsp_tf.tuning._storage import import_optuna
from gsp_tf.visual import (
    TrialResult,
    display_name,
    short_names,
    value_text,
    write_tuning_page,
)

_FEWEST_FOR_IMPORTANCE = 10
_SHOWN = 10


def trial_results(study, space):
    """What the study knows about its trials, by number."""
    states = {"FAIL": "failed", "WAITING": "running"}
    return [
        TrialResult(
            number=trial.number,
            state=states.get(trial.state.name, trial.state.name.lower()),
            value=trial.value,
            values=space.values(trial.params),
            by_epoch=dict(trial.intermediate_values),
            untrained=trial.user_attrs.get("untrained"),
            best_epoch=trial.user_attrs.get("best_epoch"),
            seconds=trial.user_attrs.get("seconds"),
            note=trial.user_attrs.get("note", ""),
        )
        for trial in study.trials
    ]


def best_of(results):
    """The best complete trial, the first of equal ones; `None` without one."""
    complete = [result for result in results if result.state == "complete"]
    return max(complete, key=lambda result: result.value, default=None)


def write_results(path, study, space, recipe, objective):
    """Write the table, the best recipe and the page; drop what only running trials need."""
    results = trial_results(study, space)
    best = best_of(results)
    _write_table(path / "trials.csv", results, space.names, objective)
    if best is not None:
        save_recipe(space.recipe(recipe, best.values), path / "best.yaml")
    logs = [name for name in space.names if space.is_log(name)]
    page = path / "report.html", f"Search for {recipe.name}", objective, results, logs
    write_tuning_page(*page, importance(study, results))
    for result in results:
        folder = RunFolder(study.place(result.number))
        if result.state != "running":
            folder.checkpoint_path.unlink(missing_ok=True)
        if result.state != "running" and result is not best:
            folder.model_path.unlink(missing_ok=True)


def _write_table(path, results, fields, objective):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    counts = "untrained", "best_epoch", "epochs", "seconds", "note"
    writer.writerow(["trial", "state", objective, *counts, *fields])
    for one in results:
        trained = one.value, one.untrained, one.best_epoch, len(one.by_epoch)
        numbers = one.number, one.state, *trained, one.seconds, one.note
        values = [one.values.get(name) for name in fields]
        values = [value if _is_scalar(value) else value_text(value) for value in values]
        writer.writerow(map(csv_cell, [*numbers, *values]))
    replace_text(path, text.getvalue())


def importance(study, results):
    """The share of the variance that each field explains; `None` for few trials."""
    complete = [result for result in results if result.state == "complete"]
    values = {result.value for result in complete}
    if min(len(complete), len(values)) < _FEWEST_FOR_IMPORTANCE or len(results[0].values) < 2:
        return None
    evaluator = import_optuna().importance.FanovaImportanceEvaluator(seed=0)
    return import_optuna().importance.get_param_importances(study.study, evaluator=evaluator)


def print_trials(path, results, fields, objective):
    """Print the best trials and where the results are."""
    shown = [result for result in results if result.value is not None]
    shown.sort(key=lambda result: (result.state != "complete", -result.value))
    table = Table(title=f"{len(results)} trials, {objective}")
    for name in ("trial", objective.removeprefix("val_"), "epoch 0", "best epoch"):
        table.add_column(display_name(name), justify="right")
    table.add_column("state")
    for name in short_names(fields):
        table.add_column(name, justify="right")
    for result in shown[:_SHOWN]:
        values = [value_text(result.values.get(name)) for name in fields]
        before = "–" if result.untrained is None else f"{result.untrained:.4f}"
        counts = str(result.number), f"{result.value:.4f}", before, result.best_epoch_text
        table.add_row(*counts, result.state, *values)
    Console().print(table)
    for result in shown[:_SHOWN]:
        if result.note:
            print(f"Trial {result.number}: {result.note}.")
    print(f"Report: {path / 'report.html'}")
    if best_of(results) is not None:
        print(f"The best recipe: gsp-tf train {path / 'best.yaml'}")


def _is_scalar(value):
    return value is None or isinstance(value, bool | int | float | str)
