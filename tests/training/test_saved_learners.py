"""Learners that are saved, loaded and trained on in another process: this file, as a program."""

import keras
import numpy as np
import processes
import pytest
from gradients import EAGERLY
from loss_examples import LAYERS

from gsp_tf import training
from gsp_tf.backbones import create, freeze_batch_normalization
from gsp_tf.layers import GeneralizedSumPooling, PixelNormalization
from gsp_tf.losses import ContrastiveLoss, HardNegativeMiner, ProxyNCALoss, ZeroShotLoss


def optimizer_with_path_rules(wrap=lambda inner: inner):
    schedule = keras.optimizers.schedules.CosineDecay(0.01, 20)
    optimizer = wrap(keras.optimizers.AdamW(schedule, weight_decay=0.5))
    optimizer = training.with_learning_rate_multipliers(
        optimizer, {"proxies": 20.0, "prox|bias": 0.0}
    )
    return training.with_weight_decay_exclusions(optimizer, ["kernel"])


def gsp_learner():
    images = keras.Input((None, None, 1))
    x = keras.layers.Conv2D(8, 3, activation="relu")(images)
    pooled, attributes = GeneralizedSumPooling(4, return_attributes=True)(x)
    embedder = keras.Model(images, [keras.layers.Dense(5)(pooled), attributes])
    learner = training.MetricLearner(embedder, ProxyNCALoss(4), ZeroShotLoss(4, 3), 0.3)
    learner.compile(optimizer_with_path_rules(), run_eagerly=EAGERLY)
    return learner


def frozen_learner():
    """A backbone with frozen batch normalisation, which takes pixels as they are."""
    images = keras.Input((16, 16, 3))
    pixels = PixelNormalization(mean=(104.0, 117.0, 128.0), bgr=True)(images)
    backbone = freeze_batch_normalization(create("conv4", (16, 16, 3)))
    pooled = keras.layers.GlobalAveragePooling2D()(backbone(pixels))
    learner = training.MetricLearner(keras.Model(images, pooled), ProxyNCALoss(4))
    learner.compile("adam", run_eagerly=EAGERLY)
    return learner


def dense():
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(4)])


def plain_model():
    model, loss = dense(), ContrastiveLoss(0.1, 1.5, miner=HardNegativeMiner())
    model.compile("adam", loss, run_eagerly=EAGERLY)
    return model


def learner_of(loss, optimizer="adam"):
    learner = training.MetricLearner(dense(), LAYERS[loss]())
    learner.compile(optimizer, run_eagerly=EAGERLY)
    return learner


def projection_learner():
    """A learner that stays near the weights at its start."""
    learner = training.ProjectionLearner(dense(), ProxyNCALoss(4))
    learner.project_from_here(0.7)
    learner.compile("adam", run_eagerly=EAGERLY)
    return learner


LEARNERS = {
    "gsp": gsp_learner,
    "projection": projection_learner,
    "frozen": frozen_learner,
    "plain": plain_model,
    "scaled": lambda: learner_of(
        "proxy_nca", optimizer_with_path_rules(keras.optimizers.LossScaleOptimizer)
    ),
    # A loss within a loss, a random one, and those that keep a state.
    **{
        name: lambda name=name: learner_of(name)
        for name in ("hybrid", "partial_fc", "proxy_synthesis", "memory", "levels")
    },
}


def outcomes(learner, x, labels):
    """State and loss of a learner, the losses of two more steps, and the weights after them.

    Optimizers remember their moments, schedules and rules: a fresh one steps differently.
    """
    state = [*learner.weights, *learner.optimizer.variables]
    before = [keras.ops.convert_to_numpy(variable).copy() for variable in state]
    losses = [learner.test_on_batch(x, labels)]
    losses += [learner.train_on_batch(x, labels) for _ in range(2)]
    after = [keras.ops.convert_to_numpy(weight) for weight in learner.trainable_weights]
    return {
        **{f"before {i}": value for i, value in enumerate(before)},
        "losses": np.array(losses),
        **{f"after {i}": value for i, value in enumerate(after)},
    }


def batch(name):
    shape = {"gsp": (8, 6, 6, 1), "frozen": (8, 16, 16, 3)}.get(name, (8, 5))
    return np.random.default_rng(0).normal(size=shape).astype("float32"), np.arange(8) % 4


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """By name: what this process finds, and what a fresh one found."""
    folder, learners = tmp_path_factory.mktemp("saved"), {}
    for name, make in LEARNERS.items():
        keras.utils.set_random_seed(0)
        learners[name] = make()
        for _ in range(2):
            learners[name].train_on_batch(*batch(name))
        learners[name].save(folder / f"{name}.keras")
    processes.run_file(__file__, folder=folder)
    return {
        name: (outcomes(learner, *batch(name)), np.load(folder / f"{name}.npz"))
        for name, learner in learners.items()
    }


@pytest.mark.parametrize("name", LEARNERS)
def test_a_fresh_process_continues_where_training_was(found, name):
    here, there = found[name]
    assert list(here) == there.files
    for key, expected in here.items():
        if key.startswith("before"):
            np.testing.assert_array_equal(there[key], expected, err_msg=key)
        elif name != "proxy_synthesis":  # Keras does not save how far its random numbers have come
            np.testing.assert_allclose(there[key], expected, rtol=1e-4, atol=1e-7, err_msg=key)


if __name__ == "__main__":
    for name in LEARNERS:
        learner = keras.models.load_model(f"{name}.keras")
        learner.run_eagerly = EAGERLY
        np.savez(f"{name}.npz", **outcomes(learner, *batch(name)))
