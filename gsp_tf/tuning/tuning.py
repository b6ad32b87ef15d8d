"""Search for the best recipe, trial by trial."""

import contextlib
import dataclasses
import functools
import sqlite3
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import keras
import matplotlib
import numpy as np
import yaml
from filelock import FileLock
from markupsafe import Markup
from matplotlib import pyplot
from rich.console import Console
from rich.table import Table

from gsp_tf._arguments import check_choice, check_sizes
from gsp_tf._console import as_cell, command_line, counted, to_install
from gsp_tf._files import (
    advising,
    csv_table,
    locked,
    read_sealed_text,
    reason,
    replace_bytes,
    replace_text,
    sealed_text,
)
from gsp_tf._typing import PathLike
from gsp_tf.recipe import (
    Recipe,
    compose,
    load_values,
    plain_values,
    recipe_values,
    resolved,
    save_recipe,
    values_text,
)
from gsp_tf.runs import Run, RunFolder, Splits, load_splits
from gsp_tf.tuning.space import TuningSpace
from gsp_tf.visual import display_name, inline_svg, write_page

if TYPE_CHECKING:
    import optuna

_Sampler = Literal["tpe", "random"]
_TRIALS, _SHOWN = 20, 10
_FEWEST_FOR_IMPORTANCE = 10
_SECONDS = 60  # that SQLite waits for another process
_STATES = {"FAIL": "failed"}
_TRIALS_BEFORE_PRUNING = 5
_MOST_FAILURES = 3  # before any trial has succeeded
_OF_BATCHES = (
    "classes_per_batch",
    "images_per_class",
    "unlabelled_per_batch",
    "horizontal_flip",
    "augmentation",
)
_OUT_OF_MEMORY = ("ResourceExhaustedError", "OutOfMemoryError", "MemoryError")


