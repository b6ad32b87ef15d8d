import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import MetricLearner, RetrievalEvaluation, embed

NAMES = {"precision_at_1", "r_precision", "map_at_r", "recall_at_1", "recall_at_3"}


def dataset(seed=0, count=24):
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 4
    x = np.eye(4, 6)[labels] + 0.4 * rng.normal(size=(count, 6))
    return tf.data.Dataset.from_tensor_slices((x.astype("float32"), labels)).batch(12)


def embedding_model():
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])


def metric_learner():
    learner = MetricLearner(embedding_model(), ContrastiveLoss())
    learner.compile(optimizer=keras.optimizers.Adam(0.01))
    return learner


def ordinary_model():
    model = embedding_model()
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=ContrastiveLoss())
    return model


@pytest.mark.parametrize("make", [metric_learner, ordinary_model])
@pytest.mark.parametrize(("metric", "prefix"), [("euclidean", "val_"), ("cosine", "unseen_")])
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
    assert len({tuple(np.round(history[prefix + n], 6)) for n in NAMES}) > 1
    assert any(len(set(history[prefix + n])) > 1 for n in NAMES)


def test_later_callbacks_can_follow_the_metrics(tmp_path):
    learner = metric_learner()
    learner.compile(optimizer=keras.optimizers.SGD(0.0))
    callbacks = [
        RetrievalEvaluation(dataset(seed=1)),
        keras.callbacks.EarlyStopping("val_map_at_r", mode="max", patience=2),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
    ]
    history = learner.fit(
        dataset(), validation_data=dataset(seed=2), epochs=9, callbacks=callbacks, verbose=0
    ).history
    assert len(history["loss"]) == 3
    assert {"val_loss", "val_map_at_r", "val_recall_at_8"} <= set(history)
    header = (tmp_path / "log.csv").read_text().splitlines()[0]
    assert "val_map_at_r" in header.split(",")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_embeddings_that_are_not_finite_count_nothing(value):
    learner = metric_learner()
    learner.embedder.layers[-1].bias.assign([value, 0, 0])
    callback = RetrievalEvaluation(dataset(), recall_at=(1, 3))
    callback.set_model(learner)
    assert callback.evaluate() == {f"val_{name}": 0.0 for name in NAMES}


def test_a_gallery():
    model, queries, gallery = metric_learner(), dataset(seed=1), dataset(seed=2, count=36)
    callback = RetrievalEvaluation(queries, recall_at=(1, 3), references=gallery)
    callback.set_model(model)
    expected = retrieval_metrics(*embed(model, queries), *embed(model, gallery), recall_at=(1, 3))
    assert callback.evaluate() == {f"val_{name}": expected[name] for name in NAMES}


def test_a_gallery_whose_embeddings_are_not_finite():
    model = metric_learner()
    callback = RetrievalEvaluation(dataset(), references=dataset().map(lambda x, y: (x / 0, y)))
    callback.set_model(model)
    assert set(callback.evaluate().values()) == {0.0}


def test_arrays_in_place_of_data_sets():
    model = metric_learner()
    arrays = [
        tuple(np.concatenate(part) for part in zip(*data.as_numpy_iterator(), strict=True))
        for data in (dataset(seed=1), dataset(seed=2, count=36))
    ]
    callback = RetrievalEvaluation(arrays[0], recall_at=(1, 3), references=arrays[1])
    callback.set_model(model)
    sets = dataset(seed=1), dataset(seed=2, count=36)
    expected = retrieval_metrics(*embed(model, sets[0]), *embed(model, sets[1]), recall_at=(1, 3))
    assert callback.evaluate() == {f"val_{name}": expected[name] for name in NAMES}
    with pytest.raises(ValueError, match="Labels are needed"):
        RetrievalEvaluation(arrays[0][0])
