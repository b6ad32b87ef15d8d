import numpy as np
import pytest
from gradients import assert_equals_differences, value_and_gradients
from loss_examples import with_weights

from gsp_tf.losses import ClassMarginLoss, LpDistance, MarginLoss, Reduction

LABELS, X = np.arange(9) % 3, np.random.default_rng(0).normal(size=(9, 4))
BETAS = np.array([0.7, 1.0, 1.3])


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
    loss = with_weights(ClassMarginLoss(3, 0.3, nu=nu, dtype="float64"), columns=4)
    loss.betas.assign(BETAS)
    value, *gradients = value_and_gradients(loss, LABELS, X)
    assert value == pytest.approx(defined_loss(LABELS, X, BETAS, 0.3, nu), rel=1e-9)
    assert_equals_differences(
        gradients, lambda x, b: defined_loss(LABELS, x, b, 0.3, nu), X, BETAS, atol=1e-8
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
    arguments = arguments | {"mean_over_pairs": mean_over_pairs}
    loss = ClassMarginLoss(3, 0.4, 0.875, dtype="float64", **arguments)
    loss = ClassMarginLoss.from_config(loss.get_config())
    expected = np.asarray(MarginLoss(0.4, 0.875, **arguments)(LABELS, X))
    np.testing.assert_allclose(np.asarray(loss(LABELS, X)), expected, rtol=1e-9)
    assert expected.any()


@pytest.mark.parametrize(
    ("arguments", "terms", "boundaries"),
    [
        ({"reduction": "sum"}, 9 * 2 * 6, 3),
        ({"mean_over_pairs": True}, 1, 3),
        ({"mean_over_pairs": True, "shared_beta": True}, 1, 1),
    ],
)
def test_boundaries_are_reduced_as_the_hinges_are(arguments, terms, boundaries):
    losses = [ClassMarginLoss(3, nu=nu, **arguments, dtype="float64") for nu in (0.0, 0.3)]
    (value, *_), (with_nu, *_, gradient) = (value_and_gradients(loss, LABELS, X) for loss in losses)
    assert losses[0].betas.shape == (boundaries,) == gradient.shape
    assert with_nu - value == pytest.approx(0.3 * 1.2 * terms, rel=1e-6)
