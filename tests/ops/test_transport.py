import itertools
import warnings

import keras
import numpy as np
import pytest
from gradients import BACKEND, at_once, differentiated, finite_differences
from scipy.optimize import brentq
from scipy.special import expit, logsumexp, softmax

from gsp_tf.layers.pooling.optimal_transport import _balanced_transport
from gsp_tf.ops import partial_transport


def reference(cost, transport_ratio, entropy_smoothing):
    """Float64 solution of (P2) for one cost (m, n), by a bracketing root finder."""
    n = cost.shape[-1]
    logits = -entropy_smoothing * cost.astype("float64")
    log_s = logsumexp(logits, axis=0)

    def excess(x):
        return expit(x + log_s).sum() - n * transport_ratio

    x = brentq(excess, -log_s.max() - 60, -log_s.min() + 60, xtol=1e-13, rtol=1e-14)
    plan = softmax(logits, axis=0) * expit(x + log_s) / n
    return expit(-(x + log_s)) / n, plan


def value_and_gradient(cost, up_residual, up_plan, jit_compile=None, **arguments):
    upstream = tuple(up.astype(cost.dtype) for up in (up_residual, up_plan))
    outputs, gradients = differentiated(
        lambda cost: partial_transport(cost, **arguments),
        cost,
        upstream=upstream,
        jit_compile=jit_compile,
    )
    return *outputs, *gradients


