from unittest.mock import Mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.losses import ContrastiveLoss, CrossBatchMemory
from gsp_tf.training import MetricLearner, StopOnNaN


def dataset(bad=None, batches=4):
    """Batches of vectors; the batch `bad` holds a NaN."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6 * batches, 5)).astype("float32")
    labels = np.arange(len(x)) % 3
    if bad is not None:
        x[6 * bad] = np.nan
    return tf.data.Dataset.from_tensor_slices((x, labels)).batch(6)


def learner_with(loss, run_eagerly=True):
    learner = MetricLearner(keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)]), loss)
    learner.compile(keras.optimizers.SGD(0.01), jit_compile=False, run_eagerly=run_eagerly)
    return learner


def test_stops_every_fit_that_diverges():
    callback = StopOnNaN()
    for bad, expected in ((None, None), (2, (3, 2)), (1, (3, 1)), (None, None)):
        learner = learner_with(ContrastiveLoss())
        arguments = {"initial_epoch": 3, "epochs": 5, "callbacks": [callback], "verbose": 0}
        losses = learner.fit(dataset(bad), **arguments).history["loss"]
        assert callback.diverged_at == expected and learner.stop_training == bool(expected)
        assert (callback.diverged_in is None) == (expected is None)
        assert len(losses) == (1 if expected else 2) and np.isnan(losses).all() == bool(expected)


def dense():
    return keras.layers.Dense(1, kernel_initializer="zeros", name="dense")


def root_of_squares(y, prediction):
    """0 for zeros, where its gradient is not finite."""
    return keras.ops.sqrt(keras.ops.sum(keras.ops.square(prediction), axis=-1))


def with_log():
    return keras.Sequential(
        [dense(), keras.layers.Activation(keras.ops.log, name="log")], name="inner"
    )


# Layer, loss, batch that holds a NaN; batch at which training stops, and what is named.
CASES = {
    "inputs": (dense, "mse", 1, 1, "the inputs of the batch"),
    "layer": (with_log, "mse", None, 0, "the output of the layer log"),
    "gradient": (
        dense,
        root_of_squares,
        None,
        1,
        "the weight outer/dense/kernel, from the gradient of an earlier step",
    ),
    "loss": (dense, lambda y, zero: keras.ops.log(keras.ops.abs(zero)), None, 0, "the loss"),
}


@pytest.mark.parametrize("case", CASES)
def test_names_what_held_the_first_nan(case, capsys):
    make_layer, loss, bad, at, expected = CASES[case]
    model = keras.Sequential([keras.Input((5,)), make_layer()], name="outer")
    model.compile(keras.optimizers.SGD(0.01), loss, jit_compile=False)
    callback = StopOnNaN()
    model.fit(dataset(bad=bad), callbacks=[callback], verbose=0)
    assert (callback.diverged_at, callback.diverged_in) == ((0, at), expected)
    shown = capsys.readouterr().out
    assert f"epoch 1, batch {at + 1}:" in shown and f"is in {expected}." in shown
    assert not np.isfinite(model.trainable_variables[0]).all()
    assert type(model.train_function).__name__ == "function"


def test_names_the_loss_of_a_learner():
    learner, callback = learner_with(CrossBatchMemory(ContrastiveLoss(), 60)), StopOnNaN()
    learner.fit(dataset(), callbacks=[callback], verbose=0)
    learner.embedding_loss.memory.assign(np.full((60, 3), np.nan))
    learner.fit(dataset(), callbacks=[callback], verbose=0)
    assert callback.diverged_in == f"the output of the layer {learner.embedding_loss.path}"


def test_training_is_the_same_with_it_and_continues_after_an_interrupt():
    stop = keras.callbacks.LambdaCallback(on_train_batch_end=Mock(side_effect=KeyboardInterrupt))

    def trained(callbacks):
        keras.utils.set_random_seed(0)
        learner = learner_with(ContrastiveLoss(), run_eagerly=False)
        if callbacks:
            with pytest.raises(KeyboardInterrupt):
                learner.fit(dataset(), callbacks=[*callbacks, stop], verbose=0)
        else:
            learner.fit(dataset().take(1), verbose=0)
        learner.fit(dataset(), epochs=2, callbacks=callbacks, verbose=0)
        return learner.get_weights()

    for one, other in zip(trained([]), trained([StopOnNaN()]), strict=True):
        np.testing.assert_array_equal(one, other)
