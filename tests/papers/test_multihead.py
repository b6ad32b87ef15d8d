"""The equations of "Multi-Head Deep Metric Learning Using Global and Local Representations".

Ebrahimpour, Qian, Beach, WACV 2022. The functions below are written from the paper, in its symbols:
maps f are `(H, W, C)`, X are samples and P proxies.
"""

import re
import shlex
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops
from printed import assert_as_printed

from gsp_tf.layers import GlobalLocalEmbedding, SecondOrderAttention
from gsp_tf.losses import HybridLoss, MultiSimilarityLoss, ProxyAnchorLoss
from gsp_tf.recipe import load_recipe

EXPERIMENTS = Path(__file__).parents[2] / "experiments"

ZETA = 1.0
ALPHA, DELTA = 32.0, 0.1
GAMMA, BETA, SIGMA = 2.0, 50.0, 1.0
LAMBDA = 0.03
LABELS = np.array([0, 0, 1, 1, 3])  # a class with one sample, and class 2 without any


def attention_map(f, w):
    """Eq. 1: a of all places, row by row."""
    flat = f.reshape(-1, f.shape[-1])
    q = [w["query/kernel"].T @ x + w["query/bias"] for x in flat]
    k = [w["key/kernel"].T @ x + w["key/bias"] for x in flat]
    a = np.zeros((len(flat), len(flat)))
    for i in range(len(flat)):
        scores = np.array([ZETA * q[i] @ k[j] for j in range(len(flat))])
        a[i] = np.exp(scores) / np.sum(np.exp(scores))
    return a


def second_order_map(f, w):
    """Eq. 2: f_soa."""
    a, flat = attention_map(f, w), f.reshape(-1, f.shape[-1])
    v = np.array([w["value/kernel"].T @ x + w["value/bias"] for x in flat])
    f_soa = np.array([flat[i] + phi(a[i] @ v, w) for i in range(len(flat))])
    return f_soa.reshape(f.shape)


def phi(x, w):
    return w["psi/kernel"].T @ x + w["psi/bias"]


def pooled(f_soa):
    """Eq. 4."""
    height, width, channels = f_soa.shape
    f = np.zeros(channels)
    for c in range(channels):
        values = [f_soa[i, j, c] for i in range(height) for j in range(width)]
        f[c] = sum(values) / (width * height) + max(values)
    return f


def cosine(x, y):
    return x @ y / np.sqrt((x @ x) * (y @ y))


def proxy_loss(X, P, labels, num_negative=None):
    """Eq. 5, where P⁻ are the proxies that have a negative sample, or counts `num_negative`."""
    positive, negative = [], []
    for c, p in enumerate(P):
        own = [cosine(x, p) for x, y in zip(X, labels, strict=True) if y == c]
        others = [cosine(x, p) for x, y in zip(X, labels, strict=True) if y != c]
        if own:
            positive.append(np.log(1 + sum(np.exp(-ALPHA * (s - DELTA)) for s in own)))
        if others:
            negative.append(np.log(1 + sum(np.exp(ALPHA * (s + DELTA)) for s in others)))
    return sum(positive) / len(positive) + sum(negative) / (num_negative or len(negative))


def pair_loss(X, labels, sign=-1.0):
    """Eq. 6; the sign of σ in the exponent of the negatives is printed as +."""
    total = 0.0
    for i in range(len(X)):
        P_i = [k for k in range(len(X)) if k != i and labels[k] == labels[i]]
        N_i = [k for k in range(len(X)) if labels[k] != labels[i]]
        attraction = sum(np.exp(-GAMMA * (cosine(X[i], X[k]) - SIGMA)) for k in P_i)
        repulsion = sum(np.exp(BETA * (cosine(X[i], X[k]) + sign * SIGMA)) for k in N_i)
        total += np.log(1 + attraction) / GAMMA + np.log(1 + repulsion) / BETA
    return total / len(X)


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def attention_and_weights(channels=4, key_dim=3):
    """The layer with random weights, and these weights by name."""
    layer = SecondOrderAttention(key_dim, scale=ZETA, dtype="float64")
    layer.build((None, None, None, channels))
    return layer, randomized(layer)


def randomized(layer):
    weights = {}
    for seed, weight in enumerate(layer.weights):
        weight.assign(random(*weight.shape, seed=seed + 1))
        weights[weight.path.split("/", 1)[1]] = weight.numpy()
    return weights


def samples_and_proxies():
    """Samples and proxies of which some exponents are large, others small."""
    return random(len(LABELS), 6, seed=7), random(4, 6, seed=8)


@pytest.mark.equation("multi-head", "1", "layers.SecondOrderAttention")
@pytest.mark.equation("multi-head", "2", "layers.SecondOrderAttention")
def test_second_order_map():
    layer, w = attention_and_weights()
    f, up = random(2, 3, 4), random(2, 3, 4, seed=3)
    assert_as_printed(
        lambda f: ops.sum(up * layer(f[None])[0]), lambda f: np.sum(up * second_order_map(f, w)), f
    )


