"""Train a run, phase by phase."""

import contextlib
import functools
import hashlib
import itertools
import math
import sys
import time
from pathlib import Path

import keras
import numpy as np
from keras import ops

from gsp_tf._backend import jit_compile, make_deterministic
from gsp_tf._keras import layers_within
from gsp_tf._metadata import versions
from gsp_tf._names import named
from gsp_tf.runs._baselines import RESULTS
from gsp_tf.runs._facts import facts_table, learner_facts, note_small_map
from gsp_tf.runs._initial import start_from
from gsp_tf.runs._inputs import FeatureInputs, ImageInputs
from gsp_tf.runs._optimizer import build_warmup_optimizer, plateau_callbacks, regularize
from gsp_tf.runs.data import fingerprint
from gsp_tf.runs.frozen import class_means, head_features, whitening_weights
from gsp_tf.runs.model import (
    FROZEN,
    adapt_prototypes,
    build_learner,
    compile_learner,
    trained_backbone,
)
from gsp_tf.training import (
    ChanceConstrainedTrainer,
    Checkpoint,
    HealthCheck,
    MetricLearner,
    ProxyPool,
    RetrievalEvaluation,
    SaveBest,
    StopOnNaN,
    embed,
    epoch_of,
)


class Training:
    """Trains one learner in a run folder: first the warm-up, if there is one, then the rest."""

    def __init__(self, run, trackers, callbacks=()):
        self.recipe, self.folder, self.splits = run.recipe, run.folder, run.splits
        self.trackers, self.given_callbacks = trackers, list(callbacks)
        recipe, train = self.recipe, self.splits.train
        if recipe.training.deterministic:
            make_deterministic()
        keras.utils.set_random_seed(recipe.seed)
        check_splits(recipe, self.splits)
        self.inputs = ImageInputs(recipe, self.splits.unlabelled)
        self.first_batches = self.inputs.training_batches(train)  # may refuse
        self.learner = build_learner(recipe, len(train.class_names), train.channels)
        print(facts_table(learner_facts(self.learner)), flush=True)
        note_small_map(recipe, self.learner)
        self.embedder = self.learner.embedder
        self.best = SaveBest(self.folder.model_path, monitor=recipe.monitor)
        if recipe.data.feature_cache is not None:
            self.learner = learner_from_features(self.learner)
            self.best = SaveWholeBest(self.embedder, self.folder.model_path, self.best.monitor)
        self.best.set_model(self.learner)
        self.trainer = ccp_trainer(recipe, self.learner) if recipe.trainer == "ccp" else None
        self.evaluation = None
        self.divergence, self.clock = StopOnNaN(), Clock()
        self.health = HealthCheck(recipe.training.health_every)
        self.start_epoch = None  # epoch of the checkpoint to continue from

    def start(self):
        """Train from the beginning; evaluates the untrained model before it writes anything."""
        recipe, folder = self.recipe, self.folder
        if folder.history():
            raise ValueError(
                f"{folder.path} has a history but no checkpoint to continue from. Remove the "
                "folder and train again."
            )
        if recipe.initial_run is not None:
            classes = fingerprint(self.splits.train)
            start_from(recipe, self.embedder, self.learner.embedding_loss, classes)
        self._prepare_inputs()
        if recipe.initial_run is None and recipe.training.adapt_batches:
            batches = itertools.islice(self.first_batches, recipe.training.adapt_batches)
            is_pooled = recipe.training.adapt_from == "pooled"
            adapt_prototypes(self.embedder, batches, self.inputs.start, is_pooled)
        self.evaluation.set_model(self.learner)
        untrained = self.evaluation.evaluate()
        if recipe.initial_run is None and recipe.embedding.whitening:
            untrained = self._whitened(untrained)
        folder.start(recipe)
        self.best.best = untrained[self.best.monitor]
        self.best.save()
        shown = (f"{name}: {value:.4f}" for name, value in untrained.items())
        print(f"Epoch 0, before training - {' - '.join(shown)}", flush=True)
        folder.update_metrics(
            status="running",
            untrained=untrained,
            train_classes=fingerprint(self.splits.train),
            num_train_images=len(self.splits.train),
            train_files=self._train_files(),
            unlabelled_images=fingerprint(self.splits.unlabelled),
            test_classes=fingerprint(self.splits.test),
            images=None if recipe.data.feature_cache is None else self.splits.digest(),
            num_parameters=int(self.embedder.count_params()),
            versions=versions("keras", keras.backend.backend()),
        )
        folder.add_epoch(0, untrained)
        self._train()

    def _whitened(self, untrained):
        """Start the map as the computed one if that is better; proxies start as class means."""
        layer, images = self.embedder.get_layer("embedding"), self.splits.train
        features, labels = head_features(self.embedder, self.inputs, images)
        identity = layer.get_weights()
        layer.set_weights(whitening_weights(features, labels, layer.units))
        found = self.evaluation.evaluate()
        if found[self.best.monitor] < untrained[self.best.monitor]:
            layer.set_weights(identity)
            found = untrained
        proxies = getattr(self.learner.embedding_loss, "proxies", None)
        if proxies is not None and proxies.shape[0] == len(np.unique(labels)):
            kernel, bias = layer.get_weights()
            proxies.assign(class_means(features @ kernel + bias, labels))
        return found

    def resume(self):
        """Continue from the checkpoint in the folder."""
        self.start_epoch = epoch_of(self.folder.checkpoint_path)
        self._check_same_training_images()
        self.folder.history()  # a damaged one is refused before anything is written
        # The status comes first: a process killed here leaves a run that is not finished.
        self.folder.update_metrics(without=RESULTS, status="running")
        self.folder.write_recipe(self.recipe)
        self.folder.cut_history(self.start_epoch)
        if self.recipe.data.feature_cache is not None:  # the checkpoint lacks the frozen part
            saved = self.folder.learner(compile=False).embedder.get_layer(FROZEN)
            self.embedder.get_layer(FROZEN).set_weights(saved.get_weights())
        self._prepare_inputs()
        self._train()

    def _prepare_inputs(self):
        """Compute the features to train from, if the recipe keeps any; the weights are set."""
        if self.recipe.data.feature_cache is not None:
            self.inputs = FeatureInputs(self.recipe, self.embedder)
            self.first_batches = self.inputs.training_batches(self.splits.train)
        self.evaluation = _evaluation(self.recipe, self.splits, self.inputs)

    def _train_files(self):
        """A short text that changes with the labels or the file names of the training images."""
        images = self.splits.train
        names = "\n".join(Path(path).name for path in getattr(images, "paths", ()))
        found = images.labels.tobytes() + names.encode("utf-8", errors="surrogateescape")
        return hashlib.sha256(found).hexdigest()[:16]

    def _check_same_training_images(self):
        metrics, images = self.folder.metrics(), self.splits.train
        if "train_classes" not in metrics:
            raise ValueError(
                f"{self.folder.metrics_path} does not say which images {self.folder.path} began "
                "with, so that its training cannot continue. Restore a copy of the file, or begin "
                "another run with the recipe."
            )
        began_with = metrics["train_classes"], metrics["num_train_images"]
        files, changed = self._train_files(), None
        if began_with != (fingerprint(images), len(images)):
            changed = (
                f"it had {began_with[1]}, now there are {len(images)} images of "
                f"{len(images.class_names)} classes, or the classes have changed"
            )
        elif metrics.get("train_files", files) != files:
            changed = "labels or names of files have changed"
        elif metrics.get("unlabelled_images") != fingerprint(self.splits.unlabelled):
            changed = f"data.unlabelled={self.recipe.data.unlabelled} has other images"
        if changed is not None:
            raise ValueError(
                f"The training images are not those that {self.folder.path} began with: {changed}."
            )

    def _train(self):
        """Train, and record how it ended."""
        status = "failed"
        try:
            self.trackers.open()
            self._train_phases()
            status = "diverged" if self.divergence.diverged_at else "finished"
            if self.trainer:
                self.folder.update_metrics(projections=self.trainer.projections)
        except KeyboardInterrupt:
            self.best.save_if_due()
            status = "interrupted"
        finally:
            self._write_outcome(status)

    def _train_phases(self):
        training = self.recipe.training
        first_epoch = self.start_epoch or 0
        named = named_callbacks(self.recipe, self.folder)
        self.logger = [named.pop("csv_logger")] if "csv_logger" in named else []
        if first_epoch < training.warmup_epochs:
            with warm_up(training, self.learner, self.best) as save_best:
                self._fit(self.learner.fit, first_epoch, training.warmup_epochs, [save_best])
            first_epoch = training.warmup_epochs
        if self.divergence.diverged_at is not None:
            return
        compile_learner(self.learner, self.recipe)  # some optimizers keep their first weights
        stops = plateau_callbacks(training.schedule, self.best.monitor)
        if training.patience is not None:
            stops["early_stopping"] = keras.callbacks.EarlyStopping(
                self.best.monitor, mode="max", patience=training.patience
            )
        stops |= {f"callbacks.{name}": callback for name, callback in named.items()}
        fit, parts, followers = self.learner.fit, stops, [self.best, *stops.values()]
        if self.trainer:
            images = self.splits.train
            batches = functools.partial(self.inputs.evaluation_batches, images)
            pool = ProxyPool(images.labels, batches, self.recipe.seed)
            fit = functools.partial(self.trainer.fit, pool=pool)
            parts = stops | {"ccp": self.trainer}
            followers.append(
                keras.callbacks.LambdaCallback(
                    on_train_begin=lambda logs: regularize(
                        training, self.trainer.learner.trainable_variables
                    )
                )
            )
        self._fit(fit, first_epoch, training.epochs, followers, parts)

    def _fit(self, fit, first_epoch, epochs, followers, parts=None):
        """Call `fit` for some epochs; checkpoints also hold the state of `parts`."""
        training, folder, batches = self.recipe.training, self.folder, self.first_batches
        untrained = {} if first_epoch else folder.metrics()["untrained"]
        if first_epoch:
            batches = self.inputs.training_batches(self.splits.train, first_epoch)
        fit(
            batches,
            initial_epoch=first_epoch,
            epochs=epochs,
            steps_per_epoch=training.steps_per_epoch,
            callbacks=[
                self.divergence,
                self.health,
                self.evaluation,
                LogState(self.recipe.trainer),
                Checkpoint(
                    folder.checkpoint_path,
                    {
                        "best": self.best,
                        "clock": self.clock,
                        "health": self.health,
                        **(parts or {}),
                    },
                    resume=first_epoch == self.start_epoch,
                ),
                *followers,
                keras.callbacks.LambdaCallback(
                    on_epoch_end=lambda epoch, logs: folder.add_epoch(epoch + 1, logs)
                ),
                Board(
                    folder.logs_path,
                    self.health,
                    self.recipe.callbacks.get("tensor_board", {}),
                    untrained,
                ),
                *self.logger,
                *self.trackers.callbacks,
                keras.callbacks.LambdaCallback(
                    on_train_begin=lambda logs: self.trackers.log_untrained(untrained)
                ),
                *self.given_callbacks,
            ],
            shuffle=False,
            verbose=1 if sys.stdout.isatty() else 2,
        )

    def _write_outcome(self, status):
        best, diverged_at = self.best, self.divergence.diverged_at
        outcome = {"status": status, "epochs": len(self.folder.history().get("loss", ()))}
        if math.isfinite(best.best):  # otherwise the checkpoint was not restored
            outcome |= {
                "best_epoch": None if best.best_epoch is None else best.best_epoch + 1,
                f"best_{best.monitor}": best.best,
                "training_seconds": round(self.clock.seconds(), 1),
                "diverged_at": diverged_at and [number + 1 for number in diverged_at],
                "health": self.health.findings,
            }
        self.folder.update_metrics(**outcome)


