"""The equations of the coded residual transform (Kan et al., NeurIPS 2022), as printed."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from printed import assert_as_printed

from gsp_tf.evaluation import embedding_density, spectral_decay
from gsp_tf.layers import CodedResidualTransform
from gsp_tf.losses import prototype_diversity, similarity_consistency

PLACES, CHANNELS, PROTOTYPES, HIDDEN, DIM = 5, 3, 4, 3, 2
UPSTREAM = np.random.default_rng(9).normal(size=(PROTOTYPES, HIDDEN))
CLASSES = [[0, 1, 2], [3, 4], [5, 6, 7, 8]]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def features_and_weights():
    """x, c, W1, b1, W2 and b."""
    shapes = [
        (PLACES, CHANNELS),
        (PROTOTYPES, CHANNELS),
        (PROTOTYPES, CHANNELS, HIDDEN),
        (PROTOTYPES, HIDDEN),
        (PROTOTYPES, HIDDEN, DIM),
        (DIM,),
    ]
    return [normal(*shape, seed=seed) for seed, shape in enumerate(shapes)]


def with_weights(weights, compute):
    """What a layer with these weights computes, so that a tape sees them."""
    layer = CodedResidualTransform(PROTOTYPES, DIM, HIDDEN, dtype="float64")
    layer.build((1, PLACES, CHANNELS))
    with keras.StatelessScope(zip(layer.trainable_variables, weights, strict=False)):
        return compute(layer)


def gelu(x):
    return np.array([x_i * (1 + math.erf(x_i / math.sqrt(2))) / 2 for x_i in x])


def coded_residual(x, c_k):
    """Equation 1, r of one prototype."""
    r_k = np.zeros(len(c_k))
    for x_j in x:
        w_kj = sum(x_j[i] * c_k[i] for i in range(len(c_k)))
        r_k += math.log(1 + math.exp(w_kj)) * (x_j - c_k)
    return r_k


def cosine(f_i, f_j):
    return f_i @ f_j / (np.linalg.norm(f_i) * np.linalg.norm(f_j))


@pytest.mark.equation(
    "CRT", "1", "layers.CodedResidualTransform", "mean over the places, a factor that W1 holds"
)
def test_coded_residuals():
    def code(x, *weights):
        hidden = with_weights(weights, lambda layer: layer.encode(x[None])[0])
        return tf.reduce_sum(UPSTREAM * hidden)

    def printed(x, c, w1, b1):
        hidden = [gelu(coded_residual(x, c[k]) @ w1[k] / PLACES + b1[k]) for k in range(len(c))]
        return np.sum(UPSTREAM * hidden)

    assert_as_printed(code, printed, *features_and_weights()[:4])


@pytest.mark.equation("CRT", "2", "layers.CodedResidualTransform")
def test_embedding():
    def code(x, *weights):
        return with_weights(weights, lambda layer: layer(x[None])[0, 0] - 2 * layer(x[None])[0, 1])

    def printed(x, c, w1, b1, w2, b):
        f = np.zeros(DIM)
        for k in range(PROTOTYPES):
            r_k = coded_residual(x, c[k]) / PLACES
            f += gelu(r_k @ w1[k] + b1[k]) @ w2[k] + b
        f /= PROTOTYPES
        return f[0] - 2 * f[1]

    assert_as_printed(code, printed, *features_and_weights())


@pytest.mark.equation("CRT", "3", "losses.prototype_diversity")
def test_diversity():
    def printed(c):
        total = 0.0
        for k in range(len(c)):
            for j in range(len(c)):
                if k != j:
                    total += abs(c[k] @ c[j]) / (np.linalg.norm(c[k]) * np.linalg.norm(c[j]))
        return total / (len(c) * (len(c) - 1))

    assert_as_printed(prototype_diversity, printed, normal(5, 3))


@pytest.mark.equation("CRT", "4", "losses.similarity_consistency")
def test_similarity_matrix():
    orthogonal = tf.constant(2.0 * np.eye(5))

    def code(f):
        return similarity_consistency(f, orthogonal, reduction="sum")

    def printed(f):
        return sum(abs(cosine(f[i], f[j])) for i in range(5) for j in range(5) if i != j)

    assert_as_printed(code, printed, normal(5, 3))


@pytest.mark.equation(
    "CRT",
    "5",
    "losses.similarity_consistency",
    "mean over the pairs; the printed sum with reduction='sum'",
)
@pytest.mark.parametrize(("reduction", "pairs"), [("sum", 1), ("mean", 25)])
def test_consistency(reduction, pairs):
    def code(first, second):
        return similarity_consistency(first, second, reduction)

    def printed(first, second):
        norm = 0.0
        for i in range(5):
            for j in range(5):
                norm += abs(cosine(first[i], first[j]) - cosine(second[i], second[j]))
        return norm / pairs

    assert_as_printed(code, printed, normal(5, 3), normal(5, 4, seed=1))


@pytest.mark.equation(
    "CRT", "6", "evaluation.embedding_density", "the paper names no distance; Euclidean or cosine"
)
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_density(distance):
    unit = normal(9, 3)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)

    def between(a, b):
        return math.dist(a, b) if distance == "euclidean" else 1 - cosine(a, b)

    def mean_distance(points):
        values = [between(points[i], points[j]) for i in range(len(points)) for j in range(i)]
        return sum(values) / len(values)

    intra = np.mean([mean_distance(unit[members]) for members in CLASSES])
    inter = mean_distance([unit[members].mean(axis=0) for members in CLASSES])
    labels = np.repeat([0, 1, 2], [len(members) for members in CLASSES])
    density = embedding_density(unit, labels, distance)
    assert density["ratio"] == pytest.approx(intra / inter, rel=1e-5)


@pytest.mark.equation("CRT", "7", "evaluation.spectral_decay")
def test_decay():
    unit = normal(9, 4)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    spectrum = np.sqrt(np.linalg.eigvalsh(unit.T @ unit))
    spectrum /= sum(spectrum)
    d = len(spectrum)
    divergence = sum(1 / d * math.log((1 / d) / value) for value in spectrum)
    assert d == 4 and spectral_decay(unit) == pytest.approx(divergence, rel=1e-5)
