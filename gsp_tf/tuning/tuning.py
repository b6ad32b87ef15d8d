"""Search for the best recipe, trial by trial."""

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import keras
import numpy as np
import yaml

from gsp_tf._files import advising, locked, read_sealed_text, replace_bytes, sealed_text
from gsp_tf._typing import PathLike
from gsp_tf.recipe import Recipe, compose, load_values, recipe_values, resolved
from gsp_tf.runs import Run, RunFolder, Splits, load_splits, reason
from gsp_tf.tuning._results import best_of, print_trials, state_of, write_results
from gsp_tf.tuning._storage import Study, import_optuna
from gsp_tf.tuning.space import TuningSpace

if TYPE_CHECKING:
    import optuna

_TRIALS = 20
_AN_EPOCH = "1 or more in a search, which judges trials by their epochs"
_TRIALS_BEFORE_PRUNING = 5
_MOST_FAILURES = 3  # before any trial has succeeded
_OF_BATCHES = (
    "classes_per_batch",
    "images_per_class",
    "unlabelled_per_batch",
    "horizontal_flip",
    "min_crop_area",
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
        ValueError: if the search does not fit the recipe, or the recipe has no validation classes
            of its own.

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
        sampler: Literal["tpe", "random"] = "tpe",
        pruning: bool = True,
    ):
        import_optuna()
        self.path = Path(path)
        self._settings_path = self.path / "tuning.yaml"
        self._splits = self._trials = None
        if recipe is None:
            self._open()
        else:
            self._prepare(recipe, search, objective, sampler, pruning)

    def _prepare(self, recipe, search, objective, sampler, pruning):
        if self.path.exists() and (
            not self.path.is_dir() or any(p.name[0] != "." for p in self.path.iterdir())
        ):
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
        if not self.recipe.training.epochs and "training.epochs" not in self.space.names:
            raise ValueError(f"training.epochs must be {_AN_EPOCH}, received 0.")
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

    @property
    def splits(self) -> Splits:
        if self._splits is None:
            self._splits = load_splits(self.recipe)
        return self._splits

    @splits.setter
    def splits(self, splits: Splits) -> None:
        self._splits = splits

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
            ValueError: if the data cannot be used, or the first trials all fail.
        """
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
        return f"gsp-tf tune --resume {self.path}"

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
        best = best_of(self.study.trials) if self._settings_path.exists() else None
        if best is None:
            raise ValueError(f"{self.path} has no complete trial yet.")
        return self.space.recipe(self.recipe, self.space.values(best.params))

    def show(self) -> None:
        """Print the best trials and where the results are."""
        print_trials(self.path, self.study.trials, self.space.names, self.objective)

    def _write(self, study):
        write_results(self.path, study, self.space, self.recipe, self.objective)

    def _write_settings(self):
        settings = {
            "search": {name: _plain(value) for name, value in self.space.fields.items()},
            "objective": self.objective,
            "sampler": self._sampler,
            "pruning": self._pruning,
            "trials": self._trials,
            "recipe": recipe_values(self.recipe),
        }
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        replace_bytes(self._settings_path, sealed_text(text))

    def _study(self):
        optuna, training = import_optuna(), self.recipe.training
        pruner = optuna.pruners.NopPruner()
        if self._pruning:
            waits = max(training.warmup_epochs, training.epochs // 4) + 1  # it counts from 0
            pruner = optuna.pruners.MedianPruner(_TRIALS_BEFORE_PRUNING, waits)
        return Study(self.path / "study.db", self.recipe.seed, self._sampler, pruner)

    def _run_trial(self, study, trial):
        """Train a trial and tell the study how it ended; true if it was interrupted."""
        values = self.space.suggest(trial)
        shown = ", ".join(f"{name}={value}" for name, value in trial.params.items())
        print(f"\nTrial {trial.number} of {self._trials}: {shown}", flush=True)
        states = import_optuna().trial.TrialState
        try:
            run = self._trained(study, trial, values)
        except Exception as error:
            if not isinstance(error, ValueError) and not _is_out_of_memory(error):
                raise
            self._fail(study, trial, reason(error), states.FAIL)
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
            study.study.tell(trial, state=states.PRUNED)
        else:
            best = int(np.argmax(history[run.recipe.monitor]))
            trial.set_user_attr("best_epoch", best + 1)
            study.study.tell(trial, history[self.objective][best])
        return False

    def _trained(self, study, trial, values):
        """The run of a trial, after its training."""
        folder = RunFolder(study.place(trial.number))
        recipe = self.space.recipe(self.recipe, values)
        if not recipe.training.epochs:
            raise ValueError(f"training.epochs must be {_AN_EPOCH}, received 0")
        recipe = dataclasses.replace(recipe, name=f"{recipe.name}, trial {trial.number}")
        run = Run(folder.path, None if folder.recipe_path.exists() else recipe)
        if self._has_the_images_of(recipe):
            run.splits = self.splits
        return run.fit([_Reports(trial, self.objective)])

    def _has_the_images_of(self, recipe):
        batches = {name: getattr(self.recipe.data, name) for name in _OF_BATCHES}
        return dataclasses.replace(recipe.data, **batches) == self.recipe.data

    def _fail(self, study, trial, message, state):
        print(f"Trial {trial.number} failed: {message}", file=sys.stderr, flush=True)
        trial.set_user_attr("note", message)
        study.study.tell(trial, state=state)
        failures = [one for one in study.trials if state_of(one) == "failed"]
        if len(failures) >= _MOST_FAILURES and best_of(study.trials) is None:
            raise ValueError(f"The first {len(failures)} trials failed, the last one so: {message}")


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


def _plain(value):
    """A value with lists for tuples, as YAML has it."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