def check_splits(recipe, splits):
    """Refuse images that cannot fill a recipe's batches or cannot be evaluated."""
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
        names = ", ".join(images.class_names[:5])
        if gallery is None and np.bincount(images.labels).max() < 2:
            raise ValueError(
                f"Retrieval needs a class with two images, but each of the {name} classes "
                f"({names}, ...) has one."
            )
        if gallery is not None and not np.isin(images.labels, gallery.labels).any():
            raise ValueError(
                f"Retrieval needs a class in both, but none of the {len(images)} queries is of a "
                f"class of the {len(gallery)} gallery images ({names}, ...)."
            )


def ccp_trainer(recipe, learner):
    """The CCP trainer of a recipe for a learner; refuses a loss that does not compare pairs."""
    return ChanceConstrainedTrainer(learner, monitor=recipe.protocol.monitor, **vars(recipe.ccp))


def _evaluation(recipe, splits, inputs):
    """The evaluation of the validation images after each epoch."""
    if recipe.trainer == "classification":
        return AccuracyEvaluation(inputs.evaluation_batches(splits.validation))
    gallery = splits.validation_gallery
    recall_at = recipe.evaluation.recall_at
    if recipe.protocol.monitor == "val_recall_at_1":
        recall_at = sorted({1, *recall_at})
    return RetrievalEvaluation(
        inputs.evaluation_batches(splits.validation),
        recall_at=recall_at,
        references=None if gallery is None else inputs.evaluation_batches(gallery),
    )


