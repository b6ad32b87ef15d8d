import keras
import numpy as np
import pytest
import tensorflow as tf
from local_maps import unit

from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import ChanceConstrainedTrainer, MetricLearner, ProxyPool, RetrievalEvaluation

CLASSES, PER_CLASS, COLUMNS = 6, 9, 8


def points(seed):
    """Classes that differ in three of the columns, among louder ones."""
    rng = np.random.default_rng(seed)
    labels = np.arange(CLASSES * PER_CLASS) % CLASSES
    x = rng.normal(size=(len(labels), COLUMNS)).astype("float32")
    x[:, :3] += 3 * rng.normal(size=(CLASSES, 3))[labels]
    x[:, 3:] *= 4
    return x, labels


TRAIN, VALIDATION = points(0), points(1)


def dataset(x, labels, indices=None):
    indices = np.arange(len(labels)) if indices is None else indices
    return tf.data.Dataset.from_tensor_slices((x[indices], labels[indices])).batch(18)


def pool(seed=0):
    return ProxyPool(TRAIN[1], lambda indices: dataset(*TRAIN, indices), seed)


def metric_learner(optimizer=None, **compile_arguments):
    embedder = keras.Sequential([keras.Input((COLUMNS,)), keras.layers.Dense(4, use_bias=False)])
    learner = MetricLearner(embedder, ContrastiveLoss(0.0, 0.8))
    optimizer = optimizer or keras.optimizers.SGD(0.05)
    learner.compile(optimizer, **(compile_arguments or {"run_eagerly": True}))
    return learner


def fit(trainer, epochs, callbacks, steps=1):
    return trainer.fit(
        dataset(*TRAIN).repeat(),
        pool(),
        callbacks,
        steps_per_epoch=steps,
        epochs=epochs,
        verbose=0,
    )


def scripted(values):
    """A callback that puts given values of MAP@R into the logs."""
    return keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: logs.update(val_map_at_r=values[epoch])
    )


class Watch(keras.callbacks.Callback):
    """Keeps proxies, weights, θ* and λ at the beginning and the end of every epoch."""

    def __init__(self):
        super().__init__()
        self.begun, self.ended = [], []

    def state(self):
        return {
            "proxies": self.model.embedding_loss.proxies.numpy(),
            "weights": self.model.embedder.get_weights()[0],
            "anchor": self.model.anchors[0].numpy(),
            "projection_weight": float(self.model.projection_weight),
        }

    def on_epoch_begin(self, epoch, logs=None):
        self.begun.append(self.state())

    def on_epoch_end(self, epoch, logs=None):
        self.ended.append(self.state())


def run(values, **arguments):
    trainer = ChanceConstrainedTrainer(metric_learner(), **arguments)
    watch = Watch()
    history = fit(trainer, epochs=len(values), callbacks=[scripted(values), watch])
    return trainer, watch, history


VALUES = [0.1, 0.3, 0.2, 0.2, 0.5, 0.4, 0.3, 0.4, 0.3, 0.2, 0.9]


@pytest.fixture(scope="module")
def three_problems():
    """Trainer, states and history of problems that begin in the epochs 0, 4 and 7."""
    keras.utils.set_random_seed(0)
    return run(VALUES, proxies_per_class=2, pool_size=4, patience=2)


def test_problems_follow_each_other_until_one_brings_nothing(three_problems):
    trainer, watch, history = three_problems
    # The best of each problem: 0.3, 0.5, and 0.4, which is no better than 0.5.
    assert [p["map_at_r"] for p in trainer.projections] == [0.3, 0.5, 0.4]
    assert [p["steps"] for p in trainer.projections] == [4, 3, 3]
    assert history.history["projection"] == [1] * 4 + [2] * 3 + [3] * 3
    # Each of them stays near its θ*, the first one near the weights at the start.
    assert [s["projection_weight"] for s in watch.begun] == pytest.approx([2e-4] * 10)
    np.testing.assert_array_equal(watch.begun[0]["anchor"], watch.begun[0]["weights"])
    np.testing.assert_array_equal(watch.begun[1]["anchor"], watch.begun[0]["weights"])
    np.testing.assert_array_equal(watch.begun[4]["weights"], watch.ended[1]["weights"])
    np.testing.assert_array_equal(watch.begun[4]["anchor"], watch.ended[1]["weights"])
    np.testing.assert_array_equal(watch.begun[7]["anchor"], watch.ended[4]["weights"])
    # In the end the best weights and proxies of all are back.
    learner, best = trainer.learner, watch.ended[4]
    np.testing.assert_array_equal(learner.embedder.get_weights()[0], best["weights"])
    np.testing.assert_array_equal(learner.embedding_loss.proxies.numpy(), best["proxies"])


