"""Trainings on JAX and PyTorch, whose files TensorFlow reads; other tests train on TensorFlow."""

import keras
import numpy as np
import processes
import pytest
from gradients import BACKEND, EAGERLY, FEW_STEPS

from gsp_tf import losses
from gsp_tf.layers import GeneralizedSumPooling, L2Normalization
from gsp_tf.training import MetricLearner

LABELS = np.arange(48) // 2 % 4


RNG = np.random.default_rng(0)
COLOURS = RNG.normal(size=(4, 3))[LABELS][:, None, None]  # they belong to the classes
IMAGES = (COLOURS + RNG.normal(size=(48, 8, 8, 3))).astype("float32")


def learner_of(embedding_loss, attribute_loss=None):
    inputs = keras.Input((8, 8, 3))
    features = keras.layers.Conv2D(8, 3, activation="relu")(inputs)
    features = keras.layers.BatchNormalization()(features)
    pooled = GeneralizedSumPooling(4, return_attributes=attribute_loss is not None)(features)
    pooled, *attributes = pooled if attribute_loss else (pooled,)
    outputs = [L2Normalization()(keras.layers.Dense(4)(pooled)), *attributes]
    embedder = keras.Model(inputs, outputs if attributes else outputs[0])
    learner = MetricLearner(embedder, embedding_loss, attribute_loss)
    # A few steps of TensorFlow take less time without a graph; JAX compiles them always.
    learner.compile(keras.optimizers.Adam(0.01), **FEW_STEPS)
    return learner


def embeddings_of(learner):
    learner.embedder.run_eagerly = EAGERLY
    outputs = learner.embedder.predict(IMAGES, batch_size=48, verbose=0)
    return outputs[0] if isinstance(outputs, list) else outputs


def fit(learner, epochs=1):
    arguments = {"batch_size": 16, "shuffle": False, "verbose": 0}
    return learner.fit(IMAGES, LABELS, epochs=epochs, **arguments).history["loss"]


EXCHANGE = """
import keras, numpy as np
from training.test_fits_on_backends import embeddings_of, fit, learner_of
from gsp_tf import losses
there = embeddings_of(keras.models.load_model("first.keras"))
learner = learner_of(losses.ContrastiveLoss(), losses.ZeroShotLoss(4, 3))
fit(learner)
learner.save("second.keras")
np.savez("embeddings.npz", there=there, second=embeddings_of(learner))
"""


if BACKEND != "tensorflow":

    @pytest.mark.parametrize("with_gsp", [True, False])
    def test_losses_fall(with_gsp):
        memory = losses.CrossBatchMemory(losses.ContrastiveLoss(), 32)
        of_gsp = losses.ContrastiveLoss(), losses.ZeroShotLoss(4, 3)
        learner = learner_of(*of_gsp) if with_gsp else learner_of(memory)
        learner.optimizer.learning_rate = 0.03
        history = fit(learner, epochs=4)
        assert np.isfinite(history).all() and history[-1] < 0.9 * history[1]

    def test_saved_models_give_the_same_embeddings_on_tensorflow(tmp_path):
        """The reference, which reads and writes for both others."""
        learner = learner_of(losses.ContrastiveLoss(), losses.ZeroShotLoss(4, 3))
        fit(learner)
        learner.save(tmp_path / "first.keras")
        processes.run_fresh("-c", EXCHANGE, folder=tmp_path, KERAS_BACKEND="tensorflow")
        found = np.load(tmp_path / "embeddings.npz")
        np.testing.assert_allclose(found["there"], embeddings_of(learner), rtol=0, atol=1e-5)
        second = keras.models.load_model(tmp_path / "second.keras")
        np.testing.assert_allclose(embeddings_of(second), found["second"], rtol=0, atol=1e-5)


ON_TWO_DEVICES = """
import keras, numpy as np
from training.test_fits_on_backends import parallel_outcomes
devices = keras.distribution.list_devices()
assert len(devices) == 2
keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
np.savez("outcomes.npz", **parallel_outcomes())
"""

PARALLEL = {
    "pairs": losses.MultiSimilarityLoss,
    "proxies": lambda: losses.ProxyAnchorLoss(4),
    "memory": lambda: losses.CrossBatchMemory(losses.ContrastiveLoss(), 32),
}


def parallel_outcomes():
    """Losses and embeddings of trainings, to be equal on one device and on two."""
    outcomes = {}
    for name, make in PARALLEL.items():
        keras.utils.set_random_seed(1)
        learner = learner_of(make())
        outcomes[f"{name}: losses"] = fit(learner, epochs=3)
        outcomes[f"{name}: embeddings"] = embeddings_of(learner)
    return outcomes


if BACKEND == "jax":

    @pytest.mark.evidence  # two minutes, most of which compile
    def test_data_parallelism_changes_nothing(tmp_path):
        flags = "--xla_force_host_platform_device_count=2"
        processes.run_fresh("-c", ON_TWO_DEVICES, folder=tmp_path, XLA_FLAGS=flags)
        found = np.load(tmp_path / "outcomes.npz")
        for name, expected in parallel_outcomes().items():
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-5, err_msg=name)
