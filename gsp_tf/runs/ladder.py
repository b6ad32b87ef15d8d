"""The ladder of `gsp-tf train FOLDER`: more and more of a pretrained network trains."""

import functools
import math
import shutil
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

import keras
import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from gsp_tf import backbones
from gsp_tf._console import command_line
from gsp_tf._files import locked, replacing
from gsp_tf._typing import PathLike
from gsp_tf.recipe import Recipe, resolved
from gsp_tf.runs._baselines import RUNGS, baselines, ending_notes
from gsp_tf.runs.data import Splits, load_splits
from gsp_tf.runs.folder import RunFolder
from gsp_tf.runs.frozen import gain_text
from gsp_tf.runs.run import Run, continuation
from gsp_tf.training import inference
from gsp_tf.visual import percent

_KEPT = ("model.keras", "history.csv", "test_embeddings.npz", "metrics.json", "recipe.yaml")
_TITLES = {"head": "trained head", "block": "last block", "network": "whole network"}
_START, _BACKWARD, _EPOCHS = 20, 4.0, 0.6
"""For estimates: seconds until a rung trains, the time of a step over that of its forward pass, and
the share of its epochs after which training ends."""


class Ladder:
    """Trains more and more of a network, each time from the best model so far.

    The rungs are runs in the folder `rungs`. Each starts as the best model of the rungs below it,
    which counts as its epoch 0. So the best rung is never worse on the validation classes than the
    first start: the better one of the frozen network and of that with a computed linear head. The
    ladder ends with the first rung above the head that is no better than its start. The folder of
    the ladder is a run folder with the model of the best rung.

    Args:
        path: the folder.
        recipes: a recipe for each rung by its name, from the lowest on (`ladder_recipes`). `None`
            opens an existing ladder.
        splits: the images, the same for all rungs; `None` loads those of the recipes.

    Attributes:
        path: the folder.
        recipes: the recipes.
        splits: the images.

    Raises:
        FileNotFoundError: if no recipes are given and the folder has no rungs.

    Example:
        >>> Ladder("no/such/ladder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/ladder is not a ladder: it has no runs in rungs.
    """

    def __init__(
        self,
        path: PathLike,
        recipes: Mapping[str, Recipe] | None = None,
        splits: Splits | None = None,
    ):
        self.path, self._is_over = Path(path), False
        if splits is not None:
            self.splits = splits
        if recipes is not None:
            self.recipes = {name: resolved(recipe) for name, recipe in recipes.items()}
            return
        folders = {name: self._folder(name) for name in _TITLES}
        self.recipes = {n: f.recipe() for n, f in folders.items() if f.recipe_path.is_file()}
        if not self.recipes:
            raise FileNotFoundError(f"{path} is not a ladder: it has no runs in {RUNGS}.")

    @functools.cached_property
    def splits(self) -> Splits:
        return load_splits(self.recipes[next(reversed(self.recipes))])

    @classmethod
    def at(
        cls, path: PathLike, recipes: Mapping[str, Recipe], splits: Splits, or_beside: bool = False
    ) -> Self:
        """A new ladder, or one to continue: of the same recipes and images.

        With `or_beside`, a folder of another ladder is left alone: the ladder gets the first that
        is free or fits, with a number after its name. Otherwise such a folder is refused.
        """
        first = RunFolder(path)
        for folder in first.numbered() if or_beside else [first]:
            ladder = cls(folder.path, recipes, splits)
            if folder.is_free() or ladder._is_begun():
                if folder is not first:
                    warnings.warn(
                        f"{path} is of another recipe, or the photographs have changed since it "
                        f"began, so this run goes to {folder.path}.",
                        stacklevel=2,
                    )
                return ladder
        raise FileExistsError(
            f"{path} is a run of another recipe or of other photographs. Choose another folder "
            "(--run NEW)."
        )

    def _is_begun(self):
        """Whether the folder has these rungs, of these images as far as it has noted any."""
        folders = [self._folder(name) for name in self.recipes]
        if not all(folder.recipe_path.is_file() for folder in folders):
            return False
        found = [replace(folder.recipe(), initial_run=None) for folder in folders]
        images = folders[0].metrics().get("images")
        return found == [*self.recipes.values()] and images in (None, self.splits.digest())

    @property
    def status(self) -> str | None:
        """How the training of the highest rung ended, as `Run.status`."""
        found = [rung.metrics() for rung in map(self._folder, self.recipes)]
        statuses = [metrics["status"] for metrics in found if "status" in metrics]
        is_stopped = statuses[-1:] == ["interrupted"] and self._is_over
        return "finished" if is_stopped else next(reversed(statuses), None)

    def climb(self, minutes: float | None = None, **changes: int | None) -> Self:
        """Train rung by rung, give the folder the best model, and return this ladder.

        Args:
            minutes: time for all rungs, that of earlier calls included; `None` sets no limit. The
                epoch in which it ends is completed.
            changes: new values of `epochs` and `patience` for the highest rung that has begun.

        Raises:
            BlockingIOError: if another process is writing the folder.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path):
            begun = self._begun()
            for name, recipe in self.recipes.items():
                if not self._folder(name).recipe_path.exists():
                    self._folder(name).start(recipe)
            if not begun:
                self._announce(minutes)
            best = None
            for name in self.recipes:
                folder, limit = self._folder(name), _TimeLimit(minutes, self._seconds())
                added = changes if begun[-1:] == [name] else {}
                is_left = bool(added) or not folder.is_trained()
                self._is_over = is_left and best is not None and limit.is_over()
                if not self._is_over:
                    self._train(name, best, limit, added)
                metrics = folder.metrics()
                pays = "test" in metrics and metrics["best_epoch"] is not None
                is_first, best = best is None, folder if pays or best is None else best
                is_stopped = metrics.get("status") == "interrupted"
                self._is_over |= is_stopped and limit.is_over()
                if self._is_over or is_stopped or not (pays or is_first):
                    break
            self._promote(best)
        return self

    def _train(self, name, best, limit, changes):
        """Train a rung from the best one below it, or continue it, and evaluate it."""
        rung = self._run(self._folder(name).path)
        folder = rung.folder
        if best is not None and not folder.metrics():
            rung.recipe = replace(rung.recipe, initial_run=str(best.path))
        if changes or not folder.is_trained():
            print(f"\n{_TITLES[name].capitalize()}", flush=True)
        before = folder.metrics().get("seconds", 0.0)
        rung.fit([limit], **changes)
        if "test" not in folder.metrics():
            rung.evaluate()
            folder.update_metrics(seconds=round(before + limit.seconds, 1))
        keras.backend.clear_session()

    def _folder(self, name):
        return RunFolder(self.path / RUNGS / name)

    def _run(self, path):
        rung, ours = Run(path), RunFolder(self.path)
        rung.splits = self.splits
        rung.folder.frozen_path, rung.folder.head_path = ours.frozen_path, ours.head_path
        return rung

    def _begun(self):
        """The names of the rungs that have begun, from the lowest on."""
        return [name for name in self.recipes if self._folder(name).metrics()]

    def _seconds(self):
        return sum(self._folder(name).metrics().get("seconds", 0.0) for name in self.recipes)

    def _announce(self, minutes):
        """Print about how long the rungs take, from a batch that passes the network."""
        recipe, splits = next(iter(self.recipes.values())), self.splits
        data, backbone, batch = recipe.data, recipe.backbone, recipe.evaluation.batch_size
        shape = (data.image_size, data.image_size, data.channels)
        network = backbones.create(backbone.name, shape, preset=backbone.preset)
        forward, images = inference(network), np.zeros((batch, *shape), "float32")
        forward(images)  # compiles it
        seconds = []
        for _ in range(3):  # other programs may delay one
            began = time.monotonic()
            keras.ops.convert_to_numpy(forward(images))
            seconds.append(time.monotonic() - began)
        second = min(seconds) / batch
        train, others = len(splits.train), len(splits.validation) + len(splits.test)
        needed = {}
        for name, of in self.recipes.items():
            frozen_to, images = of.backbone.frozen_to, train + others
            share = 1.0  # of the forward pass that training repeats
            if frozen_to is not None:
                images += train * of.data.horizontal_flip
                share = 0.0 if frozen_to == "network" else 0.25
            training = of.training
            each = _BACKWARD * training.steps_per_epoch * data.classes_per_batch
            each = each * data.images_per_class + len(splits.validation)
            epochs = _EPOCHS * training.epochs
            needed[name] = _START + second * (images + share * epochs * each)
        keras.backend.clear_session()
        parts = ", ".join(f"{_TITLES[name]} {value / 60:.0f}" for name, value in needed.items())
        ends = "" if minutes is None else f" after {minutes:g} min, or"
        print(
            f"About {math.ceil(sum(needed.values()) / 60)} min ({parts}). It ends{ends} at the "
            "first rung that is no better.",
            flush=True,
        )

    def _promote(self, best):
        """Copy the files of the best rung; the recipe, which makes it a run folder, comes last."""
        for name in _KEPT:
            with replacing(self.path / name) as temporary:
                shutil.copyfile(best.path / name, temporary)

    def show(self) -> None:
        """Print the rungs as a table and what training added, and write the page of the best."""
        run = self._run(self.path)
        Console().print(self._table(run.recipe))
        metrics = run.folder.metrics()
        for note in ending_notes(run.recipe, metrics):
            print(note)
        begun = self._begun()
        left = [*self.recipes][len(begun) :]
        if left and not self._is_over and self.status == "finished":
            words = "train", self._folder(left[0]).recipe_path, "--initial_run", self.path
            print(
                f"The {_TITLES[begun[-1]]} was no better on the validation classes, so the "
                f"{_TITLES[left[0]]} was not tried. To train it all the same: "
                f"{command_line(*words)}"
            )
        print(f"Report: {run.report()}")
        gain = gain_text(run.recipe, metrics)
        if gain is not None:
            print(gain)
        print(self._continuation(), end="")

    def _table(self, kept):
        """The baselines and the rungs; `kept` is the recipe of the best one."""
        rungs = {name: self._folder(name).metrics() for name in self.recipes}
        rungs = {name: metrics for name, metrics in rungs.items() if "test" in metrics}
        first = next(iter(rungs.values()))
        images, classes = first["test"]["num_queries"], first["num_classes"]["test"]
        title = (
            f"{images:,} images of {classes} unseen classes, in percent; val: MAP@R that chooses"
        )
        table = Table(title=title, box=SIMPLE, pad_edge=False)
        table.add_column("model")
        for column in ("min", "val", "P@1", "MAP@R"):
            table.add_column(column, justify="right", no_wrap=True)
        for name, baseline in baselines(self.recipes["head"], first).items():
            table.add_row(name, "", "", *_cells(baseline.metrics, baseline.intervals))
        for name, metrics in rungs.items():
            is_kept = self._folder(name).recipe() == kept
            title = f"{_TITLES[name]}{' (kept)' if is_kept else ''}"
            minutes = metrics.get("seconds", 0.0) / 60  # killed at once, a rung has not noted them
            best = metrics[f"best_{self.recipes[name].monitor}"]
            cells = _cells(metrics["test"], metrics["test_intervals"])
            table.add_row(title, f"{minutes:.1f}", percent(best), *cells)
        return table

    def _continuation(self):
        """The line that says how to continue, if there is more to train."""
        if self._is_over:
            command = command_line("train", "--resume", self.path)
            return f"The time is over. To continue: {command}\n"
        rung = self._folder(self._begun()[-1])
        return continuation(self.path, rung.recipe(), [rung.metrics()])


def _cells(metrics, intervals):
    names = "precision_at_1", "map_at_r"
    return [percent(metrics[name], *intervals.get(name, ())) for name in names]


class _TimeLimit(keras.callbacks.Callback):
    """Ends training after the epoch in which the time is over, as Ctrl-C does: it can continue."""

    def __init__(self, minutes, seconds_before):
        super().__init__()
        self._began, self._before = time.monotonic(), seconds_before
        self._limit = None if minutes is None else 60 * minutes

    @property
    def seconds(self):
        return time.monotonic() - self._began

    def is_over(self):
        return self._limit is not None and self._before + self.seconds > self._limit

    def on_epoch_end(self, epoch, logs=None):
        if self.is_over():
            raise KeyboardInterrupt
