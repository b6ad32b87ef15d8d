"""Losses of label vectors, such as multi-hot tags."""

import keras
import numpy as np
import pytest
from gradients import FEW_STEPS, value_and_gradients
from loss_examples import EVERY_PAIR_LOSS, GivenWeights

from gsp_tf import losses
from gsp_tf.training import MetricLearner

RNG = np.random.default_rng(0)
CLASSES = np.array([0, 1, 2, 0, 1, 2, 3, 3, 0, 2])
ONE_HOT = np.eye(4)[CLASSES]
X = RNG.normal(size=(10, 4))
TAGS = (RNG.random((10, 5)) < 0.4).astype("float64")
OF_LABELS = [name for name in EVERY_PAIR_LOSS if name != "n_pairs"]
GRADED = [name for name in OF_LABELS if EVERY_PAIR_LOSS[name]().takes_grades]


def assert_equal_outcomes(found, expected, rtol=1e-9):
    assert found[0] == pytest.approx(expected[0], rel=rtol)
    for gradient, other in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(gradient, other, rtol=1e-6, atol=1e-9 + 1e-9 * abs(other).max())


@pytest.mark.parametrize("name", [name for name in OF_LABELS if name not in GRADED])
def test_vectors_of_one_class_give_the_numbers_of_classes(name):
    make = EVERY_PAIR_LOSS[name]
    expected = value_and_gradients(make(), CLASSES, X)
    assert expected[0] != 0
    loss = make(relation="any")
    assert_equal_outcomes(value_and_gradients(loss, ONE_HOT, X), expected)


@keras.saving.register_keras_serializable("tests")
def degree(x, y):
    """A relation of labels in 0 to 1, of our own."""
    return keras.ops.exp(-2.0 * keras.ops.abs(x[:, None] - y[None, :]))


@pytest.mark.parametrize("name", GRADED)
def test_a_graded_pair_is_a_share_of_a_positive_and_of_a_negative(name):
    """Equal to references that come twice: as positives of weight r, as negatives of 1 - r."""
    make = EVERY_PAIR_LOSS[name]
    labels, of_references = RNG.random(6), RNG.random(7)
    references = RNG.normal(size=(7, 4))
    r = np.exp(-2.0 * np.abs(labels[:, None] - of_references))
    none = np.zeros_like(r)
    weights = np.concatenate([r, none], 1), np.concatenate([none, 1 - r], 1)

    def first_half(x, y):
        return keras.ops.cast(x[:, None] * 0 + y[None, :] < 7, "float64")

    split = make(relation=first_half, relation_threshold=0.5, miner=GivenWeights(*weights))

    def graded(labels, x):
        return make(relation=degree).pairwise(labels, x, of_references, references)

    def as_two(labels, x):
        return split.pairwise(labels, x, np.arange(14.0), np.concatenate([references] * 2))

    expected = value_and_gradients(as_two, labels, X[:6])
    assert abs(expected[1]).max() > 1e-3
    assert_equal_outcomes(value_and_gradients(graded, labels, X[:6]), expected)


WRAPPERS = {
    "prefixes": lambda loss: losses.MatryoshkaLoss(loss, [2, 4]),
    "levels": losses.MultiLevelDistanceRegularization,
    "groups": lambda loss: losses.GroupedLoss(loss, 2),
    "sum": lambda loss: losses.WeightedSumLoss([loss, loss], [1.0, 0.5]),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_losses_around_a_loss_of_label_vectors(name):
    make = WRAPPERS[name]
    expected = value_and_gradients(make(losses.ContrastiveLoss()), CLASSES, X)
    wrapped = make(losses.ContrastiveLoss(relation="jaccard"))
    assert_equal_outcomes(value_and_gradients(wrapped, ONE_HOT, X), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "labels", "message"),
    [
        ({"relation": "any"}, CLASSES, r"takes label vectors \(B, C\).*labels of shape \(10,\)"),
        ({"relation": "any"}, TAGS[:4], r"labels of shape \(4, 5\) and embeddings of shape"),
        ({"relation": "any"}, 2 * TAGS, "must lie in 0 to 1, received 2"),
        ({"relation": "any"}, TAGS * np.nan, "must lie in 0 to 1, received nan"),
        ({"relation": degree}, np.full(10, np.inf), "Labels must be finite, received inf"),
        ({}, TAGS, "one-hot label is its argmax.*label vectors with relation='any'"),
    ],
)
def test_refuses_labels_that_do_not_fit(loss, labels, message):
    with pytest.raises(ValueError, match=message):
        losses.ContrastiveLoss(**loss)(labels, X)


def test_a_memory_refuses_label_vectors_of_other_columns():
    memory = losses.CrossBatchMemory(losses.ContrastiveLoss(relation="any"), 20, num_labels=3)
    with pytest.raises(ValueError, match=r"labels of 3 columns, received labels of shape \(10, 5"):
        memory(TAGS, X)


@pytest.mark.parametrize("relation", ["jaccard", degree])
def test_a_loss_keeps_its_relation(relation):
    loss = losses.TripletLoss(0.3, relation=relation, relation_threshold=0.25)
    config = keras.saving.serialize_keras_object(loss)
    restored = keras.saving.deserialize_keras_object(config)
    assert (restored.relation, restored.relation_threshold) == (relation, 0.25)


def test_a_learner_with_a_memory_of_tags_is_saved(tmp_path):
    loss = losses.CrossBatchMemory(losses.ContrastiveLoss(relation="jaccard"), 10, num_labels=5)
    learner = MetricLearner(keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]), loss)
    learner.compile("adam", **FEW_STEPS)
    learner.fit(X, TAGS, batch_size=5, shuffle=False, verbose=0)
    learner.save(tmp_path / "learner.keras")
    restored = keras.saving.load_model(tmp_path / "learner.keras").embedding_loss
    assert (restored.num_labels, restored.relation) == (5, "jaccard")
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(restored.memory_labels), TAGS)
