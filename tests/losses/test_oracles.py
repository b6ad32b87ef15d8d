from functools import partial

import numpy as np
import pytest
from gradients import value_and_gradients
from loss_examples import with_weights

from gsp_tf import losses

# The GSP and CCP authors' code, and TensorFlow Addons; neither normalises the embeddings.
AUTHORS = {
    "contrastive_c2_0.2652_0.5409": partial(losses.ContrastiveLoss, 0.2652, 0.5409),
    "contrastive_c1_0.5": partial(losses.CosineContrastiveLoss, 0.5),
    "triplet_0.0961": partial(losses.TripletLoss, 0.0961),
    "multi_similarity_14.35_75.83_0.66": partial(losses.MultiSimilarityLoss, 14.35, 75.83, 0.66),
}
ADDONS = {"lifted_struct_1.0": partial(losses.LiftedStructureLoss, 1.0)}
DISTANCES = {"L2": "euclidean", "squared-L2": "squared_euclidean", "angular": "angular"}
for theirs, ours in DISTANCES.items():
    ADDONS[f"triplet_semihard_1.0_{theirs}"] = partial(losses.TripletSemiHardLoss, 1.0, ours)
    ADDONS[f"triplet_hard_1.0_{theirs}"] = partial(losses.TripletHardLoss, 1.0, ours)
PYTORCH_METRIC_LEARNING = {
    "contrastive_0.2652_0.5409": losses.ContrastiveLoss(0.2652, 0.5409),
    "triplet_margin_0.0961": losses.TripletLoss(0.0961),
    "multi_similarity_14.35_75.83_0.66": losses.MultiSimilarityLoss(14.35, 75.83, 0.66),
    "margin_0.2_beta1.2": losses.MarginLoss(0.2, 1.2),
    "n_pairs": losses.NPairsLoss(),
    "lifted_structure_0_1": losses.LiftedStructureLoss(1.0),
    "angular_40": losses.AngularLoss(40.0),
    "circle_0.4_80": losses.CircleLoss(0.4, 80.0),
    "supcon_0.1": losses.SupervisedContrastiveLoss(0.1),
    "fast_ap_10": losses.FastAPLoss(10),
}
CASES = [("pml", key, loss) for key, loss in PYTORCH_METRIC_LEARNING.items()]
CASES += [("original", key, make(normalize=False)) for key, make in AUTHORS.items()]
CASES += [("addons", key, make(normalize=False)) for key, make in ADDONS.items()]
PROXY_LOSSES = {
    "proxy_anchor_0.1_32": partial(losses.ProxyAnchorLoss, margin=0.1, alpha=32),
    "proxy_nca_scale9.0909": partial(losses.ProxyNCALoss, temperature=0.11),
    "soft_triple_k4_la20_gamma0.1_margin0.01": partial(
        losses.SoftTripleLoss, centers_per_class=4, scale=20, gamma=0.1, tau=0, margin=0.01
    ),
    "normalized_softmax_t0.05": partial(losses.NormalizedSoftmaxLoss, temperature=0.05),
    "arcface_m28.6_s64": partial(losses.ArcFaceLoss, margin_degrees=28.6, scale=64),
    "cosface_0.35_64": partial(losses.CosFaceLoss, margin=0.35, scale=64),
}
PROXY_LOSSES_OF_AUTHORS = {
    "proxy_anchor_0.1_32": PROXY_LOSSES["proxy_anchor_0.1_32"],
    # They put cosine similarities in the exponent: half of the squared distances.
    "proxy_nca_0.11": partial(losses.ProxyNCALoss, temperature=2 * 0.11),
}


def assert_equals(found, *expected):
    """A value and its gradients."""
    assert found[0] == pytest.approx(expected[0], rel=2e-4)
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-5 * np.abs(theirs).max())


def tangent(unit, gradient):
    """What is left of the gradient of a unit vector that the loss normalises."""
    return gradient - np.sum(gradient * unit, axis=1, keepdims=True) * unit


@pytest.mark.parametrize(("name", "key", "loss"), CASES, ids=["-".join(case[:2]) for case in CASES])
def test_equals_other_programs(oracle, name, key, loss):
    case = oracle(f"losses_{name}")
    embeddings, expected, expected_gradient = (
        case[k].astype("float64") for k in ("embeddings", f"{key}_loss", f"{key}_grad")
    )
    if key == "contrastive_c1_0.5":
        # The authors take 1e-5 from every positive term of an anchor before they sum.
        positives = np.sum(case["labels"][:, None] == case["labels"], axis=1) - 1
        expected = expected + 1e-5 * np.mean(positives)
    if key == "angular_40":
        # There the negatives are not normalised, so that their gradient has a radial part.
        unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
        radial = expected_gradient - tangent(unit, expected_gradient)
        assert np.abs(radial).max() > 1e-3
        expected_gradient = expected_gradient - radial
    found = value_and_gradients(loss, case["labels"], case["embeddings"])
    assert_equals(found, expected, expected_gradient)


@pytest.mark.parametrize("key", PROXY_LOSSES)
def test_proxy_losses_equal_pytorch_metric_learning(oracle, key):
    case = oracle("losses_pml")
    weights, gradient = case[f"{key}_weights"], case[f"{key}_grad_weights"]
    if not key.startswith("proxy"):  # the proxies are columns there
        weights, gradient = weights.T, gradient.T
    loss = with_weights(PROXY_LOSSES[key](6), weights)
    actual = value_and_gradients(loss, case["labels"], case["embeddings"])
    assert_equals(actual, case[f"{key}_loss"], case[f"{key}_grad"], gradient)


@pytest.mark.parametrize("key", PROXY_LOSSES_OF_AUTHORS)
def test_proxy_losses_equal_the_authors_code(oracle, key):
    case = oracle("losses_original")
    order = np.argsort(case[f"{key}_proxy_labels"])
    proxies, proxies_gradient = (
        case[f"{key}_{name}"][order] for name in ("proxies", "grad_proxies")
    )
    loss = with_weights(PROXY_LOSSES_OF_AUTHORS[key](6), proxies)
    actual = value_and_gradients(loss, case["labels"], case["embeddings"])
    gradient = tangent(case["embeddings"], case[f"{key}_grad"])
    assert_equals(actual, case[f"{key}_loss"], gradient, proxies_gradient)
