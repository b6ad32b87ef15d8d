"""Learners that are saved, loaded and trained on in another process."""

import keras
import numpy as np
import processes
import pytest

from gsp_tf._keras import first_output
from gsp_tf.backbones import create, freeze_batch_normalization
from gsp_tf.layers import GeneralizedSumPooling, PixelNormalization
from gsp_tf.losses import ProxyNCALoss, ZeroShotLoss
from gsp_tf.training import (
    MetricLearner,
    with_learning_rate_multipliers,
    with_weight_decay_exclusions,
)

LOAD_AND_CONTINUE = """
import sys
import numpy as np
import keras
import gsp_tf.training
from gsp_tf._keras import first_output
for name in sys.argv[1:]:
    learner = keras.models.load_model(f"{name}.keras")
    data = np.load(f"{name}.npz")
    before = [keras.ops.convert_to_numpy(x) for x in learner.trainable_weights]
    embeddings = first_output(learner(data["x"]))
    loss = learner.fit(data["x"], data["y"], epochs=2, shuffle=False, verbose=0).history["loss"]
    np.savez(
        f"{name}-out.npz", embeddings, loss, learner.optimizer.iterations, *before,
        *learner.trainable_weights,
    )
"""


def optimizer_with_path_rules(wrap=lambda inner: inner):
    schedule = keras.optimizers.schedules.CosineDecay(0.01, 20)
    optimizer = wrap(keras.optimizers.AdamW(schedule, weight_decay=0.5))
    optimizer = with_learning_rate_multipliers(optimizer, {"proxies": 20.0, "prox|bias": 0.0})
    return with_weight_decay_exclusions(optimizer, ["kernel"])


def gsp_learner():
    images = keras.Input((None, None, 1))
    x = keras.layers.Conv2D(8, 3, activation="relu")(images)
    pooled, attributes = GeneralizedSumPooling(4, return_attributes=True)(x)
    embedder = keras.Model(images, [keras.layers.Dense(5)(pooled), attributes])
    learner = MetricLearner(embedder, ProxyNCALoss(4), ZeroShotLoss(4, 3), 0.3)
    learner.compile(optimizer_with_path_rules(), run_eagerly=True)
    return learner, (6, 6, 1)


def learner_with_loss_scale():
    embedder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    learner = MetricLearner(embedder, ProxyNCALoss(4))
    optimizer = optimizer_with_path_rules(keras.optimizers.LossScaleOptimizer)
    learner.compile(optimizer, run_eagerly=True)
    return learner, (4,)


def frozen_learner():
    """A backbone with frozen batch normalisation, which takes pixels as they are."""
    images = keras.Input((16, 16, 3))
    pixels = PixelNormalization(mean=(104.0, 117.0, 128.0), bgr=True)(images)
    backbone = freeze_batch_normalization(create("conv4", (16, 16, 3)))
    pooled = keras.layers.GlobalAveragePooling2D()(backbone(pixels))
    learner = MetricLearner(keras.Model(images, pooled), ProxyNCALoss(4))
    learner.compile("adam", run_eagerly=True)
    return learner, (16, 16, 3)


LEARNERS = {
    "gsp": gsp_learner,
    "frozen": frozen_learner,
    "scaled": learner_with_loss_scale,
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """By name: what a fresh process found, and what this one finds."""
    folder = tmp_path_factory.mktemp("saved")
    learners = {}
    for name, make in LEARNERS.items():
        keras.utils.set_random_seed(0)
        learner, shape = make()
        x = np.random.default_rng(0).normal(size=(8, *shape)).astype("float32")
        labels = np.arange(8) % 4
        learner.fit(x, labels, epochs=2, shuffle=False, verbose=0)
        learner.save(folder / f"{name}.keras")
        np.savez(folder / f"{name}.npz", x=x, y=labels)
        learners[name] = learner, x, labels
    process = processes.run(LOAD_AND_CONTINUE, *LEARNERS, folder=folder)
    assert process.returncode == 0, process.output
    found = {}
    for name, (learner, x, labels) in learners.items():
        before = [weight.numpy() for weight in learner.trainable_weights]
        embeddings = first_output(learner(x))
        loss = learner.fit(x, labels, epochs=2, shuffle=False, verbose=0).history["loss"]
        here = [embeddings, loss, 4, *before, *(w.numpy() for w in learner.trainable_weights)]
        found[name] = list(np.load(folder / f"{name}-out.npz").values()), here
    return found


@pytest.mark.parametrize("name", LEARNERS)
def test_a_fresh_process_continues_where_training_was(outcomes, name):
    """Optimizers remember their moments, schedules and rules: a fresh one steps differently."""
    for there, here in zip(*outcomes[name], strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-7)
