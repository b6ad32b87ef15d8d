"""A run: a recipe and the folder in which it is trained, evaluated and reported."""

import dataclasses
import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

import keras
import numpy as np

from gsp_tf._console import command_line
from gsp_tf._files import locked, replacing
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import ranking_metrics
from gsp_tf.recipe import Recipe, resolved
from gsp_tf.runs._baselines import RESULTS, untrained_note
from gsp_tf.runs._evaluation import (
    RunEmbeddings,
    check_test_classes,
    embed_test_images,
    kept_embeddings,
    metrics_by_dim,
    test_metrics,
)
from gsp_tf.runs._facts import data_facts, facts_table, recipe_facts
from gsp_tf.runs._report import SeenImages, check_same_images, print_results, summary_of
from gsp_tf.runs._trackers import Trackers
from gsp_tf.runs._training import Training, accuracy
from gsp_tf.runs.data import Splits, load_splits
from gsp_tf.runs.folder import RunFolder
from gsp_tf.runs.frozen import gain_entries, gain_text, kept_baselines
from gsp_tf.training import MetricLearner
from gsp_tf.visual import NEAR_AVERAGE, weight_spread, write_report

_CONTINUES = ("interrupted", "failed", "running")
"""How a training ended that `Run.resume` continues; one that is still running has no results."""


