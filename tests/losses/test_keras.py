"""Pair losses in `compile(loss=...)` of a plain Keras model."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.spatial.distance import cdist

from gsp_tf.losses import (
    ContrastiveLoss,
    DistanceWeightedMiner,
    HardNegativeMiner,
    MarginLoss,
    MultiSimilarityLoss,
    MultiSimilarityMiner,
    SemiHardNegativeMiner,
)


def embedding_model(columns, units=4):
    return keras.Sequential([keras.Input((columns,)), keras.layers.Dense(units)])


def batch(rows=8, columns=5):
    return np.arange(rows) // 2, np.random.default_rng(0).normal(size=(rows, columns))


@pytest.mark.parametrize("pair_loss", ["angular", "fast_ap", "triplet"], indirect=True)
def test_compiled_loss_equals_the_loss_of_the_embeddings(pair_loss):
    labels, features = batch()
    model, loss = embedding_model(5), pair_loss[1]()
    model.compile(optimizer="sgd", loss=loss, jit_compile=True)
    expected = float(loss(labels, model(features)))
    assert model.evaluate(features, labels, verbose=0) == pytest.approx(expected, rel=1e-5)
    assert expected > 0


@pytest.mark.parametrize(("jit_compile", "column"), [(False, True), (True, False)])
def test_labels_keep_their_digits(jit_compile, column):
    # Neighbours that float32 cannot tell apart: it would take them for one class.
    labels, features = batch()
    labels = 2**24 + labels
    assert len(set(labels.astype("float32"))) < 4
    model, loss = embedding_model(5), ContrastiveLoss(0.0, 1.5)
    model.compile(optimizer="sgd", loss=loss, jit_compile=jit_compile)
    given = labels[:, None] if column else labels
    data = tf.data.Dataset.from_tensor_slices((features, given)).batch(8)
    expected = float(loss(labels, model(features)))
    assert model.evaluate(features, given, verbose=0) == pytest.approx(expected, rel=1e-5)
    history = model.fit(data, verbose=0).history["loss"]
    assert history[0] == pytest.approx(expected, rel=1e-5)


def nearest_neighbour_accuracy(embeddings, labels):
    distances = cdist(embeddings, embeddings) + 1e9 * np.eye(len(labels))
    return np.mean(labels[distances.argmin(1)] == labels)


# Values and gradients of all losses are tested by definition; these train for all.
@pytest.mark.parametrize(
    "pair_loss", ["contrastive", "multi_similarity", "triplet_semi_hard"], indirect=True
)
def test_fit_separates_the_classes(pair_loss):
    # Eight points in three columns, drowned in the noise of the other twelve.
    rng = np.random.default_rng(0)
    labels = np.arange(256) % 8
    informative = 2 * rng.normal(size=(8, 3))[labels] + 0.1 * rng.normal(size=(256, 3))
    features = np.concatenate([informative, 4 * rng.normal(size=(256, 12))], 1).astype("float32")
    train, test = slice(0, 128), slice(128, None)
    assert nearest_neighbour_accuracy(features[test], labels[test]) < 0.3
    model = embedding_model(15, units=16)
    model.compile(keras.optimizers.Adam(0.01), loss=pair_loss[1](), jit_compile=False)
    data = (
        tf.data.Dataset.from_tensor_slices((features[train], labels[train]))
        .repeat()
        .shuffle(128)
        .batch(64)
    )
    model.fit(data, steps_per_epoch=200, verbose=0)
    embeddings = model.predict(features[test], verbose=0)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    assert nearest_neighbour_accuracy(embeddings, labels[test]) > 0.95


@pytest.mark.parametrize("weights", [{"sample_weight": np.ones(8)}, {"class_weight": {0: 2.0}}])
def test_refuses_sample_weights(weights):
    labels, features = batch()
    model = embedding_model(5)
    model.compile(optimizer="sgd", loss=ContrastiveLoss())
    with pytest.raises(ValueError, match="takes no sample_weight"):
        model.fit(features, labels, verbose=0, **weights)


def test_debug_mode_refuses_labels_that_are_not_whole():
    labels, features = batch()
    model = embedding_model(5)
    model.compile(optimizer="sgd", loss=ContrastiveLoss(), run_eagerly=True)
    whole = model.evaluate(features, labels.astype("float32"), verbose=0)
    assert whole == model.evaluate(features, labels, verbose=0)
    with pytest.raises(ValueError, match=r"whole numbers, received \d.25"):
        model.fit(features, labels + 0.25, verbose=0)


@pytest.mark.parametrize(
    ("make_loss", "miner"),
    [
        (partial(ContrastiveLoss, 0.1, 1.5, normalize=False), HardNegativeMiner()),
        (partial(ContrastiveLoss, 0.1, 1.5), SemiHardNegativeMiner()),
        (MarginLoss, DistanceWeightedMiner(0.4, seed=3)),
        (MultiSimilarityLoss, MultiSimilarityMiner(0.2)),
    ],
    ids=["hard", "semi_hard", "distance_weighted", "multi_similarity"],
)
def test_is_saved_with_the_model(tmp_path, make_loss, miner):
    keras.config.set_dtype_policy("mixed_float16")
    loss = make_loss(miner=miner)
    labels, features = batch(12)
    model = embedding_model(5)
    model.compile(optimizer="adam", loss=loss)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.loss) is type(loss) and type(loaded.loss.miner) is type(loss.miner)
    assert loaded.loss.get_config() == loss.get_config()
    assert loaded.loss.miner.get_config() == loss.miner.get_config()
    values = [m.evaluate(features, labels, verbose=0) for m in (model, loaded)]
    assert values[1] == pytest.approx(values[0], rel=1e-5) and values[0] > 0
