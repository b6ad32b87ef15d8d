"""Each way in which training fails is provoked, and named; healthy training raises no alarm."""

import inspect
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from gradients import FEW_STEPS
from keras import ops

from gsp_tf import losses, training
from gsp_tf._names import NAMES, named
from gsp_tf.layers import L2Normalization
from gsp_tf.training.health import _Embedder, _findings

CLASSES = 4
LABELS = np.arange(16) // 2 % CLASSES
RNG = np.random.default_rng(0)
POINTS = (4 * np.eye(8)[LABELS] + RNG.normal(size=(16, 8))).astype("float32")


def learner_with(loss, optimizer=None, **arguments):
    """A learner of one dense layer, or of two outputs."""
    inputs = keras.Input((8,))
    x = keras.layers.Dropout(0.1, seed=1)(inputs)
    x = keras.layers.Dense(8, **arguments)(keras.layers.BatchNormalization()(x))
    outputs = L2Normalization()(x)
    if isinstance(loss, dict):
        outputs = [outputs, keras.layers.Dense(3)(inputs)]
    learner = training.MetricLearner(keras.Model(inputs, outputs), loss)
    learner.compile(optimizer or keras.optimizers.Adam(0.01), **FEW_STEPS)
    return learner


def names(learner, labels=LABELS, points=POINTS, steps=4, every=2):
    """Names of the findings in some steps with one batch."""
    keras.utils.set_random_seed(0)
    health = training.HealthCheck(every)
    batches = np.tile(points, (steps, 1)), np.tile(labels, steps)
    learner.fit(*batches, len(labels), shuffle=False, callbacks=[health], verbose=0)
    assert health.measures
    return [finding["name"] for finding in health.findings]


def proxies_with(rate, weight_decay=None):
    """A learner that trains its proxies alone, from the points opposite to their samples."""
    loss = losses.ProxyAnchorLoss(CLASSES)
    learner = learner_with(loss, keras.optimizers.SGD(rate, weight_decay=weight_decay))
    learner.embedder.trainable = False
    learner.compile(learner.optimizer, **FEW_STEPS)
    loss.proxies.assign(-learner.embedder(POINTS[[0, 2, 4, 6]]))
    return learner


def between_proxies():
    """A learner of CCP's loss in the middle between proxies, the same for the two of each class."""
    loss = losses.ProxyPairsLoss(losses.ContrastiveLoss(0.27, 0.54), CLASSES, 2)
    learner = learner_with(loss, kernel_initializer="zeros")
    learner.embedder.layers[-2].bias.assign(np.eye(8)[0])
    apart = np.concatenate([np.ones((8, 1)), np.kron(np.eye(4), [[2.0], [-2.0]])], axis=1)
    loss.proxies.assign(np.pad(apart, ((0, 0), (0, 3))))
    loss.trainable = False
    learner.compile(learner.optimizer, **FEW_STEPS)
    return learner


def overflowing():
    """A learner whose gradients overflow float16 in every step, as they are summed over images."""
    # A scale of 1 is what 15 overflows leave of the usual one; from there every step overflows.
    inputs = keras.Input((8,))
    dense = keras.layers.Dense(4, dtype="mixed_float16")
    learner = training.MetricLearner(keras.Model(inputs, dense(inputs)), losses.ContrastiveLoss())
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), 1.0)
    learner.compile(optimizer, **FEW_STEPS)
    dense.kernel.assign(1e-5 * RNG.normal(size=(8, 4)))
    return learner


def far_apart():
    """A learner with classes that are already farther apart than the margin."""
    inputs = keras.Input((4,))
    embedder = keras.Model(inputs, keras.layers.Dense(4, kernel_initializer="identity")(inputs))
    learner = training.MetricLearner(embedder, losses.ContrastiveLoss(0.2, 0.5))
    learner.compile("sgd", **FEW_STEPS)
    return learner