class Run:
    """A recipe and its folder: trains, resumes, evaluates and reports one model.

    The best model is the one with the highest MAP@R on the validation classes (Recall@1 with
    protocol.name=conventional, accuracy on the validation images with trainer=classification), the
    untrained one included.

    Args:
        path: the run folder.
        recipe: the recipe to train in a new folder. `None` opens an existing run.

    Attributes:
        folder: `RunFolder`, the files of the run.
        recipe: the recipe.
        splits: `Splits`, loaded on first use. Set this attribute to share the images between runs.
        test_images: digest of the images that are evaluated, 16 characters.
        learner: the best `MetricLearner`, not compiled, loaded on first use.

    Raises:
        BlockingIOError: by methods that write, if another process is writing the folder.
        FileExistsError: if a recipe is given and the folder exists.
        FileNotFoundError: if no recipe is given and the folder is not a run folder; by methods that
            read the model, if there is none yet.
        ValueError: by methods, if the data or the recipe cannot be used, the data have changed, or
            a file of the run is damaged.

    Example:
        >>> Run("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """

    def __init__(self, path: PathLike, recipe: Recipe | None = None):
        self.folder = RunFolder(path)
        if recipe is None:
            self.recipe = self.folder.recipe()
        else:
            self.folder.refuse_existing()
            self.recipe = resolved(recipe)

    @functools.cached_property
    def splits(self) -> Splits:
        return load_splits(self.recipe)

    @functools.cached_property
    def test_images(self) -> str:
        """A short text that changes with any image that is evaluated."""
        return self.splits.digest("test", "gallery")

    @property
    def folds(self) -> list[Splits]:
        """The images of every model of the run, a list of `Splits`."""
        return [self.splits]

    @functools.cached_property
    def learner(self) -> MetricLearner:
        return self.folder.learner(compile=False)

    @property
    def status(self) -> str | None:
        """How training ended.

        "finished", "interrupted" (by Ctrl-C), "diverged" (the loss was not finite), "failed" (by an
        error), or "running" (not ended, or the process was killed).
        """
        return self.folder.metrics().get("status")

    def describe(self) -> str:
        """Describe what the recipe trains, in lines of text."""
        facts = data_facts(self.recipe, self.folds)
        return facts_table(facts | recipe_facts(self.recipe))

    def fit(
        self, callbacks: Sequence[keras.callbacks.Callback] = (), **changes: int | None
    ) -> Self:
        """Train, or continue a training, without an evaluation on the test classes.

        Tuning uses this: the test classes must not choose anything. `evaluate` does the rest.

        Args:
            callbacks: Keras callbacks that follow those of the run, and find all metrics of the
                validation classes in the logs.
            changes: new values of `epochs` and `patience`, as for `resume`.

        Returns:
            this run; `status` says how training ended.
        """
        if self.recipe.protocol.is_ensemble:
            raise ValueError("fit trains one model; give protocol.fold with protocol.name=mlrc.")
        return self._trained(self.recipe, changes, callbacks, is_evaluated=False)

    def train(self) -> Self:
        """Train as the recipe says, keep the best model, and evaluate it on the test classes.

        Ctrl-C ends training early: the best model so far is evaluated, and `resume` continues. A
        loss that is not finite also ends training. Nothing is written before a first evaluation
        succeeds.

        Returns:
            this run; `status` says how training ended.
        """
        self.folder.refuse_existing()
        return self._trained(self.recipe)

    def resume(self, **changes: int | None) -> Self:
        """Continue a stopped run from its last evaluation, or train a finished run for more epochs.

        Training after the last evaluation is done again. A run that was stopped before its first
        epoch starts again. A run that finished training without an evaluation is evaluated. In
        deterministic mode on a CPU, the final numbers are those of a run that was never stopped.

        With more epochs or another patience, a finished run repeats its last epoch and continues
        from its last state, not from its best model. In deterministic mode on a CPU, its final
        numbers are those of a run with as many epochs from the start. A cosine schedule is the
        exception, because its curve depends on the number of epochs.

        Args:
            changes: new values of `epochs` and `patience` in the recipe's section training, which
                are also written to the recipe of the folder. They must leave something to do.
        """
        return self._trained(None, changes)

    def _trained(self, recipe, changes=MappingProxyType({}), callbacks=(), is_evaluated=True):
        """Train by a recipe, `None` for that of the folder, with changes, unless that is done."""
        with self.folder.training():
            before = self.folder.recipe() if recipe is None else recipe
            self.recipe = _with_changes(before, changes, self.folder)
            with Trackers(self.recipe, self.folder) as trackers:
                if self.recipe != before or not self.folder.is_trained():
                    self._train(trackers, callbacks)
                if is_evaluated:
                    self._complete(trackers)
        return self

    def _train(self, trackers, callbacks):
        """Train from the checkpoint, or from the beginning."""
        training = Training(self, trackers, callbacks)
        if self.folder.checkpoint_path.exists():
            training.resume()
        else:
            training.start()
        vars(self).pop("learner", None)  # training has saved a new one
        if self.status == "diverged":
            self.folder.checkpoint_path.unlink(missing_ok=True)

    def _complete(self, trackers):
        """Evaluate the run if that is missing."""
        if "test" in self.folder.metrics():
            return
        if self.status == "interrupted":
            which = "untrained" if untrained_note(self.folder.metrics()) else "best"
            print(f"\nInterrupted; now evaluating the {which} model.", file=sys.stderr)
        self.evaluate()
        trackers.log_results()

    def evaluate(self) -> dict[str, float]:
        """Evaluate the best model on the test classes.

        Writes `metrics.json` and `test_embeddings.npz`. Under `test_intervals`, `metrics.json` has
        the 95 % intervals of the metrics of retrieval, from resampled classes. After training from
        pretrained weights, it has those of `frozen_metrics` under `frozen`, those with a linear
        head under `head`, and what training added under `gain` and `gain_over_head`. If the loss
        was `MatryoshkaLoss`, it has the metrics of each prefix under `test_by_dim`, and their
        intervals under `test_by_dim_intervals`.

        Returns:
            dict of `retrieval_metrics`. With evaluation.clustering in the recipe also
            `clustering_metrics` of all test images, and the mean of `class_wise_map` as
            `class_wise_map_at_r`.
        """
        folder = self.folder
        folder.require(folder.recipe_path, folder.model_path)
        with locked(folder.path):
            embedded = embed_test_images(self)
            ranking = ranking_metrics(*embedded[:4], at=self.recipe.evaluation.recall_at)
            metrics, intervals = test_metrics(ranking, embedded, self.recipe.evaluation)
            baselines = kept_baselines(self)
            if self.recipe.trainer == "classification":
                classifier = self.learner.embedding_loss
                share = accuracy(classifier, embedded.queries, embedded.query_labels)
                metrics = {"accuracy": share, **metrics}
            sets = {name: getattr(self.splits, name) for name in ("train", "validation", "test")}
            num_classes = {name: len(images.class_names) for name, images in sets.items()}
            entries = {"num_classes": num_classes, "test": metrics, "test_intervals": intervals}
            entries["test_images"] = self.test_images
            entries |= gain_entries(ranking, baselines, list(intervals or metrics))
            wrapper = self.recipe.loss_wrapper
            if wrapper is not None and wrapper.name == "matryoshka":
                dims = wrapper.arguments["dims"]
                by_dim = metrics_by_dim(embedded, dims, self.recipe.evaluation)
                entries["test_by_dim"], entries["test_by_dim_intervals"] = by_dim
            if embedded.weights is not None:
                entries["pooling_weights"] = weight_spread(embedded.weights)
            # Embeddings are valid only with metrics: both files are written, then the embeddings
            # are renamed first.
            with (
                folder.updating_metrics(RESULTS, **entries),
                replacing(folder.embeddings_path) as temporary,
            ):
                found = embedded._asdict().items()
                np.savez(temporary, **{name: array for name, array in found if array is not None})
        return metrics

    def check_test_images(self, embedder: keras.Model):
        """Refuse test images of another shape than the model takes, or of other classes."""
        size, test = self.recipe.data.image_size, self.splits.test
        if embedder.input_shape != (None, size, size, test.channels):
            raise ValueError(
                f"The model of {self.folder.path} takes images {embedder.input_shape[1:]}, its "
                f"recipe and data give {(size, size, test.channels)}."
            )
        check_test_classes(self.folder, test)

    def test_embeddings(self) -> RunEmbeddings:
        """The embeddings of `evaluate`, computed again if there are none or the images changed."""
        return kept_embeddings(self) or embed_test_images(self)

    def report(self) -> Path:
        """Write the page about the run, `report.html`, and return its path."""
        return report_runs([self], self.folder.report_path, self.recipe.name)

    def show(self):
        """Print the results of the run and write its page."""
        page = self.report()
        print_results([self.folder])
        metrics = self.folder.metrics()
        _print_weights(metrics.get("pooling_weights"))
        print(f"Report: {page}")
        gain = gain_text(self.recipe, metrics)
        if gain is not None:
            print(gain)
        print(continuation(self.folder.path, self.recipe, [metrics]), end="")


