from functools import partial

import numpy as np
import pytest
from gradients import compiled, value_and_gradients
from keras import ops
from loss_examples import with_weights

from gsp_tf import losses

LABELS = np.array([3, 17, 3, 8, 0, 17, 17, 5, 3], "int32")


def batch(num_proxies, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(len(LABELS), 4)), rng.normal(size=(num_proxies, 4))


def sampled(loss, labels=LABELS):
    """Sorted classes of the next sample of a loss, and the class of each label's place."""
    found = loss.sampled_classes(ops.convert_to_tensor(labels))
    classes, is_class, places = map(ops.convert_to_numpy, found)
    assert is_class[places].all()
    return np.sort(classes[is_class]), classes[places]


@pytest.mark.parametrize("k", [1, 3])
def test_is_the_cross_entropy_over_the_sample(k):
    embeddings, proxies = batch(20 * k)
    inner = losses.SubCenterArcFaceLoss(20, 20.0, 8.0, centers_per_class=k, dtype="float64")
    loss, twin = (losses.PartialFC(inner, 0.4, seed=5, dtype="float64") for _ in range(2))
    with_weights(loss, proxies)
    for _ in range(3):
        value, _, gradient = value_and_gradients(loss, LABELS, embeddings)
        classes, _ = sampled(twin)
        unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (embeddings, proxies)]
        cosines = (unit[0] @ unit[1].T).reshape(len(LABELS), 20, k).max(axis=2)
        terms = []
        for row, label in zip(cosines, LABELS, strict=True):
            moved = np.cos(np.arccos(row) + np.radians(20.0) * (np.arange(20) == label))
            exponents = np.exp(8 * moved)
            terms.append(-np.log(exponents[label] / exponents[classes].sum()))
        assert value == pytest.approx(np.mean(terms), rel=1e-9)
        moves = np.any(gradient.reshape(20, -1) != 0, axis=1)
        np.testing.assert_array_equal(np.flatnonzero(moves), classes)


@pytest.mark.parametrize(
    ("make", "jit_compile"),
    [
        (partial(losses.ArcFaceLoss, 20), False),
        (partial(losses.SubCenterArcFaceLoss, 20, centers_per_class=2), True),
        (partial(losses.SoftTripleLoss, 20, 3, tau=0.5), False),
        (partial(losses.CosFaceLoss, 20, reduction=losses.Reduction("sum", range(20))), False),
    ],
)
def test_with_all_classes_it_is_the_loss(make, jit_compile):
    inner = make(dtype="float64")
    embeddings, proxies = batch(20 * inner.proxies_per_class)
    loss = with_weights(losses.PartialFC(inner, 1.0, dtype="float64"), proxies)
    found = value_and_gradients(loss, LABELS, embeddings, jit_compile)
    for ours, expected in zip(found, value_and_gradients(inner, LABELS, embeddings), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.3, 0.45, 1.0])
@pytest.mark.parametrize("labels", [LABELS, LABELS[:1], 0 * LABELS, np.arange(20, dtype="int32")])
def test_holds_every_class_of_the_batch_and_none_twice(rate, labels):
    loss = losses.PartialFC(losses.CosFaceLoss(20), rate, seed=1)
    for _ in range(5):
        classes, own = sampled(loss, labels)
        np.testing.assert_array_equal(own, labels)
        assert len(set(classes)) == len(classes) == max(round(20 * rate), 1, len(set(labels)))
        assert classes.min() >= 0 and classes.max() < 20


def test_others_are_drawn_uniformly_and_by_the_seed():
    draws = []
    for seed, count in ((4, 600), (4, 20), (40, 20)):
        loss = losses.PartialFC(losses.CosFaceLoss(20), 0.5, seed=seed)
        draw = compiled(
            lambda loss=loss: loss.sampled_classes(ops.convert_to_tensor(LABELS))[:2],
            False,
            [loss.seed_generator.state],
        )
        pairs = [map(ops.convert_to_numpy, draw()) for _ in range(count)]
        draws.append(np.array([np.isin(np.arange(20), c[is_class]) for c, is_class in pairs]))
    np.testing.assert_array_equal(draws[0][:20], draws[1])
    assert not np.array_equal(draws[1], draws[2])
    # 5 of the 15 classes that the batch does not have; five standard errors.
    others = np.delete(draws[0], LABELS, axis=1)
    assert np.all(others.sum(axis=1) == 5) and others.shape[1] == 15
    error = 5 * np.sqrt(1 / 3 * 2 / 3 / 600)
    np.testing.assert_allclose(others.mean(axis=0), 1 / 3, atol=error)
    # Pairs too: which classes are drawn together changes from step to step.
    together = (others.T @ others.astype(float) / 600)[~np.eye(15, dtype=bool)]
    np.testing.assert_allclose(together, 5 * 4 / (15 * 14), atol=error)


@pytest.mark.tensorflow
def test_the_gradient_holds_the_sample_alone():
    import tensorflow as tf

    loss = with_weights(losses.PartialFC(losses.ArcFaceLoss(1000), 0.02, seed=5), columns=4)
    embeddings, _ = batch(20)

    @tf.function(autograph=False)
    def gradient():
        with tf.GradientTape() as tape:
            value = loss(LABELS, embeddings.astype("float32"))
        return tape.gradient(value, loss.proxies.value)

    found = gradient()
    assert isinstance(found, tf.IndexedSlices) and found.values.shape == (len(LABELS) + 20, 4)
    reads = {op.type for op in gradient.get_concrete_function().graph.get_operations()}
    assert "ResourceGather" in reads  # of the rows, and not of the matrix


def test_evaluation_counts_all_classes():
    inner = with_weights(losses.CosFaceLoss(20), columns=4)
    loss, (embeddings, _) = losses.PartialFC(inner, 0.2, seed=5), batch(20)
    embeddings = embeddings.astype("float32")
    whole = float(inner(LABELS, embeddings))
    assert float(loss(LABELS, embeddings, training=False)) == whole
    assert float(loss(LABELS, embeddings)) < whole
