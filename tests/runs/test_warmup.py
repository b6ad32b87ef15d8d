import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Run, build_learner
from gsp_tf.runs._training import warm_up
from gsp_tf.training import RetrievalEvaluation, SaveBest

WARM_UP = """
training:
  epochs: 3
  steps_per_epoch: 1
  warmup_epochs: 2
  warmup_learning_rate_multiplier: 5
  learning_rate_multipliers: {conv2d: 0.5, proxies: 10}
"""


GSP = """
pooling: {name: gsp, num_prototypes: 4}
zero_shot: {weight: 0.1}
training: {warmup_epochs: 2, learning_rate: 0.02, learning_rate_multipliers: {conv2d: 0.5}}
"""
COMPILED = ["--training.jit_compile", "true", "--training.precision", "mixed_float16"]


@pytest.fixture
def train(write_recipe, tmp_path):
    """Function that trains with options and gives the run."""
    path = write_recipe(WARM_UP)
    return lambda *options: Run(tmp_path / "run", load_recipe(path, options)).train()


def dataset():
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 255, (12, 16, 16, 1)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((images, np.arange(12) % 3)).batch(12).repeat()


def fit(learner, first_epoch, epochs, save_best):
    learner.fit(
        dataset(),
        initial_epoch=first_epoch,
        epochs=epochs,
        steps_per_epoch=2,
        callbacks=[RetrievalEvaluation(dataset().take(1)), save_best],
        verbose=0,
    )


def values(weights):
    return {weight.path: weight.numpy() for weight in weights}


def moved(weights, before):
    """Paths of the weights that have changed."""
    return {path for path, value in values(weights).items() if (value != before[path]).any()}


@pytest.mark.parametrize("options", [[], pytest.param(COMPILED, marks=pytest.mark.evidence)])
def test_the_backbone_is_frozen(write_recipe, tmp_path, options):
    """In the warm-up; then the whole learner trains, and so does the model that it saved."""
    tf.config.run_functions_eagerly(not options)  # what is compiled needs graphs
    recipe, path = load_recipe(write_recipe(GSP), options), tmp_path / "best.keras"
    learner, best = build_learner(recipe, num_classes=3, channels=1), SaveBest(path)
    before = values(learner.weights)
    best.set_model(learner)
    with warm_up(recipe.training, learner, best) as save_best:
        fit(learner, 0, 2, save_best)
    of_classes = learner.embedding_loss.proxies, learner.attribute_loss.class_embeddings
    head = {"embedding/kernel", "pooling/prototypes", *(weight.path for weight in of_classes)}
    assert moved(learner.weights, before) == head
    assert len(before) == len(learner.weights)
    assert best.best_epoch is not None
    assert int(learner.optimizer.iterations) == 0
    if options:
        return
    with warnings.catch_warnings():
        # Keras warns of the state of an optimizer that does not fit.
        warnings.simplefilter("error")
        loaded = keras.models.load_model(path)
    assert len(loaded.trainable_weights) == len(learner.trainable_weights)
    assert dict(loaded.optimizer.learning_rate_multipliers) == {"conv2d": 0.5}
    before = values(loaded.trainable_weights)
    loaded.run_eagerly = True
    loaded.fit(dataset(), steps_per_epoch=1, verbose=0)
    assert int(loaded.optimizer.iterations) == 1
    assert moved(loaded.trainable_weights, before) == set(before)
    before = values(learner.weights)
    fit(learner, 2, 3, best)
    assert moved(learner.weights, before) == set(before)


def test_one_history(train, monkeypatch):
    monkeypatch.setattr(Run, "evaluate", lambda run: None)
    options = ["--training.schedule.name", "plateau", "--training.patience", "3"]
    options += ["--training.optimizer", "sgd", "--training.precision", "mixed_float16"]
    folder = train(*options).folder
    history, metrics = folder.history(), folder.metrics()
    assert history["learning_rate"] == pytest.approx([5e-3, 5e-3, 1e-3])
    assert (metrics["status"], metrics["epochs"]) == ("finished", 3)
    scores = [metrics["untrained"]["val_map_at_r"], *history["val_map_at_r"]]
    assert metrics["best_val_map_at_r"] == max(scores) == scores[metrics["best_epoch"] or 0]
    steps = [
        event.step
        for path in sorted((folder.logs_path / "train").iterdir())
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.tag == "epoch_loss"
    ]
    assert steps == [1, 2, 3]


def test_patience_counts_from_the_end_of_the_warmup(train, monkeypatch):
    monkeypatch.setattr(RetrievalEvaluation, "evaluate", lambda callback: {"val_map_at_r": 0.5})
    monkeypatch.setattr(Run, "evaluate", lambda run: None)
    run = train("--training.epochs", "9", "--training.patience", "1")
    # Two epochs of warm-up, one to compare with, one without a rise.
    assert run.folder.metrics()["epochs"] == 4