@pytest.mark.equation(
    "multi-head",
    "3",
    "layers.SecondOrderAttention",
    "h holds the first-order features that eq. 2 adds",
)
def test_a_place_is_a_function_of_the_attended_map():
    layer, w = attention_and_weights()
    f, place, up = random(2, 3, 4), (1, 0), random(4, seed=3)

    def printed(f):
        attended = np.zeros(4)  # Σ of a_ij ⊙ f over all places
        a_ij = attention_map(f, w)[3 * place[0] + place[1]]
        for weight, x in zip(a_ij, f.reshape(-1, 4), strict=True):
            attended += weight * x
        value = w["value/kernel"].T @ attended + w["value/bias"]
        return up @ (f[place] + phi(value, w))

    assert_as_printed(lambda f: ops.sum(up * layer(f[None])[0][place]), printed, f)


@pytest.mark.equation("multi-head", "4", "layers.GlobalLocalEmbedding")
def test_pooling_of_both_maps():
    layer = GlobalLocalEmbedding(dim=6, key_dim=3, scale=ZETA, dtype="float64")
    f_l, f_g, up = random(4, 4, 3), random(2, 2, 5, seed=1), random(6, seed=2)
    layer.build([(None, *f_l.shape), (None, *f_g.shape)])
    weights = randomized(layer)

    def half(f, name):
        prefix = f"{name}_head/"
        own = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
        attention = {k.removeprefix("attention/"): v for k, v in own.items()}
        f = pooled(second_order_map(f, attention))
        return own["whitening/kernel"].T @ f + own["whitening/bias"]

    def printed(f_l, f_g):
        return up @ np.concatenate([half(f_g, "global"), half(f_l, "local")])

    assert_as_printed(lambda *f: ops.sum(up * layer([x[None] for x in f])[0]), printed, f_l, f_g)


@pytest.mark.equation(
    "multi-head",
    "5",
    "losses.ProxyAnchorLoss",
    "second mean over all proxies; P⁻ is not defined there",
)
def test_proxy_based_loss():
    X, P = samples_and_proxies()
    code = with_proxies(ProxyAnchorLoss(len(P), DELTA, ALPHA, dtype="float64"), LABELS)
    assert_as_printed(code, lambda X, P: proxy_loss(X, P, LABELS), X, P, rtol=1e-9)
    # The proxy of a batch's only class has no negative sample, and is counted here.
    only = np.zeros(len(X), int)
    code = with_proxies(ProxyAnchorLoss(len(P), DELTA, ALPHA, dtype="float64"), only)
    assert_as_printed(code, lambda X, P: proxy_loss(X, P, only, len(P)), X, P, rtol=1e-9)
    assert proxy_loss(X, P, only) - proxy_loss(X, P, only, len(P)) > 0.1


def with_proxies(loss, labels):
    """The loss as a function of samples and proxies."""
    loss.build((None,), (None, 6))

    def value(X, P):
        with keras.StatelessScope(state_mapping=[(loss.proxies, P)]):
            return loss(labels, X)

    return value


@pytest.mark.equation(
    "multi-head",
    "6",
    "losses.MultiSimilarityLoss",
    "negatives exp(β(S - σ)) as in Wang et al.; printed with +",
)
def test_pairwise_loss():
    X, _ = samples_and_proxies()
    loss = MultiSimilarityLoss(GAMMA, BETA, SIGMA)
    assert_as_printed(lambda X: loss(LABELS, X), lambda X: pair_loss(X, LABELS), X, rtol=1e-9)
    # With the printed sign log(1 + Σ exp) is hardly anything but the most similar negative plus σ.
    as_printed = pair_loss(X, LABELS, sign=1.0)
    assert as_printed - float(loss(LABELS, X)) > 0.5


@pytest.mark.equation("multi-head", "7", "losses.HybridLoss", "those of eqs. 5 and 6")
def test_hybrid_loss():
    X, P = samples_and_proxies()
    loss = HybridLoss(len(P), dtype="float64")  # whose defaults are the numbers of section 4.2
    assert_as_printed(
        with_proxies(loss, LABELS),
        lambda X, P: pair_loss(X, LABELS) + LAMBDA * proxy_loss(X, P, LABELS),
        X,
        P,
        rtol=1e-9,
    )


PAGE = (EXPERIMENTS.parent / "docs/multihead.md").read_text("utf-8")
ABLATIONS = re.findall(r"`(--\S+ [^`]+)`", PAGE)


@pytest.mark.parametrize("options", ABLATIONS)
def test_ablation_of_section_4_5(options):
    assert len(ABLATIONS) == 6
    files = ["benchmarks/cub200", "conventional/resnet50", "methods/multihead"]
    files = [EXPERIMENTS / f"{file}.yaml" for file in files]
    printed, recipe = load_recipe(files), load_recipe(files, shlex.split(options))
    assert recipe != printed
