"""Equations of "Generalized Sum Pooling for Metric Learning" (ICCV 2023), sections 3 and 4.

The thesis prints them again: 3.1 as 1.1.1 and 5.1.1, 3.2 as 5.1.2, 4.1 to 4.4 as 5.2.1 to 5.2.4.
"""

import numpy as np
import pytest
import tensorflow as tf
from gradients import differentiated, finite_differences
from printed import assert_as_printed
from scipy.optimize import brentq, linprog, minimize

from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.losses import CosineContrastiveLoss, ZeroShotLoss
from gsp_tf.ops import partial_transport, ridge_regression


def random_cost(m=3, n=7, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 1.9, (m, n))


def entropy(u):
    """H(u) of the paper, which is minus the entropy."""
    return sum(x * np.log(x) for x in np.ravel(u))


def solution(c, mu, epsilon):
    """ρ and π of (P2): the fixed point of Prop. 4.2, with t from a root finder."""
    m, n = c.shape
    s = [sum(np.exp(-epsilon * c[i, j]) for i in range(m)) for j in range(n)]

    def rho(t):
        return np.array([1 / (n * (1 + t * s[j])) for j in range(n)])

    def excess(log_t):
        t = np.exp(log_t)
        return t * sum(s[j] * r for j, r in enumerate(rho(t))) - mu

    t = np.exp(brentq(excess, -60, 60, xtol=1e-15, rtol=1e-15))
    return rho(t), t * np.exp(-epsilon * c) * rho(t)


@pytest.mark.equation(
    "GSP", "3.1", "losses.CosineContrastiveLoss", "|b| times that: a sum over j, a mean over i"
)
def test_empirical_risk():
    y, margin = [0, 1, 0, 2, 1], 0.2

    def l(x_i, y_i, x_j, y_j):  # noqa: E743
        s = x_i @ x_j / (np.linalg.norm(x_i) * np.linalg.norm(x_j))
        return 1 - s if y_i == y_j else max(0, s - margin)

    def printed(x):
        b = range(len(x))
        return sum(l(x[i], y[i], x[j], y[j]) for i in b for j in b) / len(x) ** 2

    loss = CosineContrastiveLoss(margin)
    x = np.random.default_rng(1).normal(size=(5, 3))
    assert_as_printed(lambda x: loss(np.array(y), x) / len(y), printed, x)


@pytest.mark.equation(
    "GSP", "P1", "ops.partial_transport", "the limit of (P2) for large ε, which is what is solved"
)
@pytest.mark.parametrize("mu", [0.1, 0.3, 0.85])
def test_linear_program(mu):
    c = random_cost()
    m, n = c.shape
    row = np.zeros((n + 1, n + m * n))  # the constraints on (ρ, π)
    for j in range(n):
        row[j, j] = 1
        for i in range(m):
            row[j, n + i * n + j] = row[n, n + i * n + j] = 1
    objective = np.concatenate([np.zeros(n), c.ravel()])
    optimum = linprog(objective, A_eq=row, b_eq=[*[1 / n] * n, mu], bounds=(0, None))
    rho, pi = (x.numpy() for x in partial_transport(c, mu, entropy_smoothing=1e5))
    np.testing.assert_allclose(rho, optimum.x[:n], atol=1e-6)
    np.testing.assert_allclose(pi, optimum.x[n:].reshape(m, n), atol=1e-6)


