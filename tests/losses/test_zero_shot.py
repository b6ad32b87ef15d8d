from typing import get_args

import numpy as np
import pytest
from gradients import examples, value_and_gradients, value_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax
from sklearn.linear_model import Ridge

from gsp_tf.losses import ZeroShotLoss
from gsp_tf.losses.zero_shot import _Reduction


def loss_with(class_embeddings, dtype="float32", **arguments):
    loss = ZeroShotLoss(*class_embeddings.shape, dtype=dtype, **arguments)
    loss.build((None,), (None, 1))
    loss.class_embeddings.assign(class_embeddings)
    return loss


def batch(labels, attributes=4, classes=6, dim=5, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.asarray(labels)
    z = rng.dirichlet(np.ones(attributes), size=len(labels))
    return labels, z, rng.normal(size=(classes, dim))


def defined_loss(labels, attributes, class_embeddings, ridge, scale, reduction="mean"):
    """The definition, with scikit-learn's regression."""
    classes = list(dict.fromkeys(labels.tolist()))
    if len(classes) < 2:
        return 0.0
    halves = [np.isin(labels, classes[start::2]) for start in (0, 1)]
    losses = []
    for fit, test in (halves, halves[::-1]):
        regression = Ridge(alpha=ridge, fit_intercept=False)
        regression.fit(attributes[fit], class_embeddings[labels[fit]])
        logits = scale * regression.predict(attributes[test]) @ class_embeddings.T
        losses.append(-log_softmax(logits, axis=1)[np.arange(test.sum()), labels[test]])
    return np.mean(np.concatenate(losses)) if reduction == "mean" else sum(map(np.mean, losses))


@pytest.mark.parametrize(("k", "jit_compile"), [(0, False), (1, False), (0, True)])
def test_equals_the_authors_equations(oracle, k, jit_compile):
    case = {key[3:]: v for key, v in oracle("zero_shot_loss").items() if key.startswith(f"z{k}_")}
    loss = loss_with(
        case["class_embeddings"], ridge=float(case["ridge"]), scale=float(case["scale"])
    )
    value, gradient, embeddings_gradient = value_and_gradients(
        loss, case["labels"], case["attributes"], jit_compile
    )
    assert value == pytest.approx(case["loss"], rel=2e-4)
    for ours, theirs in (
        (gradient, case["grad_attributes"]),
        (embeddings_gradient, case["grad_class_embeddings"]),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-5 * np.abs(theirs).max())


@settings(max_examples=examples(20))
@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=15),
    ridge=st.sampled_from([1e-3, 0.05, 10.0]),
    scale=st.sampled_from([0.0, 1.0, 9.5]),
    reduction=st.sampled_from(get_args(_Reduction)),
    seed=st.integers(0, 1000),
)
def test_equals_the_definition(labels, ridge, scale, reduction, seed):
    labels, attributes, class_embeddings = batch(labels, seed=seed)
    arguments = {"ridge": ridge, "scale": scale, "reduction": reduction}
    loss = loss_with(class_embeddings, "float64", **arguments)
    expected = defined_loss(labels, attributes, class_embeddings, **arguments)
    assert value_of(loss, labels, attributes) == pytest.approx(expected, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("labels", [[0, 1, 1, 2], [2, 2, 2, 2]])
@pytest.mark.parametrize(
    "attributes",
    [np.zeros((4, 3)), np.ones((4, 3)) / 3, 1e4 * np.eye(4, 3), 1e-7 * np.ones((4, 3))],
)
def test_finite_for_degenerate_batches(labels, attributes):
    labels, _, class_embeddings = batch(labels)
    value, *gradients = value_and_gradients(
        loss_with(class_embeddings), labels, attributes.astype("float32")
    )
    assert np.isfinite(value) and all(np.isfinite(g).all() for g in gradients)
