import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import MetricLearner, RetrievalEvaluation, SaveBest, add_lora, embed

NAMES = {"precision_at_1", "r_precision", "map_at_r", "recall_at_1", "recall_at_3"}


def dataset(seed=0, count=24):
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 4
    x = np.eye(4, 6)[labels] + 0.4 * rng.normal(size=(count, 6))
    return tf.data.Dataset.from_tensor_slices((x.astype("float32"), labels)).batch(12)


def arrays(*args):
    parts = zip(*dataset(*args).as_numpy_iterator(), strict=True)
    return tuple(np.concatenate(part) for part in parts)


def embedding_model():
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])


def metric_learner():
    learner = MetricLearner(embedding_model(), ContrastiveLoss())
    learner.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    return learner


def ordinary_model():
    model = embedding_model()
    model.compile(keras.optimizers.Adam(0.01), ContrastiveLoss(), run_eagerly=True)
    return model


def evaluated(model, *args, **kwargs):
    callback = RetrievalEvaluation(*args, recall_at=(1, 3), **kwargs)
    callback.set_model(model)
    return callback.evaluate()


@pytest.mark.parametrize(
    ("make", "metric", "prefix"),
    [(metric_learner, "euclidean", "val_"), (ordinary_model, "cosine", "unseen_")],
)
def test_adds_the_metrics_of_the_held_out_set(make, metric, prefix):
    model, held_out = make(), dataset(seed=1)
    callback = RetrievalEvaluation(held_out, recall_at=(1, 3), metric=metric, prefix=prefix)
    history = model.fit(dataset(), epochs=3, callbacks=[callback], verbose=0).history
    assert {name for name in history if name.startswith(prefix)} == {prefix + n for n in NAMES}
    expected = retrieval_metrics(*embed(model, held_out), recall_at=(1, 3), metric=metric)
    for name in NAMES:
        assert len(history[prefix + name]) == 3
        assert history[prefix + name][-1] == pytest.approx(expected[name], abs=1e-12)
    assert callback.evaluate() == {prefix + name: expected[name] for name in NAMES}
    # The metrics are those of each epoch, not the last ones thrice.
    assert any(len(set(history[prefix + n])) > 1 for n in NAMES)


def test_embeddings_that_are_not_finite_count_nothing():
    learner, zeros = metric_learner(), {f"val_{name}": 0.0 for name in NAMES}
    infinite = dataset().map(lambda x, y: (x / 0, y))
    assert evaluated(learner, dataset(), references=infinite) == zeros
    for value in (np.nan, np.inf):
        learner.embedder.layers[-1].bias.assign([value, 0, 0])
        assert evaluated(learner, dataset()) == zeros


def test_references_and_arrays_in_place_of_data_sets():
    model, queries, references = metric_learner(), dataset(seed=1), dataset(2, 72)
    sets = *embed(model, queries), *embed(model, references)
    metrics = retrieval_metrics(*sets, recall_at=(1, 3))
    expected = {f"val_{name}": metrics[name] for name in NAMES}
    assert evaluated(model, queries, references=references) == expected
    assert evaluated(model, arrays(1), references=arrays(2, 72)) == expected
    for name, value in {"metric": "l1", "relation": "all", "recall_at": (0,)}.items():
        with pytest.raises(ValueError, match=f"{name} must be .*received"):
            RetrievalEvaluation(arrays(1), **{name: value})
    with pytest.raises(ValueError, match=r"path must end in \.keras, received 'best\.h5'"):
        SaveBest("best.h5")


@pytest.fixture
def model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])
    model.compile("sgd", "mse", run_eagerly=True)
    return model


def saved_weight(path):
    return float(np.asarray(keras.models.load_model(path).layers[-1].kernel)[0, 0])


def save_best(path, model, values, baseline=float("-inf")):
    """A callback after epochs of the given scores; the weights tell the epoch."""
    callback = SaveBest(path, monitor="score", baseline=baseline)
    callback.set_model(model)
    for epoch, value in enumerate(values):
        model.layers[-1].kernel.assign(np.full((2, 1), float(epoch)))
        callback.on_epoch_end(epoch, {"score": value})
        callback.on_epoch_begin(epoch + 1)
    return callback


@pytest.mark.parametrize(
    ("values", "best"),
    [([0.1, 0.3, 0.2], 1), ([0.5, 0.5], 0), ([float("nan"), -1.0, float("nan")], 1)],
)
def test_save_best_holds_the_best_epoch(tmp_path, model, values, best):
    path = tmp_path / "best.keras"
    callback = save_best(path, model, values)
    assert (callback.best_epoch, callback.best) == (best, values[best])
    assert saved_weight(path) == best
    assert list(tmp_path.iterdir()) == [path]


def test_a_failing_save_leaves_the_last_good_file(tmp_path, model, monkeypatch):
    path = tmp_path / "best.keras"
    callback = save_best(path, model, [0.5])
    good = path.read_bytes()

    def fail(target, *args, **kwargs):
        target.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(model, "save", fail)
    callback.on_epoch_end(1, {"score": 0.5})
    callback.on_epoch_begin(2)  # nothing is due
    callback.on_epoch_end(2, {"score": 0.9})
    with pytest.raises(OSError, match="best.keras cannot be written: the disk is full"):
        callback.on_epoch_begin(3)
    assert path.read_bytes() == good
    assert list(tmp_path.iterdir()) == [path]


def test_a_best_model_that_was_due_is_saved_when_training_continues(tmp_path, model):
    stopped = SaveBest(tmp_path / "best.keras", monitor="score")
    stopped.on_epoch_end(3, {"score": 0.5})
    assert not list(tmp_path.iterdir())
    callback = SaveBest(tmp_path / "best.keras", monitor="score")
    callback.set_model(model)
    callback.restore(stopped.state())
    model.layers[-1].kernel.assign(np.full((2, 1), 7.0))
    callback.on_epoch_begin(4)
    assert (callback.best, callback.best_epoch) == (0.5, 3)
    assert saved_weight(tmp_path / "best.keras") == 7


@pytest.mark.tensorflow
def test_a_network_that_gets_low_rank_matrices_is_evaluated_with_them():
    keras.utils.set_random_seed(0)
    embedder = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.Dense(3)])
    callback = RetrievalEvaluation(arrays(), recall_at=(1, 3))
    callback.set_model(embedder)
    before = callback.evaluate()
    add_lora(embedder, rank=2)
    callback.set_model(embedder)
    assert callback.evaluate() == before
    for variable in embedder.trainable_variables:
        variable.assign(np.random.default_rng(1).normal(size=variable.shape))
    assert callback.evaluate() == evaluated(embedder, arrays()) != before