@pytest.mark.parametrize(
    ("k", "solver", "iterations", "jit_compile"),
    [
        *((k, "newton", None, None) for k in range(4)),
        *((k, "fixed_point", 2000, False) for k in range(4)),
        (2, "newton", None, True),
    ],
)
def test_equals_the_authors_values_and_gradients(oracle, k, solver, iterations, jit_compile):
    case = {key[3:]: v for key, v in oracle("transport").items() if key.startswith(f"t{k}_")}
    residual, plan, gradient = value_and_gradient(
        *(case["cost"], case["up_residual"], case["up_plan"], jit_compile),
        transport_ratio=float(case["mu"]),
        entropy_smoothing=float(case["eps"]),
        solver=solver,
        max_iterations=iterations,
    )
    np.testing.assert_allclose(residual, case["residual"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(plan, case["plan"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(gradient, case["grad_cost"], rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("transport_ratio", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("entropy_smoothing", [0.5, 5.0, 30.0])
def test_equals_an_independent_solver_and_its_finite_differences(
    transport_ratio, entropy_smoothing
):
    rng = np.random.default_rng(1)
    cost = rng.uniform(0, 2, (3, 6))
    up_residual, up_plan = rng.normal(size=6), rng.normal(size=(3, 6))

    def target(cost):
        residual, plan = reference(cost, transport_ratio, entropy_smoothing)
        return (residual * up_residual).sum() + (plan * up_plan).sum()

    residual, plan, gradient = value_and_gradient(
        *(cost, up_residual, up_plan),
        transport_ratio=transport_ratio,
        entropy_smoothing=entropy_smoothing,
    )
    expected = reference(cost, transport_ratio, entropy_smoothing)
    assert residual.dtype == plan.dtype == np.float64
    np.testing.assert_allclose(residual, expected[0], rtol=1e-9)
    np.testing.assert_allclose(plan, expected[1], rtol=1e-9)
    (numeric,) = finite_differences(target, cost, step=1e-5)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("m", "n", "solver"),
    [(1, 1, "newton"), (1, 40, "newton"), (7, 1, "newton"), (8, 49, "newton")]
    + [(8, 49, "fixed_point")],
)
def test_finite_and_feasible_everywhere(m, n, solver):
    rng = np.random.default_rng(2)
    costs = {
        "random": rng.uniform(0, 2, (2, m, n)),
        "identical": np.full((2, m, n), 0.7),
        "zero": np.zeros((2, m, n)),
        "far": np.full((2, m, n), 30.0),
    }
    cost = np.concatenate(list(costs.values()))
    spread = np.array([np.ptp(c) for c in costs.values()]).repeat(2)
    every = [1e-3, 0.01, 0.3, 0.99, 1 - 1e-7, 1.0], [1e-4, 1.0, 20.0, 1e4]
    extremes = [1e-3, 1 - 1e-7, 1.0], [1e-4, 1e4]
    cases = [*itertools.product(*(every if solver == "newton" else extremes))]
    for mu, eps in cases[:: 5 if BACKEND == "jax" else 1]:  # JAX compiles for each
        residual, plan, gradient = value_and_gradient(
            *(cost.astype("float32"), rng.normal(size=(8, n)), rng.normal(size=(8, m, n))),
            transport_ratio=mu,
            entropy_smoothing=eps,
            solver=solver,
        )
        context = f"μ={mu}, ε={eps}"
        for values in (residual, plan, gradient):
            assert np.isfinite(values).all(), context
        assert (residual >= 0).all() and (plan >= 0).all(), context
        np.testing.assert_allclose(residual + plan.sum(1), 1 / n, rtol=1e-5, err_msg=context)
        if solver == "newton":
            # float32 holds differences of ε c to one part in 2^23, which bounds the mass.
            error = np.abs(plan.sum((1, 2)) / mu - 1)
            assert (error <= 1e-6 + eps * spread * 2.0**-23).all(), context


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(dtype):
    cost = keras.ops.cast(np.random.default_rng(5).uniform(0, 2, (2, 5, 30)), dtype)
    (residual, plan), (gradient,) = differentiated(
        lambda cost: partial_transport(cost, 0.2, 100.0), cost
    )
    assert residual.dtype == plan.dtype == "float32" and gradient.dtype == dtype
    assert np.isfinite(gradient.astype("float32")).all()
    expected = partial_transport(keras.ops.cast(cost, "float32"), 0.2, 100.0)[1]
    np.testing.assert_array_equal(plan, expected)


@pytest.mark.parametrize("transport_ratio", [0.01, 0.9])
@pytest.mark.parametrize(("entropy_smoothing", "steps"), [(10.0, 4), (100.0, 7)])
def test_newton_needs_few_steps_for_a_whole_batch(transport_ratio, entropy_smoothing, steps):
    rng = np.random.default_rng(7)
    cost = rng.uniform(0.5, 1.5, (64, 16, 100)).astype("float32")
    arguments = transport_ratio, entropy_smoothing, "newton"
    few, converged = (
        at_once(lambda cost, limit=limit: partial_transport(cost, *arguments, limit)[1])(cost)
        for limit in (steps, None)
    )
    np.testing.assert_allclose(np.asarray(few).sum((1, 2)), transport_ratio, rtol=2e-6)
    np.testing.assert_allclose(few, converged, rtol=2e-5, atol=1e-9)


def test_a_fixed_point_that_has_not_converged_warns():
    cost = np.random.default_rng(0).uniform(0.0, 2.0, (4, 3, 49)).astype("float32")

    def mass(solver, **options):
        return np.asarray(partial_transport(cost, 0.3, 50.0, solver, **options)[1]).sum((1, 2))

    with pytest.warns(UserWarning, match='has not converged.* off μ. Take the solver "newton"'):
        off = mass("fixed_point", max_iterations=5)
    assert np.abs(off / 0.3 - 1).max() > 1e-3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(mass("newton"), 0.3, rtol=1e-4)
        np.testing.assert_allclose(mass("fixed_point", max_iterations=1000), 0.3, rtol=1e-3)
        half = np.array([[[0.5, 0.5]]] * 2, "float32")  # no feature is there in the second
        partial_transport(half, 0.3, 5.0, "fixed_point", mask=[[True, True], [False, False]])


COST = np.random.default_rng(0).uniform(0, 2, size=(2, 3, 7)).astype("float32")
WEIGHTS = np.random.default_rng(1).dirichlet(np.ones(7), size=2).astype("float32")


def test_huge_logits_are_finite():
    # JAX would subtract a maximum that was rounded from a product that was not.
    values = differentiated(lambda cost: partial_transport(cost, 0.3, 1e30), COST)
    assert all(np.isfinite(value).all() for value in keras.tree.flatten(values))


@pytest.mark.parametrize("entropy_smoothing", [1e-30, 1e-3, 1.0, 1e3, 1e8, 1e30])
def test_every_smoothing_is_finite(entropy_smoothing):
    plan, gradient = differentiated(
        lambda cost: _balanced_transport(cost, WEIGHTS, entropy_smoothing, 10), COST, upstream=COST
    )
    np.testing.assert_allclose(np.asarray(plan).sum(1), WEIGHTS, rtol=1e-5)
    assert np.isfinite(np.asarray(gradient)).all()
