"""Losses over prefixes: sums of the loss on normalised prefixes, through every door."""

import numpy as np
import pytest
from gradients import value_and_gradients
from loss_examples import PAIR_LOSSES, with_weights

from gsp_tf import losses

LABELS = np.arange(8) % 4
EMBEDDINGS = np.random.default_rng(0).normal(size=(8, 6))
DIMS, WEIGHTS = (2, 3, 6), (0.5, 2.0, 1.0)

PROXY_LOSSES = {
    "proxy_anchor": lambda: losses.ProxyAnchorLoss(4, dtype="float64"),
    "soft_triple": lambda: losses.SoftTripleLoss(4, 3, tau=0.7, dtype="float64"),
    "hybrid": lambda: losses.HybridLoss(4, dtype="float64"),
    "pairs": lambda: losses.ProxyPairsLoss(
        losses.ContrastiveLoss(0.1, 1.2), 4, 2, 0.3, dtype="float64"
    ),
}


@pytest.mark.parametrize("name", ["angular", "circle", "fast_ap", "triplet_hard"])
def test_is_the_sum_of_a_pair_loss_on_prefixes(name):
    inner = PAIR_LOSSES[name]()
    loss = losses.MatryoshkaLoss(inner, DIMS, WEIGHTS, dtype="float64")
    value, gradient = value_and_gradients(loss, LABELS, EMBEDDINGS)
    total, expected = 0.0, np.zeros_like(EMBEDDINGS)
    for m, weight in zip(DIMS, WEIGHTS, strict=True):
        part, of_prefix = value_and_gradients(inner, LABELS, EMBEDDINGS[:, :m])
        total += weight * part
        expected[:, :m] += weight * of_prefix
    assert value == pytest.approx(total, rel=1e-9) and loss.weights == []
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", PROXY_LOSSES)
def test_is_the_sum_of_a_proxy_loss_on_prefixes_of_embeddings_and_proxies(name):
    """Of values and gradients; what a proxy gets is the sum of what its prefixes get."""
    loss = with_weights(
        losses.MatryoshkaLoss(PROXY_LOSSES[name](), DIMS, WEIGHTS, dtype="float64"), columns=6
    )
    (proxies,) = (weight.numpy() for weight in loss.trainable_weights)
    value, *gradients = value_and_gradients(loss, LABELS, EMBEDDINGS)
    total, expected = 0.0, [np.zeros_like(EMBEDDINGS), np.zeros_like(proxies)]
    for m, weight in zip(DIMS, WEIGHTS, strict=True):
        alone = with_weights(PROXY_LOSSES[name](), proxies[:, :m])
        part, *found = value_and_gradients(alone, LABELS, EMBEDDINGS[:, :m])
        total += weight * part
        for whole, prefix in zip(expected, found, strict=True):
            whole[:, :m] += weight * prefix
    assert value == pytest.approx(total, rel=1e-9)
    for ours, theirs in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-10)


def test_references_are_cut_too():
    """The door of the memory, of learned proxies and of CCP."""
    inner = losses.ContrastiveLoss(0.1, 1.3, miner=losses.MultiSimilarityMiner())
    loss = losses.MatryoshkaLoss(inner, DIMS, dtype="float64")
    references, reference_labels = np.random.default_rng(1).normal(size=(5, 6)), [0, 1, 2, 3, 0]
    found = float(loss.pairwise(LABELS, EMBEDDINGS, reference_labels, references))
    parts = [
        inner.pairwise(LABELS, EMBEDDINGS[:, :m], reference_labels, references[:, :m]) for m in DIMS
    ]
    assert found == pytest.approx(sum(map(float, parts)), rel=1e-9)


@pytest.mark.parametrize("dims", [[2, 5], [2, 7]])
def test_the_last_prefix_is_the_embedding(dims):
    message = r"last of dims must be the dimension of the embeddings, 6; received dims=\(2, "
    for loss in (losses.ContrastiveLoss(), losses.ProxyAnchorLoss(4)):
        with pytest.raises(ValueError, match=message):
            losses.MatryoshkaLoss(loss, dims)(LABELS, EMBEDDINGS)
    with pytest.raises(ValueError, match=message):
        losses.MatryoshkaLoss(losses.ContrastiveLoss(), dims).pairwise(
            LABELS, EMBEDDINGS, LABELS, EMBEDDINGS
        )
    memory = losses.CrossBatchMemory(losses.MatryoshkaLoss(losses.ContrastiveLoss(), dims), 20)
    with pytest.raises(ValueError, match=message):
        memory(LABELS, EMBEDDINGS)
