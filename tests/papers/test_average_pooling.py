"""Thesis (Gürbüz, 2022), chapter 4: average pooling as a convex combination of prototypes."""

import numpy as np
import pytest
from scipy.optimize import linprog

from gsp_tf.evaluation import average_pooling_error, prototype_partition

RNG = np.random.default_rng(0)
N, M, D = 7, 4, 3


def in_unit_ball(count):
    """Points `(count, 3)`."""
    points = RNG.normal(size=(count, D))
    return RNG.uniform(size=(count, 1)) * points / np.linalg.norm(points, axis=1, keepdims=True)


X, V = in_unit_ball(N), in_unit_ball(M)
# c_ij = ||ν_i - x_j||_2 of eq. 4.2.5.
COSTS = np.array([[np.sqrt(sum((v - x) ** 2)) for x in X] for v in V])


def histogram_problem():
    """Value, p* and π* of the problem in eq. 4.2.5, by linear programming over (p, π)."""
    marginals = np.zeros((N + M + 1, M + M * N))
    for j in range(N):  # Σ_i π_ij = 1/n
        for i in range(M):
            marginals[j, M + i * N + j] = 1
    for i in range(M):  # Σ_j π_ij = p_i
        marginals[N + i, i] = -1
        for j in range(N):
            marginals[N + i, M + i * N + j] = 1
    marginals[N + M, :M] = 1  # p in the simplex
    found = linprog(
        np.concatenate([np.zeros(M), COSTS.ravel()]),
        A_eq=marginals,
        b_eq=[1 / N] * N + [0] * M + [1],
    )
    return found.fun, found.x[:M], found.x[M:].reshape(M, N)


@pytest.mark.equation("thesis", "4.2.5", "evaluation.prototype_partition")
@pytest.mark.equation("thesis", "4.2.6", "evaluation.prototype_partition")
def test_histograms_and_assignments_solve_the_printed_problem():
    value, p, plan = histogram_problem()
    partition = prototype_partition(X[None], V)
    np.testing.assert_allclose(partition.histograms[0], p, atol=1e-9)
    assert partition.distances.mean() == pytest.approx(value, rel=1e-6)
    for j in range(N):  # every feature sends its mass to the nearest prototype
        nearest = min(range(M), key=lambda i, j=j: COSTS[i, j])
        np.testing.assert_allclose(plan[:, j], (np.arange(M) == nearest) / N, atol=1e-9)
        assert partition.assignments[0, j] == nearest


def squared_error(x, v, p):
    """||Σ p_i ν_i - Σ x_j / n||² of Prop. 4.2.1."""
    difference = np.zeros(x.shape[1])
    for p_i, v_i in zip(p, v, strict=True):
        difference += p_i * v_i
    for x_j in x:
        difference -= x_j / len(x)
    return sum(difference**2)


@pytest.mark.equation(
    "thesis",
    "Prop. 4.2.1",
    "evaluation.average_pooling_error",
    "the norm, not its square, is bounded by δ; below 1 that is the stronger bound",
)
def test_the_error_and_its_bound():
    partition = prototype_partition(X[None], V)
    (error,) = average_pooling_error(X[None], V, partition.histograms)
    printed = squared_error(X, V, partition.histograms[0])
    assert error**2 == pytest.approx(printed, rel=1e-6)
    delta = partition.distances.max()
    assert delta < 1 and error <= delta and printed <= delta


def test_the_printed_bound_fails_for_a_radius_beyond_1():
    x, v = np.ones((1, 3, 1)), -np.ones((1, 1))
    partition = prototype_partition(x, v)
    delta = partition.distances.max()
    (error,) = average_pooling_error(x, v, partition.histograms)
    assert error == delta == 2
    assert squared_error(x[0], v, partition.histograms[0]) == pytest.approx(4)
