"""Losses that chapter 2 of the thesis (Gürbüz, METU 2022) prints.

Chapters 3 to 5 are in `test_ccp.py`, `test_average_pooling.py` and `test_gsp.py`.
"""

import numpy as np
import pytest
from printed import assert_as_printed

from gsp_tf.losses import ContrastiveLoss, MarginLoss, TripletLoss

Y = np.array([0, 1, 0, 1, 0, 2])
X = np.random.default_rng(0).normal(size=(6, 3))
PAIRS = [(i, j) for i in range(6) for j in range(6) if i != j]


def distance(x, i, j):
    return np.linalg.norm(x[i] - x[j])


def sign(i, j):
    """y_ij."""
    return 1 if Y[i] == Y[j] else -1


def mean_of_nonzero(terms):
    terms = [t for t in terms if t > 0]
    return sum(terms) / len(terms)


def means_by_sign(loss):
    """Mean of a loss of pairs over the positive ones that cost, plus that over the negative."""
    return sum(mean_of_nonzero([loss(i, j) for i, j in PAIRS if sign(i, j) == s]) for s in (1, -1))


@pytest.mark.equation(
    "thesis",
    "2.1.1",
    "losses.ContrastiveLoss",
    "a positive pair beyond ε costs d once (misprint); means over the pairs that cost",
)
def test_contrastive_loss():
    epsilon = 1.7

    def l_cntrv(x, i, j):
        y, d = sign(i, j), distance(x, i, j)
        return max(0, y * d) + max(0, y * (d - epsilon))

    def corrected(x, i, j):
        beyond = max(0, distance(x, i, j) - epsilon) if sign(i, j) == 1 else 0
        return l_cntrv(x, i, j) - beyond

    def expected(x):
        return means_by_sign(lambda i, j: corrected(x, i, j))

    loss = ContrastiveLoss(0.0, epsilon, normalize=False)
    assert_as_printed(lambda x: loss(Y, x), expected, X)
    assert means_by_sign(lambda i, j: l_cntrv(X, i, j)) > 1.1 * expected(X)


@pytest.mark.equation("thesis", "2.1.2", "losses.TripletLoss", "a mean over the triplets that cost")
def test_triplet_loss():
    epsilon = 0.4

    def l_triplet(x, i, positive, negative):
        return max(0, distance(x, i, positive) - distance(x, i, negative) + epsilon)

    def expected(x):
        return mean_of_nonzero([
            l_triplet(x, i, p, n)
            for i, p in PAIRS if sign(i, p) == 1
            for n in range(6) if sign(i, n) == -1
        ])  # fmt: skip

    loss = TripletLoss(epsilon, normalize=False)
    assert_as_printed(lambda x: loss(Y, x), expected, X)


def l_margin(x, i, j, alpha, beta):
    return max(0, sign(i, j) * (distance(x, i, j) - beta) + alpha)


@pytest.mark.equation(
    "thesis",
    "2.1.3",
    "losses.ContrastiveLoss",
    "margins β - α and β + α (C2); means over the pairs that cost",
)
@pytest.mark.equation(
    "thesis",
    "3.2.2, Lemma 3.2.1",
    "losses.ContrastiveLoss",
    "a batch: means over the non-zero terms of positives and of negatives, added",
)
def test_generalized_contrastive_loss():
    alpha, beta = 0.3, 1.6
    loss = ContrastiveLoss(beta - alpha, beta + alpha, normalize=False)

    def expected(x):
        return means_by_sign(lambda i, j: l_margin(x, i, j, alpha, beta))

    assert_as_printed(lambda x: loss(Y, x), expected, X)


@pytest.mark.equation(
    "thesis",
    "2.1.3",
    "losses.MarginLoss",
    "a pair counts once for every triplet that it is in; a mean over the terms that cost",
)
def test_margin_loss():
    alpha, beta = 0.3, 1.6
    loss = MarginLoss(alpha, beta, normalize=False)

    def expected(x):
        triplets = [
            (i, p, n)
            for i, p in PAIRS if sign(i, p) == 1
            for n in range(6) if sign(i, n) == -1
        ]  # fmt: skip
        terms = [l_margin(x, i, j, alpha, beta) for i, p, n in triplets for j in (p, n)]
        return mean_of_nonzero(terms)

    assert_as_printed(lambda x: loss(Y, x), expected, X)
