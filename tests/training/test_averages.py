import keras
import numpy as np
import pytest
from gradients import EAGERLY

from gsp_tf import training
from gsp_tf.losses import ContrastiveLoss

POINTS = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
LABELS = np.arange(16) % 4


def learner_of(momentum=0.8, **settings):
    inputs = keras.Input((4,))
    embedder = keras.Model(inputs, keras.layers.Dense(3, name="dense")(inputs))
    learner = training.MetricLearner(embedder, ContrastiveLoss())
    optimizer = keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=momentum, **settings)
    learner.compile(optimizer, run_eagerly=EAGERLY)
    learner.optimizer.build(learner.trainable_variables)
    return learner


def weights_of(learner):
    return [keras.ops.convert_to_numpy(v).copy() for v in learner.embedder.trainable_variables]


class Watch(keras.callbacks.Callback):
    """The weights after each step, and what stands in their place at the end of an epoch."""

    def __init__(self):
        super().__init__()
        self.steps, self.evaluated, self.after = [], [], []

    def on_train_batch_end(self, batch, logs=None):
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()
        self.steps.append(weights_of(self.model))

    def on_epoch_end(self, epoch, logs=None):
        with training.averaged_weights(self.model):
            self.evaluated.append(weights_of(self.model))
        self.after.append(weights_of(self.model))


def assert_close(ours, theirs):
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(our), their, rtol=1e-5, atol=1e-6)


def recurrence(steps, momentum, first=1):
    """The average after each step: the weights in the first ones, then the formula."""
    averages = []
    for number, weights in enumerate(steps):
        share = 0.0 if number < first else momentum
        before = averages[-1] if averages else weights
        averages.append([share * a + (1 - share) * w for a, w in zip(before, weights, strict=True)])
    return averages


def fit(learner, callbacks, epochs=3):
    return learner.fit(
        POINTS, LABELS, batch_size=8, epochs=epochs, shuffle=False, callbacks=callbacks, verbose=0
    )


@pytest.mark.parametrize("accumulated", [1, 2])
def test_what_is_evaluated_and_saved_are_the_averages_of_the_recurrence(tmp_path, accumulated):
    settings = {"gradient_accumulation_steps": accumulated} if accumulated > 1 else {}
    learner, watch = learner_of(**settings), Watch()
    best = training.SaveBest(tmp_path / "best.keras", monitor="loss")
    metrics = []

    class Evaluation(training.RetrievalEvaluation):
        def evaluate(self):
            metrics.append(weights_of(self.model))
            return {}

    fit(learner, [Evaluation((POINTS, LABELS)), watch, best])
    expected = recurrence(watch.steps, 0.8, first=accumulated)[1::2]
    for found in (watch.evaluated, metrics):
        for ours, theirs in zip(found, expected, strict=True):
            assert_close(ours, theirs)
    for ours, theirs in zip(watch.after, watch.steps[1::2], strict=True):
        for our, their in zip(ours, theirs, strict=True):  # training goes on from the same bits
            np.testing.assert_array_equal(our, their)
    assert not np.allclose(watch.evaluated[-1][0], watch.after[-1][0])
    saved = keras.models.load_model(best.path, compile=False).embedder
    assert_close(saved.trainable_variables, expected[best.best_epoch])
    assert_close(learner.embedder.trainable_variables, expected[-1])  # `fit` ends with them


def test_problems_of_ccp_take_the_averages_and_begin_them_again():
    """A solution is what was evaluated; the averages of the next problem begin from it."""
    learner, watch = learner_of(momentum=0.9), Watch()
    trainer = training.ChanceConstrainedTrainer(learner, 2, 3, patience=1, projection_weight=0.0)

    # Each problem improves once and then ends; the second is better than the first.
    scores = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: logs.update(val_map_at_r=(0.2, 0.1, 0.3, 0.1)[epoch])
    )

    def batches():
        while True:
            yield from ((POINTS[i : i + 8], LABELS[i : i + 8]) for i in (0, 8))

    pool = training.ProxyPool(LABELS, lambda indices: (POINTS[indices], LABELS[indices]))
    trainer.fit(batches(), pool, [scores, watch], steps_per_epoch=2, epochs=4, verbose=0)
    first = recurrence(watch.steps[:2], 0.9)[-1]
    second = recurrence([first, *watch.steps[4:6]], 0.9)[-1]
    assert_close(watch.evaluated[2], second)
    assert_close(learner.embedder.trainable_variables, second)
