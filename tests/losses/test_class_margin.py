import keras
import numpy as np
import pytest
from gradients import EAGERLY, assert_equals_differences, value_and_gradient, value_and_gradients
from loss_examples import with_weights

from gsp_tf.losses import (
    ClassMarginLoss,
    LpDistance,
    MarginLoss,
    Reduction,
)
from gsp_tf.training import MetricLearner, with_learning_rate_multipliers

BETAS = np.array([0.7, 1.0, 1.3])


def batch(rows=9, columns=4, seed=0):
    rng = np.random.default_rng(seed)
    return np.arange(rows) % 3, rng.normal(size=(rows, columns))


def defined_loss(labels, embeddings, betas, margin, nu):
    """The definition, over all triplets."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    distances = np.linalg.norm(unit[:, None] - unit, axis=2)
    total = count = 0.0
    for a, p, n in np.ndindex(*3 * [len(labels)]):
        if a != p and labels[a] == labels[p] != labels[n]:
            beta = betas[labels[a]]
            hinges = margin + distances[a, p] - beta, margin + beta - distances[a, n]
            total += nu * beta + sum(hinge for hinge in hinges if hinge > 0)
            count += sum(hinge > 0 for hinge in hinges)
    return total / count


@pytest.mark.parametrize("nu", [0.0, 0.3])
def test_equals_the_definition(nu):
    labels, embeddings = batch()
    loss = with_weights(ClassMarginLoss(3, 0.3, nu=nu, dtype="float64"), columns=4)
    loss.betas.assign(BETAS)
    value, *gradients = value_and_gradients(loss, labels, embeddings)
    assert value == pytest.approx(defined_loss(labels, embeddings, BETAS, 0.3, nu), rel=1e-9)
    assert_equals_differences(
        gradients, lambda x, b: defined_loss(labels, x, b, 0.3, nu), embeddings, BETAS, atol=1e-8
    )


def loss_over_pairs(labels, embeddings, beta, nu):
    """Mean over pairs with one boundary and a margin of 0.3."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    terms = []
    for a, b in np.ndindex(*2 * [len(labels)]):
        distance = np.linalg.norm(unit[a] - unit[b])
        hinge = 0.3 + (distance - beta if labels[a] == labels[b] else beta - distance)
        if a != b:
            terms.append(max(0, hinge) + nu * beta)
    return np.mean(terms)


@pytest.mark.parametrize("nu", [0.0, 0.3])
def test_one_boundary_and_one_mean_over_pairs(nu):
    labels, embeddings = batch()
    loss = ClassMarginLoss(3, 0.3, nu=nu, shared_beta=True, mean_over_pairs=True, dtype="float64")
    loss.build((None,), (None, 4))
    assert loss.betas.shape == (1,)
    loss.betas.assign([1.1])
    value, *gradients = value_and_gradients(loss, labels, embeddings)
    assert value == pytest.approx(loss_over_pairs(labels, embeddings, 1.1, nu), rel=1e-9)
    assert_equals_differences(
        gradients,
        lambda x, b: loss_over_pairs(labels, x, b[0], nu),
        embeddings,
        np.array([1.1]),
        atol=1e-8,
    )


@pytest.mark.parametrize("mean_over_pairs", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        {"reduction": "mean"},
        {"reduction": "none"},
        {"reduction": Reduction("mean_per_anchor", (1.0, 3.0, 0.5))},
        {"reduction": Reduction(thresholds=(0.1, 0.6)), "distance": "cosine"},
        {"distance": LpDistance(1.0), "normalize": False},
    ],
)
def test_takes_the_arguments_of_the_margin_loss(arguments, mean_over_pairs):
    labels, embeddings = batch()
    arguments = arguments | {"mean_over_pairs": mean_over_pairs}
    loss = ClassMarginLoss(3, 0.4, 0.875, dtype="float64", **arguments)
    loss = ClassMarginLoss.from_config(loss.get_config())
    expected = np.asarray(MarginLoss(0.4, 0.875, **arguments)(labels, embeddings))
    np.testing.assert_allclose(np.asarray(loss(labels, embeddings)), expected, rtol=1e-9)
    assert expected.any()


def test_boundaries_are_reduced_as_the_hinges_are():
    labels, embeddings = batch()
    values = [
        float(ClassMarginLoss(3, nu=nu, reduction="sum", dtype="float64")(labels, embeddings))
        for nu in (0.0, 0.3)
    ]
    num_triplets = 9 * 2 * 6
    assert values[1] - values[0] == pytest.approx(0.3 * 1.2 * num_triplets, rel=1e-6)


def test_equals_pytorch_metric_learning(oracle):
    case = oracle("losses_pml")
    labels, name = case["labels"], "margin_0.2_beta1.2"
    loss = ClassMarginLoss(int(labels.max()) + 1)
    value, gradient = value_and_gradient(loss, labels, case["embeddings"])
    assert float(value) == pytest.approx(float(case[f"{name}_loss"]), rel=1e-5)
    np.testing.assert_allclose(gradient, case[f"{name}_grad"], rtol=1e-3, atol=1e-6)


def test_zero_where_no_pair_violates_its_margin():
    embeddings = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    loss = ClassMarginLoss(2, margin=0.2, beta=1.0, nu=0.5)
    value, *gradients = value_and_gradients(loss, np.array([0, 0, 1, 1]), embeddings)
    assert value == 0
    assert not any(g.any() for g in gradients)


def test_boundaries_have_a_learning_rate_of_their_own():
    labels, embeddings = batch()
    moved = []
    for factor in (1.0, 5.0):
        keras.utils.set_random_seed(0)
        embedder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
        learner = MetricLearner(embedder, ClassMarginLoss(3))
        optimizer = with_learning_rate_multipliers(keras.optimizers.SGD(0.01), {"betas": factor})
        learner.compile(optimizer, run_eagerly=EAGERLY)
        learner.train_on_batch(embeddings, labels)
        moved.append(np.asarray(learner.embedding_loss.betas) - np.float32(1.2))
    np.testing.assert_allclose(moved[1], 5 * moved[0], rtol=1e-3)
    assert np.abs(moved[0]).min() > 1e-4