class Tuning:
    """A search for the values of a recipe's fields that are best on the validation classes.

    Each trial trains the recipe with other values, which optuna proposes from the earlier trials.
    Its objective is a metric of the validation classes, at the epoch with the best model. The model
    before training does not count, because it says nothing about most values: it is epoch 0 in
    curves and tables, and a trial in which no epoch is better has a note. The test classes are
    never evaluated: train the best recipe to do so.

    Several processes may work on one folder. A killed trial is continued from its checkpoint.

    Args:
        path: folder of the search.
        recipe: the recipe to change, for a new folder; `None` opens an existing search.
        search: ranges and choices by the full name of a field, or a `TuningSpace`.
        objective: metric of the validation classes, such as "val_recall_at_1"; `None` is the one
            that chooses the model, in most recipes "val_map_at_r".
        sampler: "tpe" (tree-structured Parzen estimator, Bergstra et al. 2011) or "random".
        pruning: end a trial whose objective is below the median of earlier trials at an epoch. It
            begins with the sixth trial, and in each trial after a quarter of its epochs.

    Attributes:
        path: the folder.
        recipe: the recipe to change.
        space: the `TuningSpace`.
        objective: the metric.
        splits: the images, loaded on first use; trials share them.

    Raises:
        FileExistsError: if a recipe is given and the folder holds anything.
        FileNotFoundError: if no recipe is given and the folder holds no search.
        ImportError: if optuna is not installed.
        ValueError: if there is no such sampler, the search does not fit the recipe, or the recipe
            has no validation classes of its own.

    Example:
        tuning = Tuning("tuning/birds", recipe, {"loss.margin": {"low": 0.05, "high": 0.5}})
        tuning.run(trials=20)
        Run("runs/best", tuning.best_recipe()).train()
    """

    def __init__(
        self,
        path: PathLike,
        recipe: Recipe | None = None,
        search: Mapping[str, Any] | TuningSpace | None = None,
        objective: str | None = None,
        sampler: _Sampler = "tpe",
        pruning: bool = True,
    ):
        _import_optuna()
        check_choice("sampler", sampler, _Sampler)
        self.path = Path(path)
        self._settings_path = self.path / "tuning.yaml"
        self._trials = None
        if recipe is None:
            self._open()
        else:
            self._prepare(recipe, search, objective, sampler, pruning)

    def _prepare(self, recipe, search, objective, sampler, pruning):
        if not RunFolder(self.path).is_free():
            is_search = self._settings_path.is_file()
            raise FileExistsError(
                f"{self.path} exists. Choose another folder"
                + (f", or continue the search in it: {self._command}" if is_search else ".")
            )
        self.recipe = resolved(recipe)
        protocol = self.recipe.protocol
        if protocol.is_ensemble:
            raise ValueError(
                "A trial trains one model, and protocol.name=mlrc one for each fold: give "
                "protocol.fold, whose classes then judge the trials."
            )
        if protocol.name == "conventional":
            raise ValueError(
                "With protocol.name=conventional the test classes choose the model, and a search "
                "must not look at them. Search with tuning or mlrc and a fold, then train the best "
                "recipe with --protocol.name conventional."
            )
        space = search if isinstance(search, TuningSpace) else TuningSpace(search or {})
        self.space = space.fitted(self.recipe)
        self.objective = objective or self.recipe.monitor
        if not self.objective.startswith("val_"):
            raise ValueError(
                "The objective is a metric of the validation classes, such as val_map_at_r or "
                f"val_recall_at_1; received {self.objective}."
            )
        self._sampler, self._pruning = sampler, pruning

    def _open(self):
        if not self._settings_path.is_file():
            raise FileNotFoundError(
                f"{self.path} holds no search: it has no {self._settings_path.name}."
            )
        text = read_sealed_text(self._settings_path)
        try:
            settings = load_values(text)
            self.recipe = compose([], settings["recipe"], resolve=False)
            self.space = TuningSpace(settings["search"])
            self.objective, self._sampler = settings["objective"], settings["sampler"]
            self._pruning, self._trials = settings["pruning"], settings["trials"]
        except (ValueError, KeyError, TypeError, yaml.YAMLError) as error:
            raise ValueError(f"{self._settings_path} is damaged: {error}") from error

    @functools.cached_property
    def splits(self) -> Splits:
        return load_splits(self.recipe)

    def run(self, trials: int | None = None) -> bool:
        """Run trials until there are so many, those of earlier calls and other processes included.

        After each trial, `trials.csv`, `best.yaml` and `report.html` in the folder are up to date.
        Only the best of the finished trials keeps its model.

        Args:
            trials: number of trials, also of failed and pruned ones. `None` is the number of the
                last call in this folder, or 20.

        Returns:
            False if Ctrl-C stopped it; the next call continues the trial.

        Raises:
            ValueError: if `trials` is below 1, the data cannot be used, or the first trials all
                fail.
        """
        if trials is not None:
            check_sizes(trials=trials)
        self.splits  # noqa: B018  (refuses unusable images before anything is written)
        before, self._trials = self._trials, trials or self._trials or _TRIALS
        with advising(self._how_to_continue):
            if self._trials != before:
                with locked(self.path):
                    self._write_settings()
            study = self._study()
            while True:
                with study.next_trial(self._trials) as trial:
                    if trial is None:
                        break
                    is_interrupted = self._run_trial(study, trial)
                with study.writing():
                    self._write(study)
                if is_interrupted:
                    return False
            with study.writing():
                self._write(study)
        return True

    @property
    def _command(self):
        return command_line("tune", "--resume", self.path)

    def _how_to_continue(self):
        is_search = self._settings_path.exists()
        return f"Free some space, then continue with {self._command}" if is_search else ""

    @property
    def study(self) -> "optuna.Study":
        """The study of optuna, for its trials and plots; parameters are the searched fields."""
        return self._study().study

    def best_recipe(self) -> Recipe:
        """The recipe of the best trial, under the name of the recipe that was changed.

        Raises:
            ValueError: if no trial is complete.
        """
        best = _best_of(self.study.trials) if self._settings_path.exists() else None
        if best is None:
            raise ValueError(f"{self.path} has no complete trial yet.")
        return self.space.recipe(self.recipe, self.space.values(best.params))

    def show(self) -> None:
        """Print the best trials and where the results are."""
        trials, objective = self.study.trials, self.objective
        rows = [row for row in self._rows(trials) if row[objective] is not None][:_SHOWN]
        fields = self.space.names
        columns = ["trial", objective, "untrained", "best_epoch", "epochs", "state", *fields]
        table = Table(*columns, title=f"{len(trials)} trials, {objective}")
        for row in rows:
            table.add_row(*(as_cell(_text(row[column])) for column in columns))
        Console().print(table)
        for row in rows:
            if row["note"]:
                print(f"Trial {row['trial']}: {row['note']}.")
        print(f"Report: {self.path / 'report.html'}")
        if _best_of(trials) is not None:
            print(f"The best recipe: {command_line('train', self.path / 'best.yaml')}")

    def _rows(self, trials):
        """The trials as they are in tables, the complete ones first, the best of them first."""
        states = ("complete", "pruned", "running", "failed")
        rows = [_row(trial, self.space.names, self.objective) for trial in trials]
        return sorted(
            rows, key=lambda row: (states.index(row["state"]), -(row[self.objective] or 0))
        )

    def _write(self, study):
        """Write the table, the best recipe and the page; drop what only running trials need."""
        trials, fields = study.trials, self.space.names
        best, rows = _best_of(trials), self._rows(trials)
        by_number = sorted(rows, key=lambda row: row["trial"])
        table = csv_table([rows[0], *(row.values() for row in by_number)])
        replace_text(self.path / "trials.csv", table)
        if best is not None:
            recipe = self.space.recipe(self.recipe, self.space.values(best.params))
            save_recipe(recipe, self.path / "best.yaml")
        write_page(
            self.path / "report.html",
            "tuning.html",
            title=f"Search for {self.recipe.name}",
            objective=display_name(self.objective.removeprefix("val_")),
            figures=[] if best is None else _figures(study.study, fields, self.objective),
            columns=list(rows[0]),
            rows=[list(map(_text, row.values())) for row in rows],
        )
        for trial in trials:
            folder = RunFolder(study.place(trial.number))
            if _state_of(trial) != "running":
                folder.checkpoint_path.unlink(missing_ok=True)
                if trial is not best:
                    folder.model_path.unlink(missing_ok=True)

    def _write_settings(self):
        settings = {
            "search": {name: plain_values(value) for name, value in self.space.fields.items()},
            "objective": self.objective,
            "sampler": self._sampler,
            "pruning": self._pruning,
            "trials": self._trials,
            "recipe": recipe_values(self.recipe),
        }
        replace_bytes(self._settings_path, sealed_text(values_text(settings)))

    def _study(self):
        optuna, training = _import_optuna(), self.recipe.training
        pruner = optuna.pruners.NopPruner()
        if self._pruning:
            waits = max(training.warmup_epochs, training.epochs // 4) + 1  # it counts from 0
            pruner = optuna.pruners.MedianPruner(_TRIALS_BEFORE_PRUNING, waits)
        return _Study(self.path / "study.db", self.recipe.seed, self._sampler, pruner)

    def _run_trial(self, study, trial):
        """Train a trial and tell the study how it ended; true if it was interrupted."""
        values = self.space.suggest(trial)
        shown = ", ".join(f"{name}={value}" for name, value in trial.params.items())
        print(f"\nTrial {trial.number} of {self._trials}: {shown}", flush=True)
        try:
            run = self._trained(study, trial, values)
        except Exception as error:
            if not isinstance(error, ValueError) and not _is_out_of_memory(error):
                raise
            self._fail(study, trial, reason(error))
            return False
        finally:
            keras.backend.clear_session()
        if run.status == "interrupted":
            return True
        metrics, history = run.folder.metrics(), run.folder.history()
        trial.set_user_attr("seconds", metrics.get("training_seconds"))
        notes = ["the loss was not finite"] if run.status == "diverged" else []
        if metrics["best_epoch"] is None:
            notes.append("no epoch was better than the untrained model")
        trial.set_user_attr("note", "; ".join(notes))
        trial.set_user_attr("untrained", metrics["untrained"].get(self.objective))
        if "pruned" in trial.user_attrs:
            study.study.tell(trial, state=_import_optuna().trial.TrialState.PRUNED)
        else:
            best = int(np.argmax(history[run.recipe.monitor]))
            trial.set_user_attr("best_epoch", best + 1)
            study.study.tell(trial, history[self.objective][best])
        return False

    def _trained(self, study, trial, values):
        folder = RunFolder(study.place(trial.number))
        recipe = self.space.recipe(self.recipe, values)
        recipe = dataclasses.replace(recipe, name=f"{recipe.name}, trial {trial.number}")
        run = Run(folder.path, None if folder.recipe_path.exists() else recipe)
        batches = {name: getattr(self.recipe.data, name) for name in _OF_BATCHES}
        if dataclasses.replace(recipe.data, **batches) == self.recipe.data:  # the same images
            run.splits = self.splits
        return run.fit([_Reports(trial, self.objective)])

    def _fail(self, study, trial, message):
        print(f"Trial {trial.number} failed: {message}", file=sys.stderr, flush=True)
        trial.set_user_attr("note", message)
        study.study.tell(trial, state=_import_optuna().trial.TrialState.FAIL)
        failures = [one for one in study.trials if _state_of(one) == "failed"]
        most = min(_MOST_FAILURES, self._trials)
        if len(failures) >= most and _best_of(study.trials) is None:
            count = counted(len(failures), "trial")
            raise ValueError(f"The first {count} failed, the last one so: {message}")


class _Reports(keras.callbacks.Callback):
    """Tells a trial its objective after each epoch, and ends it if it is to be pruned."""

    def __init__(self, trial, objective):
        super().__init__()
        self._trial, self._objective = trial, objective
        frozen = trial.study.get_trials(deepcopy=False)[trial.number]
        self._reported = set(frozen.intermediate_values)  # before the process was killed

    def on_epoch_end(self, epoch, logs=None):
        if self._objective not in logs:
            known = ", ".join(sorted(name for name in logs if name.startswith("val_")))
            raise ValueError(f"The objective is one of {known}; received {self._objective}.")
        if epoch + 1 not in self._reported:
            self._trial.report(logs[self._objective], epoch + 1)
        if self._trial.should_prune():
            self._trial.set_user_attr("pruned", epoch + 1)
            self.model.stop_training = True


def _is_out_of_memory(error):
    return type(error).__name__ in _OUT_OF_MEMORY or "RESOURCE_EXHAUSTED" in str(error)


def _import_optuna():
    """The package optuna, or an error that says how to get it."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError(f"Tuning needs optuna: {to_install('tune')} ({error}).") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class _Study:
    """A study of optuna, whose trials each belong to one process at a time."""

    # A process holds the lock of the folder of the trial that it runs. A running trial whose folder
    # nobody has locked belonged to a process that was killed, and the next process continues it.

    def __init__(self, path, seed, sampler, pruner):
        optuna = _import_optuna()
        self._folder, self._seed = path.parent, seed
        samplers = optuna.samplers
        self._sampler = {"tpe": samplers.TPESampler, "random": samplers.RandomSampler}[sampler]
        connect = functools.partial(
            sqlite3.connect, path, timeout=_SECONDS, check_same_thread=False
        )
        with self._claiming():
            # A path in an address would need its special characters quoted.
            storage = optuna.storages.RDBStorage("sqlite://", {"creator": connect})
            self.study = optuna.create_study(
                storage=storage,
                study_name="gsp_tf",
                direction="maximize",
                load_if_exists=True,
                pruner=pruner,
            )

    @property
    def trials(self):
        """All trials, frozen, by number."""
        return self.study.get_trials(deepcopy=False)

    def place(self, number):
        return self._folder / "trials" / f"{number:04}"

    @contextlib.contextmanager
    def next_trial(self, count):
        """A trial that only this process runs, or `None` if `count` trials have begun."""
        with contextlib.ExitStack() as held:
            with self._claiming():
                trial = self._killed(held)
                if trial is None and len(self.trials) < count:
                    trial = self.study.ask()
                    held.enter_context(locked(self.place(trial.number)))
            if trial is not None:
                # The values of a trial depend on the seed, its number and the earlier trials, and
                # not on the process that runs it.
                seeds = np.random.SeedSequence([self._seed, trial.number])
                self.study.sampler = self._sampler(seed=int(seeds.generate_state(1)[0]))
            yield trial

    def _killed(self, held):
        """A trial that a killed process left running; its folder is then locked."""
        optuna = _import_optuna()
        for frozen in self.study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
            with contextlib.suppress(BlockingIOError):  # its process lives
                held.enter_context(locked(self.place(frozen.number)))
                return optuna.trial.Trial(self.study, frozen._trial_id)
        return None

    def writing(self):
        """Lets one process at a time write the results of all trials."""
        return FileLock(self._folder / ".results.lock")

    def _claiming(self):
        """Lets one process at a time take a trial."""
        return FileLock(self._folder / ".trials.lock")


def _state_of(trial):
    """How a trial of optuna ended, in a word."""
    return _STATES.get(trial.state.name, trial.state.name.lower())


def _best_of(trials):
    """The best complete trial, the first of equal ones; `None` without one."""
    complete = [trial for trial in trials if _state_of(trial) == "complete"]
    return max(complete, key=lambda trial: trial.value, default=None)


def _row(trial, fields, objective):
    """A trial in the table, by column."""
    attributes = trial.user_attrs
    return {
        "trial": trial.number,
        "state": _state_of(trial),
        objective: trial.value,
        "untrained": attributes.get("untrained"),
        "best_epoch": attributes.get("best_epoch"),
        "epochs": len(trial.intermediate_values),
        "seconds": attributes.get("seconds"),
        "note": attributes.get("note", ""),
        **{name: trial.params.get(name) for name in fields},
    }


def _text(value):
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _figures(study, fields, objective):
    """Optuna's plots of a study with a complete trial, as SVG."""
    optuna = _import_optuna()
    plots, name = optuna.visualization.matplotlib, display_name(objective.removeprefix("val_"))
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Attempting to set identical")  # limits, of one trial
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