FAILURES = {
    "one_class": lambda: names(learner_with(losses.ContrastiveLoss()), np.zeros(16, int)),
    "no_positives": lambda: names(learner_with(losses.TripletLoss()), np.arange(16)),
    "collapse": lambda: names(
        learner_with(losses.TripletLoss(), bias_initializer="ones", kernel_initializer="zeros")
    ),
    "no_active_pairs": lambda: names(far_apart(), np.arange(16) % 4, np.tile(np.eye(4), (4, 1))),
    "slow_proxies": lambda: names(proxies_with(1e-9), every=4, steps=12),
    # The decay takes away the old proxies, so each step turns them by a right angle.
    "fast_proxies": lambda: names(proxies_with(1e4, 1e-4), every=1),
    "between_proxies": lambda: names(between_proxies()),
    "float16_overflow": lambda: names(overflowing(), points=6e4 * np.sign(POINTS), steps=6),
    "high_learning_rate": lambda: names(
        learner_with(losses.MultiSimilarityLoss(), keras.optimizers.Adam(30.0)), steps=6
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_names_what_is_wrong(name, capsys):
    assert name in FAILURES[name]()
    shown = capsys.readouterr().out
    assert shown.startswith("Step ") and "{" not in shown.replace("{proxies: 100}", "")


def test_misses_positives_under_a_wrapper():
    loss = losses.MatryoshkaLoss(losses.TripletLoss(), dims=(2, 8))
    assert "no_positives" in names(learner_with(loss), np.arange(16), steps=2, every=1)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "name", [x for x in NAMES["loss"] if issubclass(named("loss", x), keras.layers.Layer)]
)
def test_measures_every_loss_with_variables(name):
    make = named("loss", name)
    given = {"num_classes": CLASSES, "num_proxies": 8, "terms": [losses.ContrastiveLoss()]}
    loss = make(**{k: given[k] for k in given.keys() & inspect.signature(make).parameters.keys()})
    loss.build((None,), (None, 8))
    health = training.HealthCheck()
    health.set_model(SimpleNamespace(embedding_loss=loss))
    inputs = keras.Input((8,))
    dense = keras.layers.Dense(8, kernel_initializer="identity", name="dense")
    learner = SimpleNamespace(embedder=keras.Model(inputs, dense(inputs)), chunk_size=None)
    health._embedder = _Embedder(learner)
    labels = np.arange(8) // 2  # every label twice, for the losses of two views
    measures = health._measured(POINTS[:8], labels)
    assert np.isfinite(measures["loss"])
    assert (measures["gradient_dense"] > 0) == (measures["gradient"] > 0)
    assert ("proxy_norm" in measures) == (hasattr(loss, "proxies") and loss.num_classes == CLASSES)


HEALTHY = {
    "multi-similarity": losses.MultiSimilarityLoss,
    "proxies": lambda: losses.ProxyAnchorLoss(CLASSES),
    "memory": lambda: losses.CrossBatchMemory(losses.ContrastiveLoss(), 64),
    "two outputs": lambda: {"first": losses.TripletLoss(1.0), "second": losses.ContrastiveLoss()},
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_training_raises_no_alarm(name):
    assert names(learner_with(HEALTHY[name]())) == []


def test_a_check_changes_nothing_and_measures_the_batch():
    def fitted(callbacks):
        keras.utils.set_random_seed(0)
        learner = learner_with(losses.ContrastiveLoss(miner=losses.DistanceWeightedMiner(seed=1)))
        arguments = {"batch_size": 8, "shuffle": False, "verbose": 0}
        history = learner.fit(POINTS, LABELS, callbacks=callbacks, **arguments).history
        return history, [ops.convert_to_numpy(variable) for variable in learner.variables]

    health = training.HealthCheck(1, in_logs=True)
    (plain, expected), (checked, found) = fitted([]), fitted([health])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(checked) - set(plain) == {"mean_similarity", "effective_rank"}
    measures = health.measures
    assert checked["effective_rank"][-1] == measures["effective_rank"] > 1.5
    assert 0 < measures["active_share"] <= 1 and 0 < measures["embedder_update"] < 0.3
    assert measures["loss"] > 0 and measures["collapsed_loss"] == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("chunk_size", [None, 6])
def test_gradients_by_part_are_those_of_the_next_step(chunk_size):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8,))
    x = keras.layers.Dense(8, "tanh", name="first")(inputs)
    embedder = keras.Model(inputs, keras.layers.Dense(4, name="second")(x))
    loss = losses.ProxyAnchorLoss(CLASSES)
    learner = training.MetricLearner(embedder, loss, chunk_size=chunk_size)
    learner.compile("sgd", **FEW_STEPS)
    parts = {name: embedder.get_layer(name).weights for name in ("first", "second")}
    parts["losses"] = loss.weights

    def values():
        return {
            name: np.concatenate([ops.convert_to_numpy(weight).ravel() for weight in weights])
            for name, weights in parts.items()
        }

    health = training.HealthCheck(1)
    learner.fit(POINTS, LABELS, batch_size=16, callbacks=[health], verbose=0)
    before = values()
    learner.fit(POINTS, LABELS, batch_size=16, shuffle=False, verbose=0)
    for name, after in values().items():
        expected = np.linalg.norm(before[name] - after) / 0.01  # Keras' rate of SGD
        assert health.measures[f"gradient_{name}"] == pytest.approx(expected, rel=1e-3)