@pytest.mark.equation("GSP", "P2", "ops.partial_transport")
@pytest.mark.parametrize(("mu", "epsilon"), [(0.2, 0.5), (0.3, 5.0), (0.7, 2.0)])
def test_smoothed_problem(mu, epsilon):
    c = random_cost(2, 4)
    m, n = c.shape

    def objective(x):
        rho, pi = x[:n], x[n:].reshape(m, n)
        cost = sum(c[i, j] * pi[i, j] for i in range(m) for j in range(n))
        return cost + (entropy(pi) + entropy(rho)) / epsilon

    rho, pi = (x.numpy() for x in partial_transport(c, mu, epsilon))
    for j in range(n):
        assert rho[j] + sum(pi[:, j]) == pytest.approx(1 / n, rel=1e-12)
    assert sum(pi.ravel()) == pytest.approx(mu, rel=1e-12)
    # A general solver with the same constraints gets there, and no lower.
    constraints = [
        {"type": "eq", "fun": lambda x: x[:n] + x[n:].reshape(m, n).sum(0) - 1 / n},
        {"type": "eq", "fun": lambda x: x[n:].sum() - mu},
    ]
    start = np.concatenate([np.full(n, (1 - mu) / n), np.full(m * n, mu / (m * n))])
    found = minimize(
        objective, start, method="SLSQP", bounds=[(1e-12, 1)] * len(start),
        constraints=constraints, options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    ours = np.concatenate([rho, pi.ravel()])
    assert objective(ours) <= found.fun + 1e-9
    np.testing.assert_allclose(ours, found.x, atol=1e-4)
    # The problem is convex, so that a stationary Lagrangian makes a minimum: its derivatives
    # c_ij + (log π_ij + 1)/ε + a_j + b and (log ρ_j + 1)/ε + a_j leave one number b for all i, j.
    b = -c - (np.log(pi) - np.log(rho)) / epsilon
    assert np.ptp(b) < 1e-10


def local_features_and_prototypes(rng, n):
    """Some within the unit ball and some beyond."""
    f, omega = rng.normal(size=(n, 3)), rng.normal(size=(2, 3))
    f *= np.linspace(0.3, 2, n)[:, None] / np.linalg.norm(f, axis=1, keepdims=True)
    omega *= np.array([[0.7], [1.6]]) / np.linalg.norm(omega, axis=1, keepdims=True)
    return f, omega


def cost_map(f, omega):
    """c_ij of section 4.1."""

    def bar(u):
        return u / max(1, np.linalg.norm(u))

    return np.array([[np.linalg.norm(bar(o) - bar(x)) for x in f] for o in omega])


@pytest.mark.equation(
    "GSP",
    "Prop. 4.2",
    "ops.partial_transport",
    "the bracket of ρ is inverted (misprint); from ρ = 1/n; Newton by default",
)
@pytest.mark.parametrize("solver", ["newton", "fixed_point"])
def test_fixed_point(solver):
    c, mu, epsilon = random_cost(), 0.3, 2.0
    m, n = c.shape
    kernel = np.exp(-epsilon * c)

    def iterate(inverted):
        t = 1.0
        for _ in range(2000):
            bracket = np.array([1 + t * sum(kernel[:, j]) for j in range(n)])
            rho = (1 / bracket if inverted else bracket) / n
            t = mu / sum(kernel[i, j] * rho[j] for i in range(m) for j in range(n))
        return rho, t * kernel * rho

    ours = partial_transport(c, mu, epsilon, solver, 2000)
    for value, expected in zip(ours, iterate(inverted=True), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-9)
    # As the paper prints it, the residual is more than there is.
    assert (iterate(inverted=False)[0] > 1 / n).all()


@pytest.mark.equation(
    "GSP", "4.2", "ops.partial_transport", "the second ρ belongs into Diag: q - (η/k) ρ (misprint)"
)
def test_gradient():
    c, mu, epsilon = random_cost(), 0.3, 5.0
    m, n = c.shape
    rng = np.random.default_rng(3)
    d_rho, d_pi = rng.normal(size=n), rng.normal(size=(m, n))

    def loss(c):
        rho, pi = solution(c, mu, epsilon)
        return rho @ d_rho + np.sum(pi * d_pi)

    def code(c):
        rho, pi = partial_transport(c, mu, epsilon)
        return tf.reduce_sum(rho * d_rho) + tf.reduce_sum(pi * d_pi)

    assert_as_printed(code, loss, c)
    _, (gradient,) = differentiated(code, c)

    rho, pi = solution(c, mu, epsilon)
    q = np.array([rho[j] * d_rho[j] + sum(pi[:, j] * d_pi[:, j]) for j in range(n)])
    eta = sum(rho * d_rho) - n * sum(q * rho)
    k = 1 - mu - n * sum(rho * rho)

    def closed_form(diagonal):
        return -epsilon * (pi * d_pi - n * pi @ np.diag(diagonal))

    corrected = closed_form(q - eta / k * rho)
    np.testing.assert_allclose(gradient, corrected, rtol=1e-9, atol=1e-12)
    # As printed, ρ outside of Diag leaves a vector, or, taken by features, another gradient.
    assert (pi @ np.diag(q - eta / k) @ rho).shape == (m,)
    assert np.abs(closed_form((q - eta / k) * rho) - gradient).max() > 0.1


@pytest.mark.equation("GSP", "4.1", "layers.GeneralizedSumPooling")
@pytest.mark.equation("GSP", "4.3", "layers.GeneralizedSumPooling")
def test_pooled_feature_and_attributes():
    mu, epsilon, n = 0.3, 5.0, 5
    rng = np.random.default_rng(2)
    up, up_attributes = rng.normal(size=3), rng.normal(size=2)

    def printed(f, omega):
        rho, pi = solution(cost_map(f, omega), mu, epsilon)
        feature = sum((1 / n - rho[i]) / mu * f[i] for i in range(n))
        return feature @ up + sum(pi[:, i] for i in range(n)) / mu @ up_attributes

    layer = GeneralizedSumPooling(2, mu, epsilon, return_attributes=True, dtype="float64")
    layer.build((1, n, 3))

    def code(f, omega):
        (feature, z), _ = layer.stateless_call([omega], [], f[None])
        return tf.tensordot(feature[0], up, 1) + tf.tensordot(z[0], up_attributes, 1)

    assert_as_printed(code, printed, *local_features_and_prototypes(rng, n))


@pytest.mark.equation("GSP", "P3", "ops.ridge_regression", "the transpose of A")
@pytest.mark.parametrize("m", [3, 6])
def test_ridge_regression(m):
    b, dim, epsilon = 4, 2, 0.05
    rng = np.random.default_rng(5)
    z, upsilon, up = rng.normal(size=(b, m)), rng.normal(size=(b, dim)), rng.normal(size=(dim, m))

    def objective(a):
        errors = sum(np.sum((a @ z[i] - upsilon[i]) ** 2) for i in range(b))
        return errors + epsilon * sum(np.sum(a[:, i] ** 2) for i in range(m))

    a = ridge_regression(z, upsilon, epsilon).numpy().T
    (slope,) = finite_differences(objective, a)
    assert np.abs(slope).max() < 1e-7

    def printed(z, upsilon):
        """The closed form, whose Z and Υ have a column for each sample."""
        inverse = np.linalg.inv(z @ z.T + epsilon * np.eye(b))
        return np.sum(upsilon.T @ inverse @ z * up)

    def code(z, upsilon):
        return tf.reduce_sum(ridge_regression(z, upsilon, epsilon) * up.T)

    assert_as_printed(code, printed, z, upsilon, rtol=1e-9)


Y = [2, 0, 2, 1, 3]
HALVES = [[0, 2, 3], [1, 4]]  # classes 2, 1 and 0, 3: by turns in the order 2, 0, 1, 3
RIDGE = 0.05


def predictor(z, upsilon, half):
    """A_b of (P3)."""
    columns, targets = z[half].T, upsilon[[Y[i] for i in half]].T
    return targets @ np.linalg.inv(columns.T @ columns + RIDGE * np.eye(len(half))) @ columns.T


def zero_shot_terms(z, upsilon, b, a):
    def others(i):
        return [j for j in range(len(upsilon)) if j != Y[i]]

    return [
        np.log(1 + sum(np.exp((upsilon[j] - upsilon[Y[i]]) @ a @ z[i]) for j in others(i)))
        for i in b
    ]


@pytest.mark.equation(
    "GSP",
    "4.4",
    "losses.ZeroShotLoss",
    'with scale=1.0, reduction="sum_of_means"; the sum leaves out y_i (misprint)',
)
def test_zero_shot_loss():
    loss = ZeroShotLoss(6, 3, RIDGE, scale=1.0, reduction="sum_of_means", dtype="float64")
    loss.build((5,), (5, 4))
    rng = np.random.default_rng(6)

    def code(z, upsilon):
        return loss.stateless_call([upsilon], [], np.array(Y), z)[0]

    def printed(z, upsilon):
        b_1, b_2 = HALVES
        a_1, a_2 = (predictor(z, upsilon, half) for half in HALVES)
        terms = zero_shot_terms(z, upsilon, b_2, a_1), zero_shot_terms(z, upsilon, b_1, a_2)
        return sum(map(np.mean, terms))

    assert_as_printed(code, printed, rng.dirichlet(np.ones(4), size=5), rng.normal(size=(6, 3)))
