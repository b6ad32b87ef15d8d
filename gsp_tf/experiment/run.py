"""Training in a run folder."""

import dataclasses
import functools
import math
import platform
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import gsp_tf
from gsp_tf.data import training_dataset
from gsp_tf.experiment._optimizer import plateau_callbacks
from gsp_tf.experiment.ccp import ccp_trainer, proxy_pool
from gsp_tf.experiment.data import evaluation_batches, load_splits
from gsp_tf.experiment.evaluate import evaluate_run, fingerprint
from gsp_tf.experiment.folder import RunFolder
from gsp_tf.experiment.history import HistoryFile
from gsp_tf.experiment.initial import start_from
from gsp_tf.experiment.model import adapt_prototypes, build_learner
from gsp_tf.experiment.summary import facts_table, learner_facts, note_small_map
from gsp_tf.experiment.warmup import warm_up
from gsp_tf.recipe import resolved, save_recipe
from gsp_tf.training import Checkpoint, RetrievalEvaluation, SaveBest, StopOnNaN, epoch_of


def train_recipe(recipe, path, splits=None):
    """Train as a recipe says, keep the best model, and evaluate it on the test classes.

    The best model is the one with the highest MAP@R on the validation classes (Recall@1 with
    protocol.name=conventional), the untrained one included. Ctrl-C ends training early; the folder
    is completed all the same, and `resume_run` continues. A loss that is not finite ends training
    too; then the best model until then is kept and the folder says that training diverged. Nothing
    is written before the first evaluation has shown that all can run.

    Args:
        recipe: `gsp_tf.recipe.Recipe`.
        path: folder to create.
        splits: what `load_splits` gives for the recipe, if it is loaded already.

    Returns:
        `RunFolder`; its metrics hold the `status`: "finished", "interrupted" or "diverged", and
        "failed" if an error ended the training.

    Raises:
        BlockingIOError: if another process is writing the folder.
        FileExistsError: if the folder exists.
        ValueError: if the data or the recipe cannot be used.

    Example:
        >>> from gsp_tf.recipe import DataRecipe, Recipe
        >>> train_recipe(Recipe(data=DataRecipe("folder", path="no/such/images")), "no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: ...no/such/images...
    """
    folder = RunFolder(path)
    folder.refuse_existing()
    recipe = resolved(recipe)
    with folder.training():
        splits = splits or load_splits(recipe)
        _train(recipe, folder, splits)
        _complete(folder, splits)
    return folder


