import numpy as np
import pytest
from gradients import examples, value_of
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_examples import with_weights
from scipy.spatial.distance import cdist, pdist
from scipy.special import log_softmax, softmax

from gsp_tf import losses


def cross_entropy(labels, logits):
    return -np.mean(log_softmax(logits, axis=1)[np.arange(len(labels)), labels])


def soft_triple(labels, cosines, centers_per_class, scale, gamma, tau, margin):
    """Without the term of tau, which is 0."""
    logits = np.empty((len(labels), cosines.shape[1] // centers_per_class))
    for i, label in np.ndindex(*logits.shape):
        own = cosines[i, label * centers_per_class :][:centers_per_class]
        logits[i, label] = scale * np.sum(softmax(own / gamma) * own)
        if labels[i] == label:
            logits[i, label] -= scale * margin
    return cross_entropy(labels, logits)


def arc_face(labels, cosines, margin_degrees, scale):
    margin, logits = np.radians(margin_degrees), scale * cosines
    for i, label in enumerate(labels):
        angle = np.arccos(cosines[i, label])
        within = angle + margin < np.pi
        logits[i, label] = scale * (
            np.cos(angle + margin) if within else cosines[i, label] - margin * np.sin(margin)
        )
    return cross_entropy(labels, logits)


# ProxyAnchorLoss is in tests/papers/test_multihead.py; test_virtual_class has those without a
# margin and with one centre per class.
DEFINITIONS = [
    (
        losses.SoftTripleLoss,
        soft_triple,
        {"centers_per_class": 3, "scale": 7.0, "gamma": 0.3, "tau": 0.0, "margin": 0.1},
    ),
    # Half of all angles lead beyond 180 degrees.
    (losses.ArcFaceLoss, arc_face, {"margin_degrees": 90.0, "scale": 5.0}),
]


def random_batch(rows, num_classes, columns, proxies_per_class, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, rows)
    proxies = rng.normal(size=(num_classes * proxies_per_class, columns))
    return labels, rng.normal(size=(rows, columns)), proxies


@pytest.mark.parametrize(("loss", "definition", "arguments"), DEFINITIONS)
@settings(max_examples=examples(12))
@given(
    rows=st.integers(1, 7),
    num_classes=st.integers(1, 9),
    columns=st.integers(2, 4),
    seed=st.integers(0, 1000),
)
def test_equals_the_definition(loss, definition, arguments, rows, num_classes, columns, seed):
    k = arguments.get("centers_per_class", 1)
    labels, embeddings, proxies = random_batch(rows, num_classes, columns, k, seed)
    loss = with_weights(loss(num_classes, dtype="float64", **arguments), proxies)
    value = value_of(loss, labels, embeddings)
    cosines = np.clip(1 - cdist(embeddings, proxies, "cosine"), -1, 1)
    expected = definition(labels, cosines, **arguments)
    assert value == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("centers_per_class", [1, 2, 5])
def test_soft_triple_adds_the_distances_between_the_centres_of_a_class(centers_per_class):
    labels, embeddings, proxies = random_batch(6, 3, 4, centers_per_class, seed=0)
    values = [
        value_of(with_weights(loss, proxies), labels, embeddings)
        for loss in (
            losses.SoftTripleLoss(3, centers_per_class, tau=tau, dtype="float64")
            for tau in (0.0, 0.7)
        )
    ]
    unit = proxies / np.linalg.norm(proxies, axis=1, keepdims=True)
    distances = [np.sum(pdist(centres)) for centres in unit.reshape(3, centers_per_class, -1)]
    num_pairs = max(centers_per_class * (centers_per_class - 1), 1)
    expected = 0.7 * np.sum(distances) / (3 * num_pairs)
    assert (expected > 0) == (centers_per_class > 1)
    assert values[1] - values[0] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_hybrid_is_multi_similarity_plus_weighted_proxy_anchor():
    rng = np.random.default_rng(0)
    labels, embeddings, proxies = rng.integers(0, 4, 9), *rng.normal(size=(2, 9, 3))
    arguments = {"alpha": 3.0, "beta": 20.0, "base": 0.4, "margin": 0.2, "proxy_alpha": 16.0}
    hybrid, anchor = (
        float(with_weights(loss, proxies[:4])(labels, embeddings))
        for loss in (
            losses.HybridLoss(4, **arguments, proxy_weight=0.4, dtype="float64"),
            losses.ProxyAnchorLoss(4, 0.2, 16.0, dtype="float64"),
        )
    )
    pairs = float(losses.MultiSimilarityLoss(3.0, 20.0, 0.4)(labels, embeddings))
    assert hybrid == pytest.approx(pairs + 0.4 * anchor, rel=1e-9)


LABELS = np.array([0, 0, 1, 2, 2, 1])
EMBEDDINGS = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")


@pytest.mark.parametrize(
    ("pair_loss", "k", "batch_weight"),
    [
        (losses.ContrastiveLoss(), 1, 0.3),
        (losses.MultiSimilarityLoss(), 3, 0.0),
        (losses.TripletLoss(1.0), 3, 0.3),
    ],
)
def test_samples_are_paired_with_proxies_class_by_class(pair_loss, k, batch_weight):
    loss = losses.ProxyPairsLoss(pair_loss, 3, k, batch_weight)
    value = float(loss(LABELS[:, None], EMBEDDINGS))
    proxies = loss.proxies.numpy()
    assert proxies.shape == (3 * k, 4)
    expected = pair_loss.pairwise(LABELS, EMBEDDINGS, np.arange(3 * k) // k, proxies)
    expected += batch_weight * pair_loss(LABELS, EMBEDDINGS)
    assert value == pytest.approx(float(expected), rel=1e-6)