def test_max_projections_ends_training_and_a_second_fit_starts_with_a_first_problem():
    arguments = {"proxies_per_class": 1, "pool_size": 2, "patience": 1, "max_projections": 1}
    trainer, _, history = run([0.1, 0.2, 0.1, 0.3, 0.4], **arguments)
    assert len(trainer.projections) == 1 and len(history.epoch) == 3
    reached = trainer.learner.embedder.get_weights()[0]
    watch = Watch()
    history = fit(trainer, 2, [scripted([0.1, 0.2]), watch]).history
    assert history["projection"][0] == 1
    np.testing.assert_array_equal(watch.begun[0]["anchor"], reached)
    assert sum(problem["steps"] for problem in trainer.projections) == 2


def test_an_open_problem_counts_when_the_epochs_are_over():
    """The first problem ends with epoch 1, and epoch 2, the last one, belongs to the next."""
    trainer, watch, _ = run([0.5, 0.1, 0.1], proxies_per_class=4, pool_size=2, patience=1)
    assert [(p["steps"], p["map_at_r"]) for p in trainer.projections] == [(2, 0.5), (1, 0.1)]
    (reached,) = trainer.learner.embedder.get_weights()
    np.testing.assert_array_equal(reached, watch.ended[0]["weights"])


def test_covering_radius_is_the_mean_distance_of_the_farthest_image(three_problems):
    """Of the candidates of each problem, to the proxies before it and to those it began with."""
    trainer, watch, _ = three_problems
    replay, start = pool(), watch.begun[0]["weights"]
    before, _ = replay.draw(lambda x: tf.matmul(x, start), 2)
    for problem, begun, best in zip(trainer.projections, (0, 4, 7), (1, 4, 4), strict=True):
        begin = watch.begun[begun]
        candidates, indices = replay.draw(lambda x, w=begin["weights"]: tf.matmul(x, w), 4)
        assert (TRAIN[1][indices] == np.arange(CLASSES)[:, None]).all()
        for name, proxies in (("before", before), ("after", begin["proxies"])):
            centers = unit(proxies).reshape(CLASSES, 1, 2, 4)
            distances = np.linalg.norm(unit(candidates)[:, :, None] - centers, axis=-1)
            radius = distances.min(axis=2).max(axis=1).mean()
            assert problem[f"covering_radius_{name}"] == pytest.approx(radius, abs=1e-4)
        before = watch.ended[best]["proxies"]


def test_training_finds_the_classes_as_its_learner_was_compiled():
    keras.utils.set_random_seed(3)
    steps = 1 if keras.backend.backend() == "torch" else 3  # Keras takes one on PyTorch
    optimizer = keras.optimizers.Adam(0.03)
    learner = metric_learner(optimizer, jit_compile=True, steps_per_execution=steps)
    evaluation = RetrievalEvaluation(dataset(*VALIDATION))
    evaluation.set_model(learner)
    untrained = evaluation.evaluate()["val_map_at_r"]
    trainer = ChanceConstrainedTrainer(learner, proxies_per_class=2, pool_size=4, patience=2)
    history = fit(trainer, 12, [RetrievalEvaluation(dataset(*VALIDATION))], steps=3).history
    best = max(history["val_map_at_r"])
    assert best > untrained + 0.1
    assert evaluation.evaluate()["val_map_at_r"] == pytest.approx(best, abs=1e-6)
    assert best == max(p["map_at_r"] for p in trainer.projections)
    assert trainer.learner.jit_compile and trainer.learner.steps_per_execution == steps
    assert sum(p["steps"] for p in trainer.projections) == 3 * len(history["loss"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"proxies_per_class": 0}, "proxies_per_class must be an integer of .*received 0"),
        ({"projection_weight": -1.0}, "projection_weight must not be negative, received -1.0"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ChanceConstrainedTrainer(metric_learner(), **arguments)


def test_the_optimizer_keeps_its_exclusions_and_a_rate_that_is_a_function():
    optimizer = keras.optimizers.SGD(lambda: 1e-3, weight_decay=100.0)
    learner = metric_learner(optimizer)
    optimizer.exclude_from_weight_decay(var_list=learner.embedder.weights)
    before = learner.embedder.get_weights()[0]
    trainer = ChanceConstrainedTrainer(learner, 2, 3, projection_weight=0.0)
    fit(trainer, 1, [RetrievalEvaluation(dataset(*VALIDATION))])
    moved = np.abs(learner.embedder.get_weights()[0] - before).max()
    assert 0 < moved < 0.05 * np.abs(before).max()  # decay takes a tenth in a step
