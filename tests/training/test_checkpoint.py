from unittest.mock import Mock

import keras
import numpy as np
import pytest

from gsp_tf.training import Checkpoint, epoch_of

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")


def model(run_eagerly=True):
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dropout(0.5, seed=1)]
    )
    model.compile(keras.optimizers.Adam(0.05), "mse", run_eagerly=run_eagerly)
    return model


def fit(model, *callbacks, first_epoch=0, epochs=4):
    return model.fit(
        X,
        X[:, :2],
        batch_size=4,
        initial_epoch=first_epoch,
        epochs=epochs,
        shuffle=False,
        callbacks=list(callbacks),
        verbose=0,
    ).history


def start(**arguments):
    keras.utils.set_random_seed(0)
    return model(**arguments)


def test_a_run_that_continues_has_the_numbers_of_one_that_never_stopped(tmp_path):
    path = tmp_path / "state.npz"
    whole = start(run_eagerly=False)
    losses = fit(whole)["loss"]
    stopped = start(run_eagerly=False)
    fit(stopped, Checkpoint(path), epochs=3)
    assert epoch_of(path) == 2
    keras.utils.set_random_seed(99)
    resumed = model(run_eagerly=False)
    assert fit(resumed, Checkpoint(path, resume=True), first_epoch=2)["loss"] == losses[2:]
    for ours, theirs in zip(resumed.variables, whole.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"] and epoch_of(path) == 3


def test_parts_keep_values_and_arrays(tmp_path):
    array = np.arange(6, dtype="float32").reshape(2, 3)
    state = {
        "value": -np.inf,
        "nothing": None,
        "scalar": np.float32(0.5),
        "lists": [array, [array, array + 1]],
        "nested": {"radii": {"before": None, "after": 0.25}},
    }
    path, part = tmp_path / "state.npz", Mock(state=lambda: state)
    fit(start(), Checkpoint(path, {"part": part}), epochs=1)
    fit(start(), Checkpoint(path, {"part": part}, resume=True), epochs=1)
    (restored,) = part.restore.call_args.args
    assert restored["value"] == -np.inf and restored["nothing"] is None
    assert restored["scalar"] == 0.5 and restored["nested"] == state["nested"]
    np.testing.assert_array_equal(restored["lists"][0], array)
    np.testing.assert_array_equal(restored["lists"][1][1], array + 1)
    with np.load(path) as file:  # one array is stored once
        assert sum(name.startswith("array_") for name in file.files) == 2


def test_keras_callbacks_continue_to_wait(tmp_path):
    path = tmp_path / "state.npz"

    def callbacks(resume=False):
        stop = keras.callbacks.EarlyStopping(
            "score", mode="max", patience=3, restore_best_weights=True
        )
        plateau = keras.callbacks.ReduceLROnPlateau("score", mode="max", patience=2, cooldown=1)
        parts = {"stop": stop, "plateau": plateau}
        score = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: logs.update(score=1.0 / (epoch + 1))
        )
        return score, Checkpoint(path, parts, resume), stop, plateau

    whole = start()
    history = fit(whole, *callbacks(), epochs=20)
    assert len(history["loss"]) == 4
    stopped = start()
    fit(stopped, *callbacks(), epochs=3)
    resumed = start()
    rest = fit(resumed, *callbacks(resume=True), first_epoch=2, epochs=20)
    assert rest["loss"] == history["loss"][2:]
    rates = [float(m.optimizer.learning_rate) for m in (whole, resumed)]
    assert rates[0] == rates[1] == pytest.approx(0.005)
    for ours, theirs in zip(resumed.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)  # those of the best epoch, the first


def test_another_model_or_epoch_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    fit(start(), Checkpoint(path), epochs=2)
    with pytest.raises(ValueError, match="saved before epoch 1 with .* and this is epoch 0"):
        fit(start(), Checkpoint(path, resume=True))
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, use_bias=False)])
    other.compile("sgd", "mse", run_eagerly=True)
    with pytest.raises(ValueError, match="does not fit"):
        fit(other, Checkpoint(path, resume=True), first_epoch=1)


def test_what_is_not_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        epoch_of(tmp_path / "none.npz")
    for content in (b"", b'{"epoch": 1}'):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(ValueError, match="damaged, or is not a checkpoint"):
            epoch_of(tmp_path / "bad.npz")
    np.savez(tmp_path / "code.npz", state=np.array([{"epoch": 1}], dtype=object))
    with pytest.raises(ValueError, match="damaged, or is not a checkpoint"):
        epoch_of(tmp_path / "code.npz")


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    path = tmp_path / "state.npz"
    fit(start(), Checkpoint(path), epochs=2)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, "variable_0": np.array([{"a": 1}], dtype=object)})
    assert epoch_of(path) == 1
    with pytest.raises(ValueError, match="state.npz is damaged, or is not a checkpoint.*pickle"):
        fit(start(), Checkpoint(path, resume=True), first_epoch=1)
