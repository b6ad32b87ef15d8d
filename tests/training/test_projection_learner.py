import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.losses import ContrastiveLoss, ProxyNCALoss
from gsp_tf.training import ProjectionLearner


def learner(loss=None):
    embedder = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(4), keras.layers.BatchNormalization()]
    )
    return ProjectionLearner(embedder, loss or ContrastiveLoss())


def gradients(model, x, labels):
    variables = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = model.compute_loss(y=labels, y_pred=model(x, training=False))
    return float(loss), tape.gradient(loss, variables)


BATCH = np.random.default_rng(0).normal(size=(6, 5)).astype("float32"), np.arange(6) % 3


def test_regularizer_adds_its_value_and_the_distance_to_the_gradient():
    model = learner(ProxyNCALoss(3))
    model.project_from_here(0.0)
    for i, variable in enumerate(model.trainable_variables):
        variable.assign_add(np.random.default_rng(i).normal(size=variable.shape))
    plain, plain_gradients = gradients(model, *BATCH)
    model.projection_weight.assign(0.3)
    total, total_gradients = gradients(model, *BATCH)
    embedder = model.embedder.trainable_variables
    moved = [v.numpy() - a.numpy() for v, a in zip(embedder, model.anchors, strict=True)]
    square = sum(np.sum(m**2) for m in moved)
    assert total - plain == pytest.approx(0.15 * square, rel=1e-4)
    assert model.distance_moved() == pytest.approx(np.sqrt(square), rel=1e-5)
    by_path = dict(zip([v.path for v in embedder], moved, strict=True))
    for variable, before, after in zip(
        model.trainable_variables, plain_gradients, total_gradients, strict=True
    ):
        expected = 0.3 * by_path.get(variable.path, np.zeros(variable.shape))
        np.testing.assert_allclose(after - before, expected, rtol=1e-3, atol=1e-5)
    assert any("proxies" in v.path for v in model.trainable_variables)


def test_saving_keeps_the_point_and_the_weight(tmp_path):
    model = learner()
    model.compile("adam", run_eagerly=True)
    model.project_from_here(0.7)
    model.fit(*BATCH, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded, ProjectionLearner)
    assert float(loaded.projection_weight) == pytest.approx(0.7)
    assert loaded.distance_moved() == pytest.approx(model.distance_moved(), rel=1e-5)
    assert model.distance_moved() > 0