def accuracy(classifier, features, labels):
    """The share of features `(N, D)` whose most likely class is their label."""
    logits = ops.convert_to_numpy(classifier.logits(features))
    return float(np.mean(logits.argmax(axis=1) == labels))


class AccuracyEvaluation(RetrievalEvaluation):
    """Adds the accuracy on validation images to the logs of each epoch, as `val_accuracy`."""

    def evaluate(self):
        features, labels = embed(self._forward, self.dataset)
        return {f"{self.prefix}accuracy": accuracy(self.model.embedding_loss, features, labels)}


class Clock:
    """Seconds of training, including those before a stop."""

    def __init__(self):
        self._started = time.monotonic()

    def seconds(self):
        return time.monotonic() - self._started

    def state(self):
        return {"seconds": self.seconds()}

    def restore(self, state):
        self._started -= state["seconds"]


class LogState(keras.callbacks.Callback):
    """Adds the learning rate to the logs, and for CCP projection 0 before the first projection."""

    def __init__(self, trainer):
        super().__init__()
        self.trainer = trainer

    def on_epoch_end(self, epoch, logs=None):
        logs.update(learning_rate=float(self.model.optimizer.learning_rate))
        if self.trainer == "ccp":
            logs.setdefault("projection", 0)


class Board(keras.callbacks.TensorBoard):
    """Writes the logs of each epoch for TensorBoard, with what a `HealthCheck` saw in it.

    Epoch 0 is the untrained model.
    """

    def __init__(self, path, health, options, untrained):
        super().__init__(path, **{"write_graph": False, **options})
        self.health, self.untrained = health, untrained

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._written = len(self.health.findings)  # those of a run that continues
        self._log_epoch_metrics(0, self.untrained)

    def on_epoch_end(self, epoch, logs=None):
        epoch += 1
        measures = {f"health_{name}": value for name, value in self.health.measures.items()}
        super().on_epoch_end(epoch, {**logs, **measures})
        found = self.health.findings[self._written :]
        if found:
            self._written += len(found)
            text = "\n\n".join(f"Step {finding['step']}: {finding['text']}" for finding in found)
            with self.summary.create_file_writer(f"{self.log_dir}/train").as_default():
                self.summary.text("health", text, step=epoch)