def report_runs(runs: Sequence[Run], path: PathLike, title: str) -> Path:
    """Write one page about runs with the same test images, and return its path.

    The embeddings are those of the evaluation. A run that is not evaluated yet is embedded, and one
    whose images have changed since is evaluated again. Otherwise only the images that the page
    shows are read. With a gallery, the pictures show the gallery.

    Args:
        runs: the runs.
        path: file to write.
        title: heading of the page.

    Raises:
        FileNotFoundError: if a run has no model yet.
        ValueError: if the runs were not evaluated on the same images.

    Example:
        >>> report_runs([Run("no/such/run")], "report.html", "One run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    check_same_images([run.recipe for run in runs])
    for run in runs:
        if "test" in run.folder.metrics() and kept_embeddings(run) is None:
            run.evaluate()
    images = SeenImages(runs[0].recipe, runs[0].splits.searched)
    summaries = [summary_of(run.recipe, run.folder, run.test_embeddings(), images) for run in runs]
    return write_report(Path(path), title, summaries)


def continuation(path: PathLike, recipe: Recipe, models: Sequence[Mapping]) -> str:
    """The last line about trainings that were stopped, or whose last epoch was the best.

    There is none if more epochs alone would change nothing: a training that diverged, or ended
    before its last epoch, does not continue.
    """
    command = command_line("train", "--resume", path)
    if any(metrics.get("status") in _CONTINUES for metrics in models):
        return f"To continue: {command}\n"
    epochs, best = recipe.training.epochs, [metrics.get("best_epoch") for metrics in models]
    ended = {(metrics.get("status"), metrics.get("epochs")) for metrics in models}
    if not epochs or epochs not in best or ended != {("finished", epochs)}:
        return ""
    of = f" of {best.count(epochs)} of {len(best)} models" if len(best) > 1 else ""
    longer = f"{command} --training.epochs {2 * epochs}"
    return f"The last epoch{of} was the best. To train longer: {longer}\n"


def _with_changes(recipe, changes, folder):
    """A run's recipe with changes of its training; refuses changes that leave nothing to do."""
    training = dataclasses.replace(recipe.training, **changes)
    if training == recipe.training:
        return recipe
    trained = folder.epochs_kept()  # whose history may be lost
    if training.epochs <= trained:
        raise ValueError(
            f"{folder.path} has {trained} epochs of training behind it: training.epochs must be "
            f"more, received {training.epochs}."
        )
    ended_early = folder.is_trained() and trained < recipe.training.epochs
    if ended_early and training.patience == recipe.training.patience:
        raise ValueError(
            f"The training of {folder.path} ended by itself after {trained} of "
            f"{recipe.training.epochs} epochs, so that more of them change nothing. Give it a "
            "larger --training.patience, or null."
        )
    return dataclasses.replace(recipe, training=training)


def _print_weights(spread):
    """Print how far pooling weights are from the average, if there are any."""
    if spread is None:
        return
    print(
        f"Pooling weights: {spread['min']:.2f} to {spread['max']:.2f} times the average, standard "
        f"deviation {spread['std']:.3f}"
    )
    if spread["std"] < NEAR_AVERAGE:
        print(
            "This is close to average pooling; a larger pooling.entropy_smoothing sharpens the "
            "weights of GSP."
        )
