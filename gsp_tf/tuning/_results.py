"""What a search leaves: its trials as a table, a page of optuna's plots and the best recipe."""

import csv
import io
import warnings

import matplotlib
from markupsafe import Markup
from matplotlib import pyplot
from rich.console import Console
from rich.table import Table

from gsp_tf._files import csv_cell, replace_text
from gsp_tf.recipe import save_recipe
from gsp_tf.runs import RunFolder
from gsp_tf.tuning._storage import import_optuna
from gsp_tf.visual import display_name, inline_svg, page_template

_FEWEST_FOR_IMPORTANCE = 10
_SHOWN = 10
_STATES = {"FAIL": "failed", "WAITING": "running"}


def state_of(trial):
    """How a trial of optuna ended, in a word."""
    return _STATES.get(trial.state.name, trial.state.name.lower())


def best_of(trials):
    """The best complete trial, the first of equal ones; `None` without one."""
    complete = [trial for trial in trials if state_of(trial) == "complete"]
    return max(complete, key=lambda trial: trial.value, default=None)


def write_results(path, study, space, recipe, objective):
    """Write the table, the best recipe and the page; drop what only running trials need."""
    trials = study.trials
    best = best_of(trials)
    rows = [_row(trial, space.names, objective) for trial in trials]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(map(csv_cell, row.values()) for row in rows)
    replace_text(path / "trials.csv", text.getvalue())
    if best is not None:
        save_recipe(space.recipe(recipe, space.values(best.params)), path / "best.yaml")
    page = page_template("tuning.html").render(
        title=f"Search for {recipe.name}",
        objective=display_name(objective.removeprefix("val_")),
        figures=[] if best is None else figures(study.study, space.names, objective),
        columns=list(rows[0]),
        rows=[list(map(_text, row.values())) for row in _ranked(rows, objective)],
    )
    replace_text(path / "report.html", page)
    for trial in trials:
        folder = RunFolder(study.place(trial.number))
        if state_of(trial) != "running":
            folder.checkpoint_path.unlink(missing_ok=True)
        if state_of(trial) != "running" and trial is not best:
            folder.model_path.unlink(missing_ok=True)


def _row(trial, fields, objective):
    """A trial in the table, by column."""
    attributes = trial.user_attrs
    return {
        "trial": trial.number,
        "state": state_of(trial),
        objective: trial.value,
        "untrained": attributes.get("untrained"),
        "best_epoch": attributes.get("best_epoch"),
        "epochs": len(trial.intermediate_values),
        "seconds": attributes.get("seconds"),
        "note": attributes.get("note", ""),
        **{name: trial.params.get(name) for name in fields},
    }


def _ranked(rows, objective):
    """Complete trials first, the best of them first."""
    states = ("complete", "pruned", "running", "failed")
    return sorted(rows, key=lambda row: (states.index(row["state"]), -(row[objective] or 0)))


def _text(value):
    """A cell as text."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def figures(study, fields, objective):
    """Optuna's plots of a study with a complete trial, as SVG."""
    optuna = import_optuna()
    plots, name = optuna.visualization.matplotlib, display_name(objective.removeprefix("val_"))
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        drawn = [
            plots.plot_optimization_history(study, target_name=name),
            plots.plot_intermediate_values(study),
            *(plots.plot_slice(study, [field], target_name=name) for field in fields),
        ]
        complete = study.get_trials(False, (optuna.trial.TrialState.COMPLETE,))
        values = {trial.value for trial in complete}
        if len(fields) > 1 and min(len(complete), len(values)) >= _FEWEST_FOR_IMPORTANCE:
            evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
            drawn.append(plots.plot_param_importances(study, evaluator, target_name=name))
        shown = [Markup(inline_svg(axes.figure)) for axes in drawn]
        for axes in drawn:
            pyplot.close(axes.figure)
    return shown


def print_trials(path, trials, fields, objective):
    """Print the best trials and where the results are."""
    rows = [_row(trial, fields, objective) for trial in trials]
    rows = [row for row in _ranked(rows, objective) if row[objective] is not None][:_SHOWN]
    columns = ["trial", objective, "untrained", "best_epoch", "epochs", "state", *fields]
    table = Table(*columns, title=f"{len(trials)} trials, {objective}")
    for row in rows:
        table.add_row(*(_text(row[column]) for column in columns))
    Console().print(table)
    for row in rows:
        if row["note"]:
            print(f"Trial {row['trial']}: {row['note']}.")
    print(f"Report: {path / 'report.html'}")
    if best_of(trials) is not None:
        print(f"The best recipe: gsp-tf train {path / 'best.yaml'}")