def resume_run(path, splits=None, changes=None):
    """Go on with a run that was stopped, from its last evaluation, or give it more epochs.

    In deterministic mode on a CPU the run ends with the numbers of one that was never stopped. What
    a run had done after its last evaluation is done again; one that was stopped before its first
    epoch starts anew; one whose training is finished is evaluated if it was not.

    With more epochs, or with another patience, a finished run does its last epoch again and
    continues: from its last state, not from its best model. In deterministic mode on a CPU it ends
    with the numbers of a run of so many epochs from the start, unless a cosine schedule, whose
    curve depends on the number of epochs, sets the learning rate.

    Args:
        path: run folder.
        splits: what `load_splits` gives for the run's recipe, if it is loaded already.
        changes: dict of other values of "epochs" and "patience" in `recipe.training`, which the
            folder's recipe takes over.

    Returns:
        `RunFolder`, as `train_recipe`.

    Raises:
        BlockingIOError: if another process is writing the folder.
        FileNotFoundError: if the folder is not a run folder.
        ValueError: if its checkpoint is damaged or missing, the training data are not those it
            began with, or the changes leave nothing to do.

    Example:
        >>> resume_run("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    folder = RunFolder(path)
    folder.require(folder.recipe_path)
    with folder.training():
        recipe = _with_changes(folder, changes or {})
        splits = splits or load_splits(recipe)
        if recipe != folder.recipe() or not folder.is_trained():
            _train(recipe, folder, splits, resume=True)
        _complete(folder, splits)
    return folder


def _with_changes(folder, changes):
    """The recipe of a run with changes of its training; refuses those that leave nothing to do."""
    recipe = folder.recipe()
    training = dataclasses.replace(recipe.training, **changes)
    if training == recipe.training:
        return recipe
    trained = len(folder.history().get("loss", ()))
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


def _complete(folder, splits):
    """Drop the checkpoint of a run that diverged, and evaluate what was not."""
    if folder.metrics().get("status") == "diverged":
        folder.checkpoint_path.unlink(missing_ok=True)
    if "test" not in folder.metrics():
        evaluate_run(folder.path, splits)


def _train(recipe, folder, splits, resume=False):
    if recipe.training.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(recipe.seed)
    batches = functools.partial(training_batches, recipe, splits.train)
    check_splits(recipe, splits)
    initial_batches = batches(0)  # refuses images that cannot fill them, before all else
    learner = build_learner(recipe, len(splits.train.class_names), splits.train.channels)
    print(facts_table(learner_facts(learner)), flush=True)
    note_small_map(recipe, learner)
    evaluation = _evaluation(recipe, splits)
    trainer, train_with = None, learner.fit
    if recipe.trainer == "ccp":
        trainer = ccp_trainer(recipe, learner)
        train_with = functools.partial(trainer.fit, pool=proxy_pool(recipe, splits.train))
    best = SaveBest(folder.model_path, monitor=recipe.protocol.monitor)
    best.set_model(learner)
    if resume and folder.checkpoint_path.exists():
        first_epoch = epoch_of(folder.checkpoint_path)
        _check_same_training_images(folder, splits.train)
        save_recipe(recipe, folder.recipe_path)
        folder.cut_history(first_epoch)
        folder.update_metrics(without=["test"], status="running")
    elif folder.history():
        raise ValueError(
            f"{folder.path} has a history but no checkpoint to continue from. Remove the folder to "
            "train anew."
        )
    else:
        first_epoch = None
        if recipe.initial_run is not None:
            start_from(recipe, learner.embedder)
        elif recipe.training.adapt_batches:
            first = initial_batches.take(recipe.training.adapt_batches)
            adapt_prototypes(learner.embedder, first)
        _start(recipe, folder, splits, learner, evaluation, best, resume)
    _fit(recipe, folder, learner, trainer, train_with, batches, evaluation, best, first_epoch)


def training_batches(recipe, images, first_epoch=0):
    """The batches that a recipe trains on.

    Args:
        recipe: `gsp_tf.recipe.Recipe`.
        images: `ImageSet` of the training classes.
        first_epoch: epoch to begin with, from 0.

    Returns:
        endless `tf.data.Dataset` of `(images, labels)`.

    Raises:
        ValueError: if the images cannot fill such batches.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> from gsp_tf.recipe import DataRecipe, Recipe
        >>> recipe = Recipe(data=DataRecipe(image_size=8, classes_per_batch=2, images_per_class=3))
        >>> images = ArrayImages(np.zeros((9, 8, 8, 1), "uint8"), [0, 1, 2] * 3, ["a", "b", "c"])
        >>> batch, labels = next(iter(training_batches(recipe, images)))
        >>> batch.shape, len(set(labels.numpy()))
        (TensorShape([6, 8, 8, 1]), 2)
    """
    data = recipe.data
    return training_dataset(
        images,
        data.image_size,
        data.classes_per_batch,
        data.images_per_class,
        seed=recipe.seed,
        horizontal_flip=data.horizontal_flip,
        min_crop_area=data.min_crop_area,
        resize=data.resize,
        first_batch=first_epoch * recipe.training.steps_per_epoch,
    )


def check_splits(recipe, splits):
    """Refuse images that cannot fill a recipe's batches or cannot be evaluated.

    Args:
        recipe: `gsp_tf.recipe.Recipe`.
        splits: `Splits`.

    Raises:
        ValueError: if fewer classes train than a batch has, or no validation or test image has
            another of its class to find.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> from gsp_tf.experiment import Splits
        >>> from gsp_tf.recipe import Recipe
        >>> images = ArrayImages(np.zeros((2, 8, 8, 1), "uint8"), [0, 1], ["a", "b"])
        >>> check_splits(Recipe(), Splits(images, images, images))
        Traceback (most recent call last):
            ...
        ValueError: data.classes_per_batch must be at most 2, received 16: ...
    """
    per_batch, num_train = recipe.data.classes_per_batch, len(splits.train.class_names)
    if per_batch > num_train:
        names = {name for part in splits if part is not None for name in part.class_names}
        others = "" if len(names) == num_train else f" of {len(names)}; the others choose and test"
        raise ValueError(
            f"data.classes_per_batch must be at most {num_train}, received {per_batch}: "
            f"{num_train} classes train{others}. Give --data.classes_per_batch {num_train} or less."
        )
    for name, gallery in (("validation", splits.validation_gallery), ("test", splits.gallery)):
        images = getattr(splits, name)
        if gallery is None and np.bincount(images.labels).max() < 2:
            raise ValueError(
                f"Retrieval needs a class with two images, but each of the {name} classes "
                f"({', '.join(images.class_names[:5])}, ...) has one."
            )
        if gallery is not None and not np.isin(images.labels, gallery.labels).any():
            raise ValueError(
                f"Retrieval needs a class in both, but none of the {len(images)} queries is of a "
                f"class of the {len(gallery)} gallery images ({', '.join(images.class_names[:5])}, "
                "...)."
            )


def _evaluation(recipe, splits):
    gallery = splits.validation_gallery
    recall_at = recipe.evaluation.recall_at
    if recipe.protocol.monitor == "val_recall_at_1":
        recall_at = sorted({1, *recall_at})
    return RetrievalEvaluation(
        evaluation_batches(recipe, splits.validation),
        recall_at=recall_at,
        references=None if gallery is None else evaluation_batches(recipe, gallery),
    )


def _start(recipe, folder, splits, learner, evaluation, best, resume):
    """Evaluate the untrained model, and make the folder with it."""
    evaluation.set_model(learner)
    untrained = evaluation.evaluate()
    if resume:
        folder.start(recipe)
    else:
        folder = RunFolder.create(folder.path, recipe)
    best.best = untrained[best.monitor]
    best.save()
    folder.update_metrics(
        status="running",
        untrained=untrained,
        train_classes=fingerprint(splits.train),
        num_train_images=len(splits.train),
        test_classes=fingerprint(splits.test),
        num_parameters=int(learner.embedder.count_params()),
        versions={
            "gsp_tf": gsp_tf.__version__,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "python": platform.python_version(),
        },
    )


def _check_same_training_images(folder, images):
    metrics = folder.metrics()
    began_with = metrics["train_classes"], metrics["num_train_images"]
    if began_with != (fingerprint(images), len(images)):
        raise ValueError(
            f"The training images are not those that {folder.path} began with: it had "
            f"{began_with[1]}, now there are {len(images)} images of "
            f"{len(images.class_names)} classes, or the classes have changed."
        )


def _fit(recipe, folder, learner, trainer, train_with, batches, evaluation, best, start):
    """Train with everything a run folder needs, and write down how it ended.

    `start` is the epoch of the checkpoint to continue from, or `None`.
    """
    training = recipe.training
    divergence, clock = StopOnNaN(), _Clock()

    def fit(train_with, first_epoch, epochs, *followers, parts=None):
        checkpoint = Checkpoint(
            folder.checkpoint_path,
            {"best": best, "clock": clock, **(parts or {})},
            resume=first_epoch == start,
        )
        train_with(
            batches(first_epoch),
            initial_epoch=first_epoch,
            epochs=epochs,
            steps_per_epoch=training.steps_per_epoch,
            callbacks=[
                divergence,
                evaluation,
                _LogState(recipe.trainer),
                checkpoint,
                *followers,
                HistoryFile(folder.history_path),
                keras.callbacks.TensorBoard(folder.logs_path, write_graph=False),
            ],
            shuffle=False,
            verbose=1 if sys.stdout.isatty() else 2,
        )

    stops = plateau_callbacks(training.schedule, best.monitor)
    if training.patience is not None:
        stops["early_stopping"] = keras.callbacks.EarlyStopping(
            best.monitor, mode="max", patience=training.patience
        )
    parts = stops | ({"ccp": trainer} if trainer else {})
    status = "failed"
    try:
        if (start or 0) < training.warmup_epochs:
            warm_up(training, learner, best, fit, start or 0)
        if divergence.diverged_at is None:
            first_epoch = max(start or 0, training.warmup_epochs)
            fit(train_with, first_epoch, training.epochs, best, *stops.values(), parts=parts)
        status = "diverged" if divergence.diverged_at else "finished"
        if trainer:
            folder.update_metrics(projections=trainer.projections)
    except KeyboardInterrupt:
        best.save_if_due()
        status = "interrupted"
        print(
            "\nInterrupted; now evaluating the best model. "
            f"`gsp-tf train --resume {folder.path}` continues the training.",
            file=sys.stderr,
        )
    finally:
        outcome = {"status": status, "epochs": len(folder.history().get("loss", ()))}
        if math.isfinite(best.best):  # else the checkpoint was not restored
            outcome |= {
                "best_epoch": None if best.best_epoch is None else best.best_epoch + 1,
                f"best_{best.monitor}": best.best,
                "training_seconds": round(clock.seconds(), 1),
                "diverged_at": divergence.diverged_at,
            }
        folder.update_metrics(**outcome)


class _Clock:
    """Seconds of training, those before a run was stopped included."""

    def __init__(self):
        self._started = time.monotonic()

    def seconds(self):
        return time.monotonic() - self._started

    def state(self):
        return {"seconds": self.seconds()}

    def restore(self, state):
        self._started -= state["seconds"]


class _LogState(keras.callbacks.Callback):
    """Adds the learning rate to the logs, and 0 for the projection before the first of CCP."""

    def __init__(self, trainer):
        super().__init__()
        self.trainer = trainer

    def on_epoch_end(self, epoch, logs=None):
        logs.update(learning_rate=float(self.model.optimizer.learning_rate))
        if self.trainer == "ccp":
            logs.setdefault("projection", 0)
