"""Losses in a Keras model: in `compile(loss=...)`, and as layers of a `MetricLearner`."""

import keras
import numpy as np
import pytest
from gradients import BACKEND, EAGERLY
from loss_examples import LAYERS, PAIR_LOSSES
from scipy.spatial.distance import cdist

from gsp_tf import losses
from gsp_tf.training import MetricLearner


def embedding_model(columns, units=4):
    return keras.Sequential([keras.Input((columns,)), keras.layers.Dense(units)])


def batch(rows=8, columns=5):
    return np.arange(rows) // 2, np.random.default_rng(0).normal(size=(rows, columns))


@pytest.mark.parametrize(("jit_compile", "column"), [(False, True), (True, False)])
def test_labels_keep_their_digits(jit_compile, column):
    # Neighbours that float32 cannot tell apart: it would take them for one class.
    labels, features = batch()
    labels = 2**24 + labels
    assert len(set(labels.astype("float32"))) < 4
    model, loss = embedding_model(5), losses.ContrastiveLoss(0.0, 1.5)
    # PyTorch would trace the model with its own compiler.
    jit_compile = jit_compile and BACKEND != "torch"
    eagerly = EAGERLY and not jit_compile
    model.compile("sgd", loss=loss, jit_compile=jit_compile, run_eagerly=eagerly)
    given = labels[:, None] if column else labels
    expected = float(loss(labels, model(features)))
    assert model.evaluate(features, given, verbose=0) == pytest.approx(expected, rel=1e-5)
    if not jit_compile:
        history = model.fit(features, given, batch_size=8, verbose=0).history["loss"]
        assert history[0] == pytest.approx(expected, rel=1e-5)


def nearest_neighbour_accuracy(embeddings, labels):
    distances = cdist(embeddings, embeddings, "cosine") + 1e9 * np.eye(len(labels))
    return np.mean(labels[distances.argmin(1)] == labels)


# Values and gradients of all losses are tested by definition; these train for all.
@pytest.mark.parametrize(
    "name",
    ["multi_similarity", "proxy_synthesis"]
    + [pytest.param(x, marks=pytest.mark.evidence) for x in ("triplet_semi_hard", "class_margin")],
)
def test_fit_separates_the_classes(name):
    # Four points in three columns, drowned in the noise of the other twelve.
    rng = np.random.default_rng(0)
    labels = np.arange(1024) % 4
    informative = 2 * rng.normal(size=(4, 3))[labels] + 0.1 * rng.normal(size=(1024, 3))
    features = np.concatenate([informative, 4 * rng.normal(size=(1024, 12))], 1).astype("float32")
    train, test = slice(0, 512), slice(512, None)
    assert nearest_neighbour_accuracy(features[test], labels[test]) < 0.5
    model, loss = embedding_model(15, units=16), (PAIR_LOSSES | LAYERS)[name]()
    if name in LAYERS:
        model, loss = MetricLearner(model, loss), None
    before = [weight.numpy() for weight in model.trainable_weights]
    model.compile(keras.optimizers.Adam(0.1), loss=loss, jit_compile=not EAGERLY)
    history = model.fit(features[train], labels[train], batch_size=32, epochs=10, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    embeddings = model(features[test])
    lowest = 0.9 if name in LAYERS else 0.95
    assert nearest_neighbour_accuracy(embeddings, labels[test]) > lowest
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert not np.array_equal(weight, old), weight.path
