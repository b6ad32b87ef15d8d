"""Training and evaluation in a run folder."""

import csv
import dataclasses
import functools
import hashlib
import json
import platform
import sys
import time
import zipfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import gsp_tf
from gsp_tf.data import evaluation_dataset, training_dataset
from gsp_tf.data.progress import show_progress
from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.experiment.ccp import ccp_trainer, proxy_pool
from gsp_tf.experiment.data import load_splits
from gsp_tf.experiment.losses import complete_arguments
from gsp_tf.experiment.model import adapt_prototypes, build_learner
from gsp_tf.experiment.optimizer import plateau_callbacks
from gsp_tf.experiment.warmup import warm_up
from gsp_tf.files import replace_text
from gsp_tf.recipe import load_recipe, save_recipe
from gsp_tf.training import MetricLearner, RetrievalEvaluation, SaveBest, StopOnNaN, embed

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
        folder.refuse_existing()
        folder.path.mkdir(parents=True)
        save_recipe(recipe, folder.recipe_path)
        return folder

    def refuse_existing(self):
        """Raise `FileExistsError` if the folder, or a file of that name, is there already."""
        if self.path.exists():
            raise FileExistsError(
                f"The run folder {self.path} exists. Choose another one or remove it."
            )

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

    def learner(self, compile=True):
        """The best learner, with its weights and, compiled, its optimizer's state."""
        if not zipfile.is_zipfile(self.model_path):
            raise ValueError(f"{self.model_path} is damaged: it is no .keras archive.")
        learner = keras.models.load_model(self.model_path, compile=compile)
        if not isinstance(learner, MetricLearner):
            raise ValueError(f"{self.model_path} holds no MetricLearner.")
        return learner

    def history(self):
        """Columns of `history.csv`: dict from name to list of float, one value an epoch."""
        if not self.history_path.exists():
            return {}
        with open(self.history_path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        names = [name for name in (rows[0] if rows else ()) if name != "epoch"]
        # A crash or a full disk can leave the last row incomplete.
        rows = [row for row in rows if all(row[name] for name in names)]
        return {name: [float(row[name]) for row in rows] for name in names}

    def metrics(self):
        """What `metrics.json` holds; empty if the run has not come to it."""
        if not self.metrics_path.exists():
            return {}
        try:
            return dict(json.loads(self.metrics_path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.metrics_path} is damaged: {error}") from error

    def update_metrics(self, **entries):
        """Add entries to `metrics.json`, under a temporary name first."""
        text = json.dumps({**self.metrics(), **entries}, indent=2)
        replace_text(self.metrics_path, text + "\n")


def train_recipe(recipe, path, splits=None):
    """Train as a recipe says, keep the best model, and evaluate it on the test classes.

    The best model is the one with the highest MAP@R on the validation classes, the untrained one
    included. Ctrl-C ends training early; the folder is completed all the same. So does a loss that
    is not finite; then the best model until then is kept and the folder says that training
    diverged. Nothing is written before the first evaluation has shown that all can run.

    Args:
        recipe: `gsp_tf.recipe.Recipe`.
        path: folder to create.
        splits: what `load_splits` gives for the recipe, if it is at hand.

    Returns:
        `RunFolder`; its metrics hold the `status`: "finished", "interrupted" or "diverged", and
        "failed" if an error ended the training.

    Raises:
        FileExistsError: if the folder exists.
        ValueError: if the data or the recipe cannot be used.
    """
    RunFolder(path).refuse_existing()
    recipe = dataclasses.replace(recipe, loss=complete_arguments(recipe.loss))
    splits = splits or load_splits(recipe.data)
    train, validation, test = splits
    keras.utils.set_random_seed(recipe.seed)
    batches = training_dataset(
        train,
        recipe.data.image_size,
        recipe.data.classes_per_batch,
        recipe.data.images_per_class,
        seed=recipe.seed,
        horizontal_flip=recipe.data.horizontal_flip,
        min_crop_area=recipe.data.min_crop_area,
    )
    for name, images in (("validation", validation), ("test", test)):
        if np.bincount(images.labels).max() < 2:
            raise ValueError(
                f"Retrieval needs a class with two images, but each of the {name} classes "
                f"({', '.join(images.class_names[:5])}, ...) has one."
            )
    learner = build_learner(recipe, len(train.class_names), train.channels)
    if recipe.pooling.name == "gsp" and recipe.pooling.adapt_batches:
        adapt_prototypes(learner.embedder, batches.take(recipe.pooling.adapt_batches))
    evaluation = RetrievalEvaluation(
        evaluation_dataset(validation, recipe.data.image_size, recipe.evaluation.batch_size),
        recall_at=recipe.evaluation.recall_at,
    )
    trainer, train_with = None, learner.fit
    if recipe.trainer == "ccp":
        trainer = ccp_trainer(recipe, learner)
        train_with = functools.partial(trainer.fit, pool=proxy_pool(recipe, train))
    evaluation.set_model(learner)
    untrained = evaluation.evaluate()
    folder = RunFolder.create(path, recipe)
    best = SaveBest(folder.model_path, monitor=MONITOR, baseline=untrained[MONITOR])
    best.set_model(learner)
    best.save()
    folder.update_metrics(
        untrained=untrained,
        test_classes=_fingerprint(test),
        num_parameters=int(learner.embedder.count_params()),
        versions={
            "gsp_tf": gsp_tf.__version__,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "python": platform.python_version(),
        },
    )
    _fit(recipe, folder, learner, train_with, batches, evaluation, best)
    if trainer:
        folder.update_metrics(projections=trainer.projections)
    evaluate_run(folder.path, splits)
    return folder


def _fit(recipe, folder, learner, train_with, batches, evaluation, best):
    """Train with everything a run folder needs, and write down how it ended."""
    training = recipe.training
    divergence = StopOnNaN()
    logger = keras.callbacks.CSVLogger(folder.history_path, append=True)
    board = keras.callbacks.TensorBoard(folder.logs_path, write_graph=False)

    def fit(train_with, first_epoch, epochs, *followers):
        train_with(
            batches,
            initial_epoch=first_epoch,
            epochs=epochs,
            steps_per_epoch=training.steps_per_epoch,
            callbacks=[
                divergence,
                evaluation,
                _LogState(recipe.trainer),
                *followers,
                logger,
                board,
            ],
            shuffle=False,
            verbose=1 if sys.stdout.isatty() else 2,
        )

    followers = plateau_callbacks(training.schedule, MONITOR)
    if training.patience is not None:
        followers.append(
            keras.callbacks.EarlyStopping(MONITOR, mode="max", patience=training.patience)
        )
    started = time.monotonic()
    status = "failed"
    try:
        if training.warmup_epochs:
            warm_up(training, learner, best, fit)
        if divergence.diverged_at is None:
            fit(train_with, training.warmup_epochs, training.epochs, best, *followers)
        status = "diverged" if divergence.diverged_at else "finished"
    except KeyboardInterrupt:
        status = "interrupted"
        print(
            "\nInterrupted; now evaluating the best model. If this is stopped too, "
            f"`gsp-tf evaluate {folder.path}` does it later.",
            file=sys.stderr,
        )
    finally:
        folder.update_metrics(
            status=status,
            epochs=len(folder.history().get("loss", ())),
            best_epoch=None if best.best_epoch is None else best.best_epoch + 1,
            best_val_map_at_r=best.best,
            training_seconds=round(time.monotonic() - started, 1),
            diverged_at=divergence.diverged_at,
        )


class _LogState(keras.callbacks.Callback):
    """Adds the learning rate to the logs, and 0 for the projection before the first of CCP."""

    def __init__(self, trainer):
        super().__init__()
        self.trainer = trainer

    def on_epoch_end(self, epoch, logs=None):
        logs.update(learning_rate=float(self.model.optimizer.learning_rate))
        if self.trainer == "ccp":
            logs.setdefault("projection", 0)


def _fingerprint(images):
    """Which classes a set holds, as a short text."""
    names = "\n".join(images.class_names)
    return hashlib.sha256(names.encode("utf-8", errors="surrogateescape")).hexdigest()[:16]


def evaluate_run(path, splits=None):
    """Evaluate the best model of a run on its test classes; writes `metrics.json`.

    Args:
        path: run folder.
        splits: what `load_splits` gives for the run's recipe, if it is at hand.

    Returns:
        dict of `retrieval_metrics`.

    Raises:
        FileNotFoundError: if the folder is not a run folder.
        ValueError: if a file of it is damaged, or the data are not those it was made with.
    """
    folder = RunFolder.open(path)
    recipe = folder.recipe()
    splits = splits or load_splits(recipe.data)
    test = splits[2]
    embedder = folder.learner(compile=False).embedder
    size = recipe.data.image_size
    if embedder.input_shape != (None, size, size, test.channels):
        raise ValueError(
            f"The model of {folder.path} takes images {embedder.input_shape[1:]}, its recipe and "
            f"data give {(size, size, test.channels)}."
        )
    if folder.metrics().get("test_classes", _fingerprint(test)) != _fingerprint(test):
        raise ValueError(
            f"The test classes are not those that {folder.path} was made with: the data or the "
            "split in its recipe have changed, and the model may have been trained on them."
        )
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
