import csv
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.cli import main
from gsp_tf.experiment import RunFolder, build_learner
from gsp_tf.experiment.warmup import warm_up
from gsp_tf.recipe import (
    BackboneRecipe,
    ClassRecipe,
    DataRecipe,
    EmbeddingRecipe,
    Recipe,
    TrainingRecipe,
)
from gsp_tf.training import RetrievalEvaluation, SaveBest

RECIPE = """
name: digits
data:
  name: folder
  path: {path}
  channels: 1
  image_size: 16
  split_fractions: [0.4, 0.3, 0.3]
  classes_per_batch: 4
  images_per_class: 4
backbone: {{name: conv4}}
embedding: {{dim: 8}}
pooling: {{num_prototypes: 4}}
training:
  epochs: 3
  steps_per_epoch: 3
  warmup_epochs: 2
  warmup_learning_rate_multiplier: 5
  learning_rate_multipliers: {{conv2d: 0.5, proxies: 10}}
"""


@pytest.fixture
def recipe(tmp_path, digits):
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE.format(path=digits), encoding="utf-8")
    return path


def train(recipe, folder, *options):
    """Exit code of training."""
    with pytest.raises(SystemExit) as exit:
        main(["train", str(recipe), "--run", str(folder.path), *options])
    return exit.value.code


def dataset():
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 255, (12, 16, 16, 1)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((images, np.arange(12) % 3)).batch(12).repeat()


def fit(train_with, first_epoch, epochs, save_best):
    train_with(
        dataset(),
        initial_epoch=first_epoch,
        epochs=epochs,
        steps_per_epoch=2,
        callbacks=[RetrievalEvaluation(dataset().take(1)), save_best],
        verbose=0,
    )


def warmed_up(path, **settings):
    """A learner after two epochs of warm-up, all of its weights before, and its `SaveBest`."""
    training = TrainingRecipe(warmup_epochs=2, learning_rate=0.02, **settings)
    recipe = Recipe(
        data=DataRecipe(image_size=16),
        backbone=BackboneRecipe("conv4"),
        embedding=EmbeddingRecipe(dim=8),
        pooling=ClassRecipe(num_prototypes=4),
        training=training,
    )
    learner = build_learner(recipe, num_classes=3, channels=1)
    before = [weight.numpy() for weight in learner.weights]
    best = SaveBest(path)
    best.set_model(learner)
    warm_up(training, learner, best, fit)
    return learner, before, best


@pytest.mark.parametrize("settings", [{}, {"jit_compile": True}, {"precision": "mixed_float16"}])
def test_the_backbone_stands_still(tmp_path, settings):
    learner, before, best = warmed_up(tmp_path / "best.keras", **settings)
    moved = {
        weight.path
        for weight, value in zip(learner.weights, before, strict=True)
        if not np.array_equal(weight, value)
    }
    proxies = learner.embedding_loss.proxies
    assert moved == {"embedding/kernel", "pooling/prototypes", proxies.path}
    assert best.best_epoch is not None
    assert int(learner.optimizer.iterations) == 0


def test_the_whole_learner_trains_afterwards(tmp_path):
    learner, _, best = warmed_up(tmp_path / "best.keras")
    before = [weight.numpy() for weight in learner.weights]
    fit(learner.fit, 2, 3, best)
    for weight, value in zip(learner.weights, before, strict=True):
        assert not np.array_equal(weight, value), weight.path


def test_what_is_saved_in_the_warmup_goes_on_whole(tmp_path):
    learner, _, _ = warmed_up(tmp_path / "best.keras", learning_rate_multipliers={"conv2d": 0.5})
    with warnings.catch_warnings():
        # Keras warns of the state of an optimizer that does not fit.
        warnings.simplefilter("error")
        loaded = keras.models.load_model(tmp_path / "best.keras")
    assert len(loaded.trainable_weights) == len(learner.trainable_weights)
    assert dict(loaded.optimizer.learning_rate_multipliers) == {"conv2d": 0.5}
    before = [weight.numpy() for weight in loaded.trainable_weights]
    loaded.fit(dataset(), steps_per_epoch=1, verbose=0)
    assert int(loaded.optimizer.iterations) == 1
    for weight, value in zip(loaded.trainable_weights, before, strict=True):
        assert not np.array_equal(weight, value), weight.path


@pytest.mark.parametrize("schedule", ["constant", "plateau"])
def test_one_history(recipe, tmp_path, schedule):
    folder = RunFolder(tmp_path / "run")
    assert train(recipe, folder, "--training.schedule.name", schedule) == 0
    with open(folder.history_path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    assert all(None not in row and None not in row.values() for row in rows)
    rates = [float(row["learning_rate"]) for row in rows]
    assert rates == pytest.approx([5e-3, 5e-3, 1e-3])
    metrics = folder.metrics()
    assert (metrics["status"], metrics["epochs"]) == ("finished", 3)
    scores = [float(row["val_map_at_r"]) for row in rows]
    assert metrics["best_val_map_at_r"] == max(metrics["untrained"]["val_map_at_r"], *scores)
    if metrics["best_epoch"] is not None:
        assert scores[metrics["best_epoch"] - 1] == max(scores)
    steps = [
        event.step
        for path in sorted((folder.logs_path / "train").iterdir())
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.tag == "epoch_loss"
    ]
    assert steps == [0, 1, 2]


def test_a_stop_in_the_warmup(recipe, tmp_path, monkeypatch):
    def stop(callback, epoch, logs, original=RetrievalEvaluation.on_epoch_end):
        if epoch == 1:
            raise KeyboardInterrupt
        original(callback, epoch, logs)

    monkeypatch.setattr(RetrievalEvaluation, "on_epoch_end", stop)
    folder = RunFolder(tmp_path / "run")
    assert train(recipe, folder) == 130
    metrics = folder.metrics()
    assert (metrics["status"], metrics["epochs"]) == ("interrupted", 1)
    assert metrics["test"]["num_queries"] == 60
    assert all(layer.trainable for layer in folder.learner().embedder.layers)


def test_divergence_in_the_warmup_ends_training(recipe, tmp_path):
    folder = RunFolder(tmp_path / "run")
    options = ["--training.learning_rate", "1e30", "--loss.temperature", "1e-30"]
    assert train(recipe, folder, *options) == 1
    metrics = folder.metrics()
    assert (metrics["status"], metrics["epochs"]) == ("diverged", 1)
    assert metrics["diverged_at"][0] == 0
    learner = folder.learner()
    assert all(np.isfinite(weight).all() for weight in learner.get_weights())
    assert learner.embedder.trainable_weights


def test_patience_counts_from_the_end_of_the_warmup(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(RetrievalEvaluation, "evaluate", lambda callback: {"val_map_at_r": 0.5})
    folder = RunFolder(tmp_path / "run")
    options = ["--training.epochs", "9", "--training.patience", "1"]
    assert train(recipe, folder, *options) == 0
    # Two epochs of warm-up, one to compare with, one without a rise.
    assert folder.metrics()["epochs"] == 4
