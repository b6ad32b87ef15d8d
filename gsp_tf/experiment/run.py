"""Training and evaluation in a run folder."""

import json
import os
import platform
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import gsp_tf
from gsp_tf.data import evaluation_dataset, training_dataset
from gsp_tf.data.progress import show_progress
from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.experiment.data import load_splits
from gsp_tf.experiment.model import build_learner, features_model
from gsp_tf.recipe import load_recipe, save_recipe
from gsp_tf.training import RetrievalEvaluation, SaveBest, StopOnNaN, embed

MONITOR = "val_map_at_r"


class RunFolder:
    """The files of one run.

    `recipe.yaml` is the resolved recipe, `model.keras` the best learner (embedder, losses and
    optimizer), `history.csv` the training history, `metrics.json` the results, `logs` the
    TensorBoard logs, `report.html` the page that shows them.

    Args:
        path: the folder.

    Example:
        >>> RunFolder("runs/gsp").metrics_path.as_posix()
        'runs/gsp/metrics.json'
    """

    def __init__(self, path):
        self.path = Path(path)
        self.recipe_path = self.path / "recipe.yaml"
        self.model_path = self.path / "model.keras"
        self.history_path = self.path / "history.csv"
        self.metrics_path = self.path / "metrics.json"
        self.logs_path = self.path / "logs"
        self.report_path = self.path / "report.html"

    @classmethod
    def create(cls, path, recipe):
        """A new folder with the recipe in it; refuses one that is there already."""
        folder = cls(path)
        try:
            folder.path.mkdir(parents=True)
        except FileExistsError:
            raise FileExistsError(
                f"The run folder {folder.path} exists. Choose another one or remove it."
            ) from None
        save_recipe(recipe, folder.recipe_path)
        return folder

    @classmethod
    def open(cls, path):
        """An existing folder; refuses one without a recipe or a model, and says which."""
        folder = cls(path)
        for file in (folder.recipe_path, folder.model_path):
            if not file.is_file():
                raise FileNotFoundError(
                    f"{folder.path} is not a run folder: it has no {file.name}."
                )
        return folder

    def recipe(self):
        """The resolved recipe."""
        return load_recipe(self.recipe_path)

    def learner(self):
        """The best learner, with its weights and its optimizer's state."""
        return keras.models.load_model(self.model_path)

    def metrics(self):
        """What `metrics.json` holds; empty if the run has not come to it."""
        if not self.metrics_path.exists():
            return {}
        return json.loads(self.metrics_path.read_text(encoding="utf-8"))

    def update_metrics(self, **entries):
        """Add entries to `metrics.json`, under a temporary name first."""
        temporary = self.path / f".metrics.{os.getpid()}.json"
        text = json.dumps({**self.metrics(), **entries}, indent=2)
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, self.metrics_path)


def train_recipe(recipe, path):
    """Train as a recipe says, keep the best model, and evaluate it on the test classes.

    The best model is the one with the highest MAP@R on the validation classes, the untrained one
    included. Ctrl-C ends training early; the folder is completed all the same. So does a loss that
    is not finite; then the last good model is kept and the folder says that training diverged.

    Args:
        recipe: `gsp_tf.recipe.Recipe`.
        path: folder to create.

    Returns:
        `RunFolder`; its metrics hold the `status`: "finished", "interrupted" or "diverged".

    Raises:
        FileExistsError: if the folder exists.
        ValueError: if the data or the recipe cannot be used.
    """
    splits = load_splits(recipe.data)
    keras.utils.set_random_seed(recipe.seed)
    train, validation, _ = splits
    batches = training_dataset(
        train,
        recipe.data.image_size,
        recipe.data.classes_per_batch,
        recipe.data.images_per_class,
        seed=recipe.seed,
        horizontal_flip=recipe.data.horizontal_flip,
        min_crop_area=recipe.data.min_crop_area,
    )
    learner = build_learner(recipe, len(train.class_names), train.channels)
    if recipe.pooling.name == "gsp" and recipe.pooling.adapt_batches:
        features, pooling = features_model(learner.embedder)
        pooling.adapt(batches.take(recipe.pooling.adapt_batches).map(lambda x, _: features(x)))
    folder = RunFolder.create(path, recipe)
    evaluation = RetrievalEvaluation(
        evaluation_dataset(validation, recipe.data.image_size, recipe.evaluation.batch_size),
        recall_at=recipe.evaluation.recall_at,
    )
    best = SaveBest(folder.model_path, monitor=MONITOR)
    divergence = StopOnNaN()
    started = time.monotonic()
    status = _fit(recipe, folder, learner, batches, evaluation, best, divergence)
    folder.update_metrics(
        status=status,
        epochs=learner.history.epoch[-1] + 1 if learner.history.epoch else 0,
        best_epoch=None if best.best_epoch is None else best.best_epoch + 1,
        best_val_map_at_r=best.best,
        training_seconds=round(time.monotonic() - started, 1),
        diverged_at=divergence.diverged_at,
        num_parameters=int(learner.embedder.count_params()),
        versions={
            "gsp_tf": gsp_tf.__version__,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "python": platform.python_version(),
        },
    )
    evaluate_run(folder.path, splits)
    return folder


def _fit(recipe, folder, learner, batches, evaluation, best, divergence):
    """Run `fit` with everything a run folder needs; returns the status of the run."""
    for callback in (evaluation, best):
        callback.set_model(learner)
    untrained = evaluation.evaluate()
    best.best = untrained[MONITOR]
    best.save()
    folder.update_metrics(untrained=untrained)
    callbacks = [
        divergence,
        evaluation,
        best,
        keras.callbacks.CSVLogger(folder.history_path),
        keras.callbacks.TensorBoard(folder.logs_path, write_graph=False),
    ]
    if recipe.training.patience is not None:
        callbacks.append(
            keras.callbacks.EarlyStopping(MONITOR, mode="max", patience=recipe.training.patience)
        )
    try:
        learner.fit(
            batches,
            epochs=recipe.training.epochs,
            steps_per_epoch=recipe.training.steps_per_epoch,
            callbacks=callbacks,
            shuffle=False,
            verbose=1 if sys.stdout.isatty() else 2,
        )
    except KeyboardInterrupt:
        return "interrupted"
    return "diverged" if divergence.diverged_at else "finished"


def evaluate_run(path, splits=None):
    """Evaluate the best model of a run on its test classes; writes `metrics.json`.

    Args:
        path: run folder.
        splits: what `load_splits` gives for the run's recipe, if it is at hand.

    Returns:
        dict of `retrieval_metrics`.

    Raises:
        FileNotFoundError: if the folder is not a run folder.
    """
    folder = RunFolder.open(path)
    recipe = folder.recipe()
    splits = splits or load_splits(recipe.data)
    test = splits[2]
    embedder = folder.learner().embedder
    batches = evaluation_dataset(test, recipe.data.image_size, recipe.evaluation.batch_size)
    embeddings, labels = embed(
        embedder, show_progress(batches, "Embedding the test images", len(batches))
    )
    metrics = retrieval_metrics(embeddings, labels, recall_at=recipe.evaluation.recall_at)
    metrics = {name: np.asarray(value).item() for name, value in metrics.items()}
    folder.update_metrics(
        num_classes={
            name: len(images.class_names)
            for name, images in zip(("train", "validation", "test"), splits, strict=True)
        },
        test=metrics,
    )
    return metrics
