import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.losses import ContrastiveLoss, ProxyNCALoss
from gsp_tf.training import MetricLearner, RetrievalEvaluation, SaveBest, StopOnNaN


def dataset(bad=None, batches=4):
    """Batches of vectors; the batch `bad` holds a NaN."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6 * batches, 5)).astype("float32")
    labels = np.arange(len(x)) % 3
    if bad is not None:
        x[6 * bad] = np.nan
    return tf.data.Dataset.from_tensor_slices((x, labels)).batch(6)


def learner_with(loss):
    learner = MetricLearner(keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)]), loss)
    learner.compile(optimizer=keras.optimizers.SGD(0.01))
    return learner


@pytest.mark.parametrize("loss", [ContrastiveLoss(), ProxyNCALoss(3)], ids=["pairs", "proxies"])
def test_stops_at_the_batch_that_diverges(loss):
    learner, callback = learner_with(loss), StopOnNaN()
    learner.fit(dataset(), epochs=1, callbacks=[callback], verbose=0)
    assert callback.diverged_at is None and not learner.stop_training
    history = learner.fit(
        dataset(bad=2), initial_epoch=3, epochs=9, callbacks=[callback], verbose=0
    ).history
    assert callback.diverged_at == (3, 2)
    assert len(history["loss"]) == 1 and np.isnan(history["loss"][0])


def test_infinite_loss_stops_too():
    callback = StopOnNaN()
    callback.set_model(learner_with(ContrastiveLoss()))
    callback.on_epoch_begin(5)
    callback.on_train_batch_end(0, {"loss": 1.0})
    assert callback.diverged_at is None
    callback.on_train_batch_end(1, {"loss": float("inf")})
    callback.on_train_batch_end(2, {"loss": float("nan")})
    assert callback.diverged_at == (5, 1) and callback.model.stop_training


def test_the_last_good_weights_stay_on_disk(tmp_path):
    learner = learner_with(ProxyNCALoss(3))
    best = SaveBest(tmp_path / "best.keras")
    evaluation = RetrievalEvaluation(dataset())
    learner.fit(dataset(), callbacks=[evaluation, best], verbose=0)
    proxies = learner.embedding_loss.proxies.numpy()
    stop = StopOnNaN()
    learner.fit(dataset(bad=0), epochs=5, callbacks=[stop, evaluation, best], verbose=0)
    assert stop.diverged_at == (0, 0)
    assert np.isnan(learner.embedding_loss.proxies).any()
    loaded = keras.models.load_model(tmp_path / "best.keras")
    np.testing.assert_array_equal(loaded.embedding_loss.proxies, proxies)
