"""A loss over the images with a class, plus one over two views of every image."""

import keras
import numpy as np
import pytest
from gradients import EAGERLY, value_and_gradient
from loss_examples import with_weights

from gsp_tf import losses
from gsp_tf.training import MetricLearner

LABELS = np.array([[2, 0], [-1, 1], [-1, 1], [2, 0], [1, 2], [-1, 3], [1, 2], [-1, 3]])
POINTS = np.random.default_rng(0).normal(size=(8, 5)).astype("float32")
VIEWS = losses.NTXentLoss(0.5)


def proxies():
    return with_weights(losses.NormalizedSoftmaxLoss(3), columns=5)


def value(loss, labels, points=POINTS):
    return float(keras.ops.convert_to_numpy(loss(labels, points)))


@pytest.mark.parametrize("make", [proxies, losses.ContrastiveLoss])
def test_the_sum_of_both_in_any_order_of_rows(make):
    has_class = LABELS[:, 0] >= 0
    expected = value(make(), LABELS[has_class, 0], POINTS[has_class])
    expected += 0.5 * value(VIEWS, LABELS[:, 1])
    loss = losses.SemiSupervisedLoss(make(), VIEWS, num_labelled=4, view_weight=0.5)
    assert value(loss, LABELS) == pytest.approx(expected, rel=1e-5)
    order = np.random.default_rng(2).permutation(8)
    assert value(loss, LABELS[order], POINTS[order]) == pytest.approx(expected, rel=1e-5)
    again = type(loss).from_config(loss.get_config())
    if make is not proxies:
        assert value(again, LABELS) == pytest.approx(expected, rel=1e-5)
    assert again.num_labelled == 4


def test_large_classes_are_told_apart():
    loss = losses.SemiSupervisedLoss(losses.ContrastiveLoss(), VIEWS, num_labelled=4)
    large = LABELS.copy()
    large[:, 0] = np.where(LABELS[:, 0] < 0, -1, LABELS[:, 0] * 2**32)
    assert value(loss, large) == value(loss, LABELS)
    with pytest.raises(ValueError, match="Labels must be whole numbers"):
        value(loss, np.where(LABELS == [2, -1], 1.5, LABELS))


def test_images_without_a_class_get_no_gradient_from_the_loss_of_classes():
    loss = losses.SemiSupervisedLoss(proxies(), VIEWS, num_labelled=4, view_weight=0.0)
    _, gradient = value_and_gradient(loss, LABELS, POINTS)
    norms = np.linalg.norm(keras.ops.convert_to_numpy(gradient), axis=1)
    np.testing.assert_array_equal(norms > 0, LABELS[:, 0] >= 0)


def test_refusals():
    loss = losses.SemiSupervisedLoss(proxies(), VIEWS, num_labelled=6)
    with pytest.raises(ValueError, match="expects 6 rows with a class, received 4"):
        value(loss, LABELS)
    with pytest.raises(ValueError, match=r"takes labels \(B, 2\).*received shape \(8,\)"):
        value(loss, LABELS[:, 0])
    with pytest.raises(ValueError, match="every label twice"):
        value(losses.SemiSupervisedLoss(proxies(), losses.BarlowTwinsLoss(), 4), LABELS * [[1, 0]])


def test_a_loss_of_two_views_equals_that_of_a_pair_loss_of_the_numbers():
    values = [
        value(losses.SemiSupervisedLoss(proxies(), loss, 4), LABELS)
        for loss in (VIEWS, losses.SelfSupervisedLoss(VIEWS))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_the_weights_of_both_losses_train_and_are_saved(tmp_path):
    loss = losses.SemiSupervisedLoss(proxies(), losses.SimSiamLoss(4), num_labelled=4)
    learner = MetricLearner(keras.Sequential([keras.Input((5,)), keras.layers.Dense(5)]), loss)
    learner.compile(keras.optimizers.SGD(0.1), run_eagerly=EAGERLY)
    learner(POINTS)
    loss(LABELS, POINTS)
    parts = [loss.loss.proxies, *loss.view_loss.predictor.trainable_variables]
    before = [keras.ops.convert_to_numpy(weight).copy() for weight in parts]
    learner.fit(POINTS, LABELS, batch_size=8, verbose=0)
    for weight, old in zip(parts, before, strict=True):
        assert not np.array_equal(keras.ops.convert_to_numpy(weight), old), weight.path
    learner.save(tmp_path / "learner.keras")
    again = keras.models.load_model(tmp_path / "learner.keras").embedding_loss
    assert (again.num_labelled, again.view_weight) == (4, 1.0)
    assert value(again, LABELS) == pytest.approx(value(loss, LABELS), rel=1e-6)
