import keras
import numpy as np
import pytest

from gsp_tf.training import SaveBest


@pytest.fixture
def model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(optimizer="sgd", loss="mse")
    return model


def saved_weight(path):
    return float(np.asarray(keras.models.load_model(path).layers[-1].kernel)[0, 0])


def run(model, callback, values, monitor="score"):
    """Epochs of the given scores; the weights tell the epoch."""
    callback.set_model(model)
    for epoch, value in enumerate(values):
        model.layers[-1].kernel.assign(np.full((2, 1), float(epoch)))
        callback.on_epoch_end(epoch, {monitor: value})
        callback.on_epoch_begin(epoch + 1)


@pytest.mark.parametrize(
    ("values", "best"),
    [
        ([0.1, 0.3, 0.2], 1),
        ([0.5, 0.5], 0),
        ([float("nan"), -1.0, float("nan")], 1),
        ([0.1, 0.2, 0.3], 2),
    ],
)
def test_holds_the_best_epoch(tmp_path, model, values, best):
    path = tmp_path / "best.keras"
    callback = SaveBest(path, monitor="score")
    run(model, callback, values)
    assert (callback.best_epoch, callback.best) == (best, values[best])
    assert saved_weight(path) == best
    assert list(tmp_path.iterdir()) == [path]


def test_a_baseline_must_be_exceeded(tmp_path, model):
    callback = SaveBest(tmp_path / "best.keras", monitor="score", baseline=0.5)
    run(model, callback, [0.4, 0.5])
    assert callback.best_epoch is None and not list(tmp_path.iterdir())
    run(model, callback, [0.4, 0.6])
    assert callback.best_epoch == 1 and saved_weight(tmp_path / "best.keras") == 1


def test_saves_only_on_improvement(tmp_path, model):
    path = tmp_path / "best.keras"
    callback = SaveBest(path, monitor="score")
    run(model, callback, [0.5])
    path.write_bytes(b"untouched")
    run(model, callback, [0.5, 0.4])
    assert path.read_bytes() == b"untouched"


@pytest.mark.parametrize("half_written", [False, True])
def test_a_failing_save_leaves_the_last_good_file(tmp_path, model, monkeypatch, half_written):
    path = tmp_path / "best.keras"
    callback = SaveBest(path, monitor="score")
    run(model, callback, [0.5])
    good = path.read_bytes()

    def fail(target, *args, **kwargs):
        if half_written:
            target.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(model, "save", fail)
    callback.on_epoch_end(1, {"score": 0.9})
    with pytest.raises(OSError, match="best.keras cannot be written: the disk is full"):
        callback.on_epoch_begin(2)
    assert path.read_bytes() == good
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("logs", [None, {"loss": 1.0}])
def test_refuses_a_missing_monitor(tmp_path, model, logs):
    callback = SaveBest(tmp_path / "best.keras")
    callback.set_model(model)
    with pytest.raises(ValueError, match="'val_map_at_r', which is not among the logs"):
        callback.on_epoch_end(0, logs)


def test_in_fit(tmp_path, model):
    path = tmp_path / "best.keras"
    x = np.ones((4, 2), "float32")
    # The loss falls, so its first value stays the largest.
    callback = SaveBest(str(path), monitor="loss")
    history = model.fit(x, x[:, :1] * 3, epochs=3, callbacks=[callback], verbose=0).history
    assert history["loss"][0] > history["loss"][-1]
    assert (callback.best_epoch, callback.best) == (0, history["loss"][0])
    assert saved_weight(path) != float(np.asarray(model.layers[-1].kernel)[0, 0])


def test_a_best_model_that_was_due_is_saved_after_going_on(tmp_path, model):
    stopped = SaveBest(tmp_path / "best.keras", monitor="score")
    stopped.on_epoch_end(3, {"score": 0.5})
    state = stopped.state()
    assert not list(tmp_path.iterdir())
    callback = SaveBest(tmp_path / "best.keras", monitor="score")
    callback.set_model(model)
    callback.restore(state)
    model.layers[-1].kernel.assign(np.full((2, 1), 7.0))
    callback.on_epoch_begin(4)
    assert (callback.best, callback.best_epoch) == (0.5, 3)
    assert saved_weight(tmp_path / "best.keras") == 7
