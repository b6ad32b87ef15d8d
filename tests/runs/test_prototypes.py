"""The prototypes that a run begins with are those of a greedy k-center, as it is defined."""

import itertools

import keras
import numpy as np
from keras.ops import convert_to_numpy

from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Run, _inputs, adapt_prototypes, features_model, load_splits

GSP = "backbone: {name: conv4}\npooling: {name: gsp, num_prototypes: 4}\n"


def k_center(pool, k):
    """The vector farthest from the mean and from those taken before, k times (thesis, Alg. 2)."""
    centers = [pool.mean(axis=0)]
    for _ in range(k):
        apart = np.linalg.norm(pool[:, None] - np.array(centers), axis=2).min(axis=1)
        centers.append(pool[apart.argmax()])
    return np.array(centers[1:])


def test_a_run_begins_with_prototypes_of_its_first_batches(write_recipe, tmp_path, monkeypatch):
    sections = "training: {epochs: 0, adapt_batches: 2, adapt_from: pooled}\n"
    recipe = load_recipe(write_recipe(GSP + sections))
    monkeypatch.setattr(Run, "evaluate", lambda self: None)
    run = Run(tmp_path / "run", recipe).train()
    features, pooling = features_model(run.folder.learner(compile=False).embedder)
    batches = _inputs.ImageInputs(recipe).training_batches(load_splits(recipe).train, 0)
    pool = []
    for images, _ in itertools.islice(batches, 2):
        local = convert_to_numpy(features(images, training=True))
        pool.append(local.mean(axis=(1, 2)))
    pool = np.concatenate(pool)
    pool /= np.maximum(1, np.linalg.norm(pool, axis=1, keepdims=True))
    np.testing.assert_allclose(
        convert_to_numpy(pooling.prototypes), k_center(pool, 4), rtol=1e-4, atol=1e-5
    )


def test_tokens_are_pooled_as_maps_are():
    tokens = keras.Input((5, 3))
    pooling = GeneralizedSumPooling(num_prototypes=4, name="pooling")
    embedder = keras.Model(tokens, pooling(tokens))
    values = np.random.default_rng(0).uniform(-0.5, 0.5, (16, 5, 3)).astype("float32")
    adapt_prototypes(embedder, [(values, None)], is_pooled=True)
    expected = k_center(values.mean(axis=1), 4)
    np.testing.assert_allclose(convert_to_numpy(pooling.prototypes), expected, rtol=1e-5)
