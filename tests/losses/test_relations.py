"""Losses of label vectors, such as multi-hot tags."""

from functools import partial

import keras
import numpy as np
import pytest
from gradients import BACKEND, compiled, finite_differences, recorded, value_and_gradients
from loss_examples import EVERY_PAIR_LOSS

from gsp_tf import losses
from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.training import MetricLearner, RetrievalEvaluation

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


@pytest.mark.parametrize("name", OF_LABELS)
def test_vectors_of_one_class_give_the_numbers_of_classes(name):
    make = EVERY_PAIR_LOSS[name]
    expected = value_and_gradients(make(), CLASSES, X)
    assert expected[0] != 0
    relations = ["any", *(["jaccard", "cosine"] if name in GRADED else [])]
    for relation in relations:
        found = value_and_gradients(make(relation=relation), ONE_HOT, X)
        assert_equal_outcomes(found, expected)


class Given(losses.Miner):
    def __init__(self, positives, negatives):
        self.weights = positives, negatives

    def __call__(self, pairs):
        return self.weights


def degree(x, y):
    """A relation of labels in 0 to 1, of our own."""
    return keras.ops.exp(-2.0 * keras.ops.abs(x[:, None] - y[None, :]))


def first_half(x, y):
    return keras.ops.cast(x[:, None] * 0 + y[None, :] < 7, "float64")


@pytest.mark.parametrize("name", GRADED)
def test_a_graded_pair_is_a_share_of_a_positive_and_of_a_negative(name):
    """Equal to references that come twice: as positives of weight r, as negatives of 1 - r."""
    make = EVERY_PAIR_LOSS[name]
    labels, of_references = RNG.random(6), RNG.random(7)
    references = RNG.normal(size=(7, 4))
    r = np.exp(-2.0 * np.abs(labels[:, None] - of_references))
    none = np.zeros_like(r)
    weights = np.concatenate([r, none], 1), np.concatenate([none, 1 - r], 1)
    split = make(relation=first_half, relation_threshold=0.5, miner=Given(*weights))

    def graded(labels, x):
        return make(relation=degree).pairwise(labels, x, of_references, references)

    def as_two(labels, x):
        return split.pairwise(labels, x, np.arange(14.0), np.concatenate([references] * 2))

    expected = value_and_gradients(as_two, labels, X[:6])
    assert abs(expected[1]).max() > 1e-3
    assert_equal_outcomes(value_and_gradients(graded, labels, X[:6]), expected)


@pytest.mark.parametrize("name", GRADED)
def test_gradient_of_graded_pairs_equals_differences(name):
    if name == "circle":
        pytest.skip("Its factors have no gradient; test_definitions compares them.")
    loss = EVERY_PAIR_LOSS[name](relation="jaccard")
    _, found = value_and_gradients(loss, TAGS[:6], X[:6])
    run = compiled(loss, True if BACKEND == "jax" else None)
    (expected,) = finite_differences(partial(run, TAGS[:6]), X[:6])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


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


@pytest.mark.parametrize("make", [losses.MultiSimilarityLoss, losses.CosineContrastiveLoss])
@pytest.mark.parametrize("batch_weight", [0.0, 1.0])
def test_a_memory_holds_label_vectors(make, batch_weight):
    """Equal to the loss with all batches so far, when the memory has room for them."""
    loss = make(relation="jaccard")
    memory = losses.CrossBatchMemory(
        loss, 20, batch_weight=batch_weight, num_labels=5, dtype="float64"
    )
    memory.build((None, 5), (None, 4))
    assert memory.memory_labels.shape == (20, 5)
    run = compiled(partial(recorded, memory), True if BACKEND == "jax" else None, memory.variables)
    tags = (RNG.random((30, 5)) < 0.4).astype("float64")
    x = RNG.normal(size=(30, 4))
    for stop in range(5, 31, 5):  # the last two overwrite the first two
        now, before = slice(stop - 5, stop), slice(max(0, stop - 20), stop - 5)
        rows = np.r_[now, before]

        def expected_of(labels, embeddings, before=before, rows=rows):
            constant = np.concatenate([x[rows[:5]], x[before]])
            total = loss.pairwise(labels, embeddings, tags[rows], constant, exclude_self=True)
            return total + batch_weight * loss(labels, embeddings)

        value, gradient = run(*map(keras.ops.convert_to_tensor, (tags[now], x[now])))
        expected = value_and_gradients(expected_of, tags[now], x[now])
        assert_equal_outcomes(
            (float(value), np.asarray(keras.ops.convert_to_numpy(gradient))), expected
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.NPairsLoss(relation="any"), "fixes its relation, received relation='any'"),
        (lambda: losses.ContrastiveLoss(relation="tags"), "relation must be one of equal, any, ja"),
        (
            lambda: losses.TripletLoss(relation="cosine"),
            "TripletLoss takes pairs that are either positive or negative.*relation_threshold",
        ),
        (
            lambda: losses.ContrastiveLoss(relation="jaccard", miner=losses.HardNegativeMiner()),
            "HardNegativeMiner takes pairs that are either positive or negative",
        ),
        (
            lambda: losses.ContrastiveLoss(relation="any", relation_threshold=1.0),
            "at least 0 and below 1.*received 1.0 with relation='any'",
        ),
        (
            lambda: losses.ContrastiveLoss(relation_threshold=0.5),
            "belongs to label vectors; received 0.5 with relation='equal'",
        ),
        (
            lambda: losses.ContrastiveLoss(relation="any", class_weights=[1, 2]),
            "class_weights belong to relation='equal', received relation='any'",
        ),
        (
            lambda: losses.CrossBatchMemory(losses.ContrastiveLoss(relation="any"), 9),
            "relation='any' compares label vectors .* give num_labels",
        ),
        (
            lambda: losses.CrossBatchMemory(losses.ContrastiveLoss(), 9, num_labels=4),
            "num_labels must be at least 1, and belongs to .*received 4 with relation='equal'",
        ),
        *(
            (partial(make, losses.ContrastiveLoss(relation="any")), "takes a loss with relation=")
            for make in (
                partial(losses.ProxyPairsLoss, num_classes=4),
                losses.SelfSupervisedLoss,
                losses.SimilarityMixup,
            )
        ),
    ],
)
def test_refuses_what_has_no_meaning(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("loss", "labels", "message"),
    [
        ({"relation": "any"}, CLASSES, r"takes label vectors \(B, C\).*labels of shape \(10,\)"),
        (
            {"relation": "any"},
            TAGS[:4],
            r"labels of shape \(4, 5\) and embeddings of shape \(10, 4",
        ),
        ({"relation": "any"}, TAGS[:, :0], r"labels of shape \(10, 0\)"),
        ({"relation": "any"}, 2 * TAGS, "must lie in 0 to 1, received 2"),
        ({"relation": "any"}, TAGS - 0.5, "must lie in 0 to 1, received -0.5"),
        ({"relation": "any"}, TAGS * np.nan, "must lie in 0 to 1, received nan"),
        ({"relation": "any"}, None, "Labels must be numbers, received None"),
        ({"relation": degree}, CLASSES / 0.0, "Labels must be finite, received"),
        ({"relation": degree}, TAGS[:, None], r"takes labels \(B,\) or \(B, C\)"),
        ({}, TAGS, "one-hot label is its argmax.*label vectors with relation='any'"),
    ],
)
def test_refuses_labels_that_do_not_fit(loss, labels, message):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
        losses.ContrastiveLoss(**loss)(labels, X)