def named_callbacks(recipe, folder):
    """The Keras callbacks that a recipe names, by name; their files are in the run folder."""
    made = {}
    for name, arguments in recipe.callbacks.items():
        if name == "csv_logger":
            path = folder.path / arguments["filename"]
            arguments = {**arguments, "filename": str(path), "append": True}
        elif name == "model_checkpoint":
            arguments = {**arguments, "filepath": str(folder.path / arguments["filepath"])}
        elif name not in ("early_stopping", "reduce_lr_on_plateau"):
            continue  # the board and the trackers, which every run makes by itself
        made[name] = named("callbacks", name)(**arguments)
    return made


class SaveWholeBest(SaveBest):
    """Saves the whole embedder, of which the learner trains the part after the frozen layers."""

    def __init__(self, embedder, path, monitor):
        super().__init__(path, monitor)
        self._embedder = embedder

    def set_model(self, model):
        super().set_model(_with_embedder(model, self._embedder))


def learner_from_features(learner):
    """A learner that takes features of the frozen part and shares all else with a learner."""
    embedder = learner.embedder
    upper = keras.Model(embedder.get_layer(FROZEN).output, embedder.output, name=embedder.name)
    return _with_embedder(learner, upper)


def _with_embedder(learner, embedder):
    """A learner around another embedder, with the same losses and optimizer."""
    other = MetricLearner(
        embedder,
        learner.named_losses,
        loss_weights=learner.loss_weights,
        chunk_size=learner.chunk_size,
    )
    other.compile(learner.optimizer, jit_compile=learner.jit_compile)
    return other


@contextlib.contextmanager
def warm_up(recipe, learner, best):
    """Let the learner train all but its backbone in the block, with another optimizer."""
    # The block gets a callback that replaces `best`, the `SaveBest` of the learner. It saves the
    # learner in its state after the block, with a trainable backbone and its own optimizer.
    backbone = trained_backbone(learner)
    parts = backbone, *layers_within(backbone), *backbone.weights  # from the outside in
    optimizer, of_layers = learner.optimizer, [(part, part.trainable) for part in parts]

    def save_if_due(*_):
        head_optimizer = learner.optimizer
        _set_trainable(of_layers)
        learner.optimizer = optimizer
        best.save_if_due()
        backbone.trainable, learner.optimizer = False, head_optimizer

    backbone.trainable = False
    try:
        learner.compile(
            build_warmup_optimizer(recipe, learner.trainable_variables),
            jit_compile=jit_compile(recipe.jit_compile),
        )
        yield keras.callbacks.LambdaCallback(
            on_epoch_begin=save_if_due, on_epoch_end=best.on_epoch_end, on_train_end=save_if_due
        )
    finally:
        _set_trainable(of_layers)
        learner.compile(optimizer, jit_compile=jit_compile(recipe.jit_compile))


def _set_trainable(pairs):
    """Undo a change of `trainable`, which reaches from a layer to all within it."""
    for part, trainable in pairs:
        part.trainable = trainable