def test_a_resumed_run_continues_the_checks(tmp_path):
    def fit(health, resume, first, last):
        learner = learner_with(losses.ProxyAnchorLoss(CLASSES))
        checkpoint = training.Checkpoint(tmp_path / "state.npz", {"health": health}, resume)
        arguments = {"batch_size": 8, "shuffle": False, "verbose": 0}
        arguments |= {"initial_epoch": first, "epochs": last}
        learner.fit(POINTS, np.arange(16) // 8, callbacks=[health, checkpoint], **arguments)

    whole, later = training.HealthCheck(12), training.HealthCheck(12)  # checks at steps 3 and 6
    fit(whole, False, 0, 3)  # the checkpoint is that of the last epoch's begin, step 4
    fit(later, True, 2, 3)
    assert later.findings == whole.findings and later.findings[0]["step"] == 6
    assert "proxy_turn" in later.measures


def test_a_short_training_is_told_what_is_wrong():
    """In 4 of the 8 steps between two checks."""
    dense = {"bias_initializer": "ones", "kernel_initializer": "zeros"}
    assert names(learner_with(losses.TripletLoss(), **dense), every=8) == ["collapse"]


def test_early_checks_leave_out_what_passes():
    """The values are like those of a run whose MAP@R rises."""
    loss, labels = losses.ProxyAnchorLoss(CLASSES), np.arange(8) // 2
    alike = {"similarity": 0.97, "effective_rank": 4.8, "loss": 10.5, "collapsed_loss": 11.0}
    slow = {"own_proxy_similarity": 0.01, "proxy_turn": 0.004, "active_share": 1.0}
    for since, is_early, expected in (
        (50, True, []),
        (200, False, ["collapse", "slow_proxies"]),
        (10, False, ["collapse"]),  # between near checks proxies turn by less
    ):
        assert list(_findings(loss, labels, alike | slow, since, is_early)) == expected
    pairs = losses.ContrastiveLoss()
    assert _findings(pairs, labels, alike | slow, 50, is_early=True) == {}


def test_problems_of_ccp_are_checked():
    learner, health = learner_with(losses.ContrastiveLoss()), training.HealthCheck(1)
    trainer = training.ChanceConstrainedTrainer(learner, 1, 2)
    pool = training.ProxyPool(LABELS, lambda indices: (POINTS[indices], LABELS[indices]))
    callbacks = [health, training.RetrievalEvaluation((POINTS, LABELS))]
    batches = ((POINTS, LABELS) for _ in range(3))
    trainer.fit(batches, pool, callbacks, steps_per_epoch=3, epochs=1, verbose=0)
    assert health.measures["proxy_norm"] > 0 and not health.findings