def test_other_losses_say_that_they_take_classes():
    for loss in (losses.ProxyAnchorLoss(4), losses.ClassMarginLoss(4)):
        with pytest.raises(ValueError, match=r"takes integer labels \(B,\).*shape \(10, 4\)"):
            loss(ONE_HOT, X)
    memory = losses.CrossBatchMemory(losses.ContrastiveLoss(relation="any"), 20, num_labels=3)
    with pytest.raises(ValueError, match=r"labels of 3 columns, received labels of shape \(10, 5"):
        memory(TAGS, X)


@keras.saving.register_keras_serializable("tests")
def near(x, y):
    return degree(x, y)


@pytest.mark.parametrize("relation", ["jaccard", near])
def test_a_loss_keeps_its_relation(relation):
    loss = losses.TripletLoss(0.3, relation=relation, relation_threshold=0.25)
    config = keras.saving.serialize_keras_object(loss)
    restored = keras.saving.deserialize_keras_object(config)
    assert (restored.relation, restored.relation_threshold) == (relation, 0.25)


def tagged_images(seed, count=64):
    """Images that are the sum of the patterns of their tags, and noise."""
    patterns = np.random.default_rng(7).normal(size=(6, 12))
    rng = np.random.default_rng(seed)
    tags = rng.random((count, 6)) < 0.25
    tags[np.arange(count), rng.integers(0, 6, count)] = True
    images = tags @ patterns + rng.normal(size=(count, 12))
    return images.astype("float32"), tags.astype("float32")


def embedder():
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((12,)), keras.layers.Dense(6)])


@pytest.mark.parametrize("kind", ["compile", "learner", "memory"])
def test_training_with_tags_ranks_images_with_shared_tags_first(kind, tmp_path):
    images, tags = tagged_images(0)
    test = tagged_images(1)
    loss = losses.MultiSimilarityLoss(relation="jaccard", beta=10.0)
    model = network = embedder()
    before = retrieval_metrics(network.predict(test[0], verbose=0), test[1], relation="any")
    arguments = {"optimizer": keras.optimizers.Adam(0.02), "jit_compile": BACKEND == "jax"}
    if kind == "compile":
        model.compile(loss=loss, **arguments)
        model.fit(images, tags, epochs=15, batch_size=32, verbose=0)
        after = retrieval_metrics(network.predict(test[0], verbose=0), test[1], relation="any")
        after = after["map_at_r"]
    else:
        if kind == "memory":
            loss = losses.CrossBatchMemory(loss, 64, batch_weight=1.0, num_labels=6)
        model = MetricLearner(network, loss)
        model.compile(**arguments)
        evaluation = RetrievalEvaluation(test, relation="any")
        history = model.fit(
            **batches_of(images, tags), epochs=15, callbacks=[evaluation], verbose=0
        )
        after = history.history["val_map_at_r"][-1]
        model.save(tmp_path / "learner.keras")
        restored = keras.saving.load_model(tmp_path / "learner.keras")
        assert restored.embedding_loss.relation == "jaccard"
        if kind == "memory":
            assert np.asarray(restored.embedding_loss.memory_labels).tolist() == tags.tolist()
    assert after > before["map_at_r"] + 0.1, (before, after)


def batches_of(images, tags):
    """Arguments of `fit`: images and tags, by tf.data where there is TensorFlow."""
    if BACKEND != "tensorflow":
        return {"x": images, "y": tags, "batch_size": 32, "shuffle": False}
    import tensorflow as tf

    return {"x": tf.data.Dataset.from_tensor_slices((images, tags)).batch(32)}
