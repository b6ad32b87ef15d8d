"""A step in chunks of a batch does what a step with the whole batch does."""

import keras
import numpy as np
import pytest
from gradients import BACKEND, EAGERLY, FEW_STEPS
from keras import ops

from gsp_tf import losses
from gsp_tf.layers import CodedResidualBranches, GeneralizedSumPooling, L2Normalization
from gsp_tf.training import ChanceConstrainedTrainer, MetricLearner, ProxyPool, RetrievalEvaluation

CLASSES, SAMPLES = 4, 34
LABELS = np.arange(SAMPLES) // 2 % CLASSES
IMAGES = np.random.default_rng(0).integers(0, 256, (SAMPLES, 5, 5, 3)).astype("uint8")


def learner_of_every_kind(chunk_size):
    """Five outputs: memory, proxies, two branches that agree, attributes; one has no loss."""
    images = keras.Input((5, 5, 3), dtype="uint8")
    x = keras.layers.Rescaling(1 / 128, -1)(images)
    x = keras.layers.Conv2D(6, 3, kernel_regularizer="l2", name="frozen")(x)
    x = keras.layers.Conv2D(6, 2, kernel_regularizer="l2")(x)
    normalization = keras.layers.BatchNormalization()
    x = normalization(x)
    pooled, attributes = GeneralizedSumPooling(4, return_attributes=True)(x)
    first, second = CodedResidualBranches((3, 4), (5, 4), 4)(x)
    embeddings = L2Normalization()(keras.layers.Dense(5)(pooled))
    outputs = [embeddings, first, second, attributes, keras.layers.Dense(2)(pooled)]
    embedder = keras.Model(images, outputs)
    normalization.trainable = embedder.get_layer("frozen").trainable = False
    named = {
        "memory": losses.CrossBatchMemory(losses.MultiSimilarityLoss(), 70, batch_weight=1.0),
        "proxies": losses.ProxySynthesis(losses.ProxyAnchorLoss(CLASSES), seed=3),
        "pairs": losses.ContrastiveLoss(miner=losses.DistanceWeightedMiner(seed=2)),
        "attributes": losses.ZeroShotLoss(CLASSES, 3),
        "nothing": None,
    }
    return MetricLearner(embedder, named, chunk_size=chunk_size)


def small_learner(chunk_size, *layers, dtype="float32", **arguments):
    """A learner with further layers and a contrastive loss."""
    layers = [keras.Input((5, 5, 3)), keras.layers.Flatten(), *layers]
    embedder = keras.Sequential([*layers, keras.layers.Dense(4, dtype=dtype, **arguments)])
    return MetricLearner(embedder, losses.ContrastiveLoss(), chunk_size=chunk_size)


def trained(make, chunk_size, mode, optimizer=None):
    """Logs and variables after steps of 22 and 12 samples, whose last chunks are incomplete."""
    keras.utils.set_random_seed(1)
    learner = make(chunk_size)
    learner.compile(optimizer or keras.optimizers.SGD(0.1, global_clipnorm=2.0), **mode)
    logs = learner.fit(IMAGES, LABELS, batch_size=22, shuffle=False, verbose=0).history
    return logs, values_of(learner)


def values_of(learner):
    seeds = [seed.state for seed in learner.seed_generators if seed]
    variables = [*learner.variables, *learner.optimizer.variables, *seeds]
    return {f"{i} {v.name}": ops.convert_to_numpy(v) for i, v in enumerate(variables)}


def agree(one, other, tolerance=1e-5):
    for found, expected in zip(one, other, strict=True):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(
                found[name], value, rtol=tolerance, atol=tolerance, err_msg=name
            )


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_a_step_with_every_kind_of_loss():
    chunked = trained(learner_of_every_kind, 4, {"jit_compile": BACKEND == "jax"})
    agree(chunked, trained(learner_of_every_kind, None, FEW_STEPS))


def test_randomness_and_statistics_are_those_of_one_pass():
    """One chunk with a second pass is the whole batch, random numbers and statistics included."""

    def make(chunk_size):
        random = keras.layers.Dropout(0.4, seed=1), keras.layers.GaussianNoise(0.5, seed=2)
        return small_learner(chunk_size, keras.layers.BatchNormalization(), *random)

    with pytest.warns(UserWarning, match="statistics of 22 images, those of a chunk, in 1 layer"):
        chunked = trained(make, 22, FEW_STEPS)
    agree(chunked, trained(make, None, FEW_STEPS))


def test_float16_compiled():
    def optimizer():
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), 64.0)

    def make(chunk_size):
        return small_learner(chunk_size, dtype="mixed_float16")

    # To compile both would take long; XLA rounds elsewhere. PyTorch needs a compiler of C++.
    compiled = trained(make, 5, {"jit_compile": BACKEND != "torch"}, optimizer())
    agree(compiled, trained(make, None, FEW_STEPS, optimizer()), 2e-3)


def test_problems_of_ccp():
    def fitted(chunk_size):
        keras.utils.set_random_seed(1)
        learner = small_learner(chunk_size, keras.layers.Dropout(0.0))
        learner.compile(keras.optimizers.SGD(0.1), **FEW_STEPS)
        trainer = ChanceConstrainedTrainer(learner, 2, 3, projection_weight=0.5)
        batches = [(IMAGES[start : start + 11], LABELS[start : start + 11]) for start in (0, 11)]
        pool = ProxyPool(LABELS, lambda indices: (IMAGES[indices], LABELS[indices]))
        evaluation = RetrievalEvaluation((IMAGES, LABELS))
        logs = trainer.fit(
            (batch for batch in batches), pool, [evaluation], steps_per_epoch=2, epochs=1, verbose=0
        )
        assert trainer.learner.chunk_size == chunk_size
        return logs.history, values_of(trainer.learner)

    agree(fitted(4), fitted(None))


def test_embeds_no_more_than_a_chunk_at_a_time():
    sizes = []

    class Recorder(keras.layers.Layer):
        def call(self, x):
            sizes.append(x.shape[0])
            return x

    learner = small_learner(4, Recorder())
    sizes.clear()
    trained(lambda _: learner, None, FEW_STEPS)
    passes = 2 if EAGERLY else 1  # JAX calls the layer when it traces
    assert max(sizes) == 4 and (not EAGERLY or len(sizes) == passes * (6 + 3))


def test_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="chunk_size must be an integer .*received 2.5"):
        small_learner(2.5)
    learner = small_learner(4, activity_regularizer="l2", name="busy")
    learner.compile("sgd", **FEW_STEPS)
    with pytest.raises(ValueError, match="but layer busy has one"):
        learner.fit(IMAGES, LABELS, verbose=0)
