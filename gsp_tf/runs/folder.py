"""The files of a run."""

import contextlib
import copy
import csv
import functools
import io
import itertools
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gsp_tf._console import command_line, counted, one_line
from gsp_tf._files import (
    SEAL,
    UNSEALED,
    advising,
    check_seal,
    check_zip,
    locked,
    read_sealed_json,
    read_sealed_text,
    replace_bytes,
    replacing,
    sealed,
    sealed_json,
    sealed_text,
)
from gsp_tf._typing import PathLike
from gsp_tf.recipe import Recipe, load_recipe, recipe_text
from gsp_tf.runs._baselines import RUNGS

if TYPE_CHECKING:
    import keras

    from gsp_tf.training import MetricLearner


class RunFolder:
    """The files of one run.

    The files are `recipe.yaml` (the resolved recipe), `model.keras` (the best learner: embedder,
    losses and optimizer), `checkpoint.npz` (the state of unfinished training), `history.csv` (the
    training history, whose epoch 0 is the untrained model), `metrics.json` (the results),
    `test_embeddings.npz` (the evaluated embeddings), `frozen.npz` and `head.npz` (the metrics of
    each query before training, alone and with a linear head), `logs` (TensorBoard logs),
    `trackers.json` (the runs of experiment trackers) and `report.html` (the report page). Files
    that are read again have checksums: arrays and model in their archives, `recipe.yaml` in its
    first line, which an edit must remove, `history.csv` in the column seal, and the others in the
    entry seal.

    Args:
        path: the folder.

    Example:
        >>> RunFolder("runs/gsp").metrics_path.as_posix()
        'runs/gsp/metrics.json'
    """

    def __init__(self, path: PathLike):
        self.path = Path(path)
        self.recipe_path = self.path / "recipe.yaml"
        self.model_path = self.path / "model.keras"
        self.checkpoint_path = self.path / "checkpoint.npz"
        self.history_path = self.path / "history.csv"
        self.metrics_path = self.path / "metrics.json"
        self.embeddings_path = self.path / "test_embeddings.npz"
        self.frozen_path = self.path / "frozen.npz"
        self.head_path = self.path / "head.npz"
        self.logs_path = self.path / "logs"
        self.trackers_path = self.path / "trackers.json"
        self.report_path = self.path / "report.html"

    def start(self, recipe: Recipe) -> Self:
        """Write the recipe, and remove the metrics and logs of an earlier start."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_recipe(recipe)
        self.metrics_path.unlink(missing_ok=True)
        shutil.rmtree(self.logs_path, ignore_errors=True)
        return self

    def refuse_existing(self):
        """Raise `FileExistsError` if the folder holds anything, or is a file."""
        if not self.is_free():
            if not self.recipe_path.is_file():
                raise FileExistsError(
                    f"{self.path} exists, and is not a run folder: it has no recipe.yaml. Choose "
                    "another folder, or remove it."
                )
            raise FileExistsError(
                f"The run folder {self.path} exists. Choose another one, remove it, or continue it "
                f"if it was stopped: {command_line('train', '--resume', self.path)}"
            )

    def is_free(self) -> bool:
        """Whether nothing is there but files that a killed process was writing."""
        if not self.path.is_dir():
            return not self.path.exists()
        return all(path.name.startswith(".") for path in self.path.iterdir())

    def numbered(self) -> Iterator[Self]:
        """This folder, and those with a number from 2 on after its name."""
        yield self
        for number in itertools.count(2):
            yield type(self)(f"{self.path}-{number}")

    @classmethod
    def open(cls, path: PathLike) -> Self:
        """Open a folder; refuses one without a recipe or a model."""
        folder = cls(path)
        folder.require(folder.recipe_path, folder.model_path)
        return folder

    def require(self, *files: Path):
        """Raise `FileNotFoundError` if the folder lacks one of these files, and name it."""
        for file in files:
            if not file.is_file():
                raise FileNotFoundError(f"{self.path} is not a run folder: it has no {file.name}.")

    def recipe(self) -> Recipe:
        """The resolved recipe; one without a checksum was edited, and is taken as it is."""
        self.require(self.recipe_path)
        recipe = _recipe_of(self.recipe_path, read_sealed_text(self.recipe_path))
        return copy.deepcopy(recipe)  # its lists and mappings can be changed

    def write_recipe(self, recipe: Recipe):
        """Write `recipe.yaml`."""
        replace_bytes(self.recipe_path, sealed_text(recipe_text(recipe)))

    def learner(self, compile: bool = True) -> "MetricLearner":
        """The best learner with its weights and, if compiled, the state of its optimizer.

        A learner that trained low-rank matrices holds their sum with the kernels. It is not
        compiled, because its optimizer knows the matrices alone.
        """
        from gsp_tf.training import MetricLearner  # here: the other files need no TensorFlow

        learner = self.load(self.model_path, compile and not self.recipe().backbone.lora.rank)
        if not isinstance(learner, MetricLearner):
            raise ValueError(f"{self.model_path} does not hold a MetricLearner.")
        return learner

    @staticmethod
    def load(path: Path, compile: bool = False) -> "keras.Model":
        """The model in a `.keras` file, in Keras' safe mode; a `ValueError` names a damaged one."""
        import keras

        check_zip(path, "a .keras archive")
        try:
            return keras.models.load_model(path, compile=compile)
        except Exception as error:  # an incompatible configuration may raise anything
            raise ValueError(
                f"{path} is damaged, or of other versions of Keras or gsp_tf: {one_line(error)}"
            ) from error

    def history(self) -> dict[str, list[float]]:
        """Columns of `history.csv` from epoch 1 on: one value per epoch, NaN where it had none.

        Row 0 is left out: it is the untrained model, the entry `untrained` of `metrics`.
        """
        rows = self._epochs()[1:]
        names = [name for name in (rows[0] if rows else ()) if name != "epoch"]
        return {name: [float(row[name] or "nan") for row in rows] for name in names}

    def add_epoch(self, epoch: int, logs: dict[str, float]):
        """Write an epoch to `history.csv` after those before it; 0 is the untrained model."""
        rows = self._epochs()[:epoch]
        rows += [{"epoch": lost} for lost in range(len(rows), epoch)]  # the file was removed
        self._write_epochs([*rows, {"epoch": epoch, **logs}])

    def cut_history(self, epochs: int):
        """Keep only row 0 and the first epochs of `history.csv`."""
        rows = self._epochs()[: epochs + 1]
        if rows:
            self._write_epochs(rows)

    def _epochs(self):
        """The rows of `history.csv`, as texts by the names of its columns; one for each epoch."""
        if not self.history_path.exists():
            return []
        content = self.history_path.read_bytes()
        again = "Restore a copy, or remove it and lose the curves of training."
        check_seal(self.history_path, content, again)
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8"), newline="")))
        numbers = [row.get("epoch") for row in rows]
        if numbers != [*map(str, range(len(rows)))] or (rows and rows[0].get("loss")):
            raise ValueError(
                f"{self.history_path} is damaged: row 0 must be the model before training, and the "
                f"epochs count from 1. {again}"
            )
        return [{name: row[name] for name in row if name != SEAL} for row in rows]

    def _write_epochs(self, rows):
        names = sorted({name for row in rows for name in row} - {"epoch"})
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, ["epoch", *names, SEAL], lineterminator="\n")
        writer.writeheader()
        writer.writerows([*rows[:-1], {**rows[-1], SEAL: UNSEALED}])
        replace_bytes(self.history_path, sealed(text.getvalue().encode("utf-8")))

    @contextlib.contextmanager
    def training(self):
        """Lock the folder; the error of a full disk says how to continue the run."""
        with advising(self._how_to_continue), locked(self.path):
            yield

    def _how_to_continue(self):
        if not self.recipe_path.exists():
            return ""
        command = command_line("train", "--resume", self.path)
        if self.is_trained():
            return f"The model is kept: free some space, then evaluate it with {command}"
        # The runs of an ensemble are in folders of their own.
        runs = [RunFolder(path.parent) for path in self.path.rglob(self.recipe_path.name)]
        epochs = sum(run.epochs_kept() for run in runs)
        if epochs:
            kept = counted(epochs, "epoch")
            return (
                f"The run keeps {kept} of training: free some space, then continue with {command}"
            )
        return f"No epoch of training is kept: free some space, then begin again with {command}"

    def epochs_kept(self) -> int:
        """The epochs after which training continues if it is stopped now."""
        from gsp_tf.training import epoch_of  # here, as in `learner`

        if self.is_trained():
            return self.metrics()["epochs"]
        return epoch_of(self.checkpoint_path) if self.checkpoint_path.exists() else 0

    def metrics(self) -> dict:
        """The content of `metrics.json`; empty if there is no such file yet."""
        if not self.metrics_path.exists():
            return {}
        again = (
            f"Restore a copy, or remove it: {command_line('evaluate', self.path)} then writes the "
            "results of the model again, without those of its training."
        )
        return read_sealed_json(self.metrics_path, again)

    def is_ladder(self) -> bool:
        """Whether the folder is that of a `Ladder`, with a run for each rung."""
        return (self.path / RUNGS).is_dir()

    def is_trained(self) -> bool:
        """Whether training ended by itself or because the loss was not finite."""
        return self.metrics().get("status") in ("finished", "diverged")

    def update_metrics(self, without: Sequence[str] = (), **entries: Any):
        """Add entries to `metrics.json` and drop others, by way of a temporary file."""
        with self.updating_metrics(without, **entries):
            pass

    @contextlib.contextmanager
    def updating_metrics(self, without: Sequence[str] = (), **entries: Any) -> Iterator[None]:
        """Update `metrics.json` if the block ends without an error."""
        kept = {name: value for name, value in self.metrics().items() if name not in without}
        with replacing(self.metrics_path) as temporary:
            temporary.write_bytes(sealed_json({**kept, **entries}))
            yield


@functools.lru_cache
def _recipe_of(path, text):
    """The recipe in a file with this text. A command asks for the same one many times."""
    return load_recipe(path, resolve=False)
