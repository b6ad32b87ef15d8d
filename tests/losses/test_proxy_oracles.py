import numpy as np
import pytest
from gradients import value_and_gradients
from loss_examples import with_weights

from gsp_tf import losses

# The key, the loss, and whether the proxies are columns there.
PYTORCH_METRIC_LEARNING = [
    ("proxy_anchor_0.1_32", losses.ProxyAnchorLoss, {"margin": 0.1, "alpha": 32}, False),
    ("proxy_nca_scale9.0909", losses.ProxyNCALoss, {"temperature": 0.11}, False),
    (
        "soft_triple_k4_la20_gamma0.1_margin0.01",
        losses.SoftTripleLoss,
        {"centers_per_class": 4, "scale": 20, "gamma": 0.1, "tau": 0, "margin": 0.01},
        True,
    ),
    ("normalized_softmax_t0.05", losses.NormalizedSoftmaxLoss, {"temperature": 0.05}, True),
    ("arcface_m28.6_s64", losses.ArcFaceLoss, {"margin_degrees": 28.6, "scale": 64}, True),
    ("cosface_0.35_64", losses.CosFaceLoss, {"margin": 0.35, "scale": 64}, True),
]
AUTHORS = [
    ("proxy_anchor_0.1_32", losses.ProxyAnchorLoss, {"margin": 0.1, "alpha": 32}),
    # They put cosine similarities in the exponent: half of the squared distances.
    ("proxy_nca_0.11", losses.ProxyNCALoss, {"temperature": 2 * 0.11}),
]


def assert_equals(actual, value, gradient, proxies_gradient):
    assert actual[0] == pytest.approx(value, rel=2e-4)
    for ours, theirs in zip(actual[1:], (gradient, proxies_gradient), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-5 * np.abs(theirs).max())


@pytest.mark.parametrize(("key", "loss", "arguments", "columns"), PYTORCH_METRIC_LEARNING)
def test_equals_pytorch_metric_learning(oracle, key, loss, arguments, columns):
    case = oracle("losses_pml")
    weights, gradient = case[f"{key}_weights"], case[f"{key}_grad_weights"]
    loss = with_weights(loss(6, **arguments), weights.T if columns else weights)
    actual = value_and_gradients(loss, case["labels"], case["embeddings"])
    assert_equals(
        actual, case[f"{key}_loss"], case[f"{key}_grad"], gradient.T if columns else gradient
    )


def tangent(unit, gradient):
    """What is left of the gradient of a unit vector that the loss normalises."""
    return gradient - np.sum(gradient * unit, axis=1, keepdims=True) * unit


@pytest.mark.parametrize(("key", "loss", "arguments"), AUTHORS)
def test_equals_the_authors_code(oracle, key, loss, arguments):
    case = oracle("losses_original")
    order = np.argsort(case[f"{key}_proxy_labels"])
    proxies, proxies_gradient = (
        case[f"{key}_{name}"][order] for name in ("proxies", "grad_proxies")
    )
    loss = with_weights(loss(6, **arguments), proxies)
    actual = value_and_gradients(loss, case["labels"], case["embeddings"])
    gradient = tangent(case["embeddings"], case[f"{key}_grad"])
    assert_equals(actual, case[f"{key}_loss"], gradient, proxies_gradient)
