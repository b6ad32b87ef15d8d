"""Entropy-smoothed optimal transport of part of the mass."""

import math
import warnings

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import check_sizes, check_transport
from gsp_tf._backend import concrete, custom_gradient, rounded, softplus
from gsp_tf._numerics import at_least_float32, softmax
from gsp_tf._typing import Solver, Tensor


def partial_transport(
    cost: Tensor,
    transport_ratio: float,
    entropy_smoothing: float,
    solver: Solver = "newton",
    max_iterations: int | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Transport a fraction of the mass of n features to m prototypes at the least smoothed cost.

    Solves (P2) of "Generalized Sum Pooling for Metric Learning" (Gürbüz, Şener, Alatan, ICCV 2023),

        min over π, ρ >= 0 of  Σ_ij c_ij π_ij + (1/ε) (Σ_ij π_ij log π_ij + Σ_j ρ_j log ρ_j)
        subject to  ρ_j + Σ_i π_ij = 1/n,   Σ_ij π_ij = μ,

    through its single unknown x. With `s_j = Σ_i exp(-ε c_ij)` and `p_j = sigmoid(x + log s_j)`, x
    solves `Σ_j p_j = n μ`. The solution is `ρ_j = (1 - p_j) / n`,
    `π_ij = p_j softmax_i(-ε c_ij) / n`, and p_j is the transported share of feature j. The linear
    program (P1) is the limit of ε → ∞. The gradient is Prop. 4.3 (eq. 4.2) in the same terms: it
    inverts no matrix and stores no iterate.

    Args:
        cost: float tensor `(..., m, n)`, cost c_ij of moving feature j to prototype i.
        transport_ratio: μ in (0, 1], fraction of the mass to transport; 1 transports all of it.
        entropy_smoothing: ε > 0, inverse strength of the smoothing; a large value is close to (P1).
        solver: "newton", a bracketed Newton iteration in the log domain, or "fixed_point", the
            iteration of Prop. 4.2 (kept for comparison). A fixed point that has not converged
            transports some percent more or less than μ (100 iterations with ε 100). It warns about
            this when called eagerly, but cannot in a graph.
        max_iterations: limit on the solver's iterations. `None` means 60 for "newton", which stops
            on convergence (usually after 3 to 5 steps), and 100 for "fixed_point", which always
            runs them all.
        mask: optional boolean tensor `(..., n)`, False for absent features; their ρ and π are 0,
            they get no gradient and are not counted in n.

    Returns:
        residual ρ `(..., n)` and plan π `(..., m, n)`, float64 for a float64 cost, else float32.

    Example:
        >>> import numpy as np
        >>> cost = np.array([[0.1, 0.9, 0.2, 0.8]], "float32")
        >>> residual, plan = partial_transport(cost, transport_ratio=0.5, entropy_smoothing=20.0)
        >>> plan.numpy().round(2).tolist()
        [[0.25, 0.0, 0.25, 0.0]]
    """
    check_transport(transport_ratio, entropy_smoothing, solver)
    if max_iterations is not None:
        check_sizes(max_iterations=max_iterations)
    cost = at_least_float32(cost)
    present, n = presence(cost[..., 0, :], mask)
    if mask is not None:  # the costs of absent features may be anything
        cost = ops.where(ops.expand_dims(present, -2) > 0, cost, 0.0)

    @custom_gradient
    def transport(cost):
        logits = rounded(-entropy_smoothing * cost)
        assignment = softmax(logits, axis=-2)
        log_s = ops.logsumexp(logits, axis=-2)
        taken, left = taken_and_left(log_s, present, n, transport_ratio, solver, max_iterations)
        residual = left / n
        plan = assignment * ops.expand_dims(taken / n, -2)

        def gradient(upstream_residual, upstream_plan):
            through_plan = ops.sum(assignment * upstream_plan, axis=-2)
            g_log_s = through_solution((through_plan - upstream_residual) / n, taken, left)
            g_assignment = ops.expand_dims(taken / n, -2) * (
                upstream_plan - ops.expand_dims(through_plan, -2)
            )
            g_logits = assignment * (ops.expand_dims(g_log_s, -2) + g_assignment)
            return (-entropy_smoothing * g_logits,)

        return (residual, plan), gradient

    return transport(cost)


def presence(features, mask):
    """Float 1 for every present feature `(..., n)`, and their number `(..., 1)`, at least 1."""
    present = ops.ones_like(features) if mask is None else ops.cast(mask, features.dtype)
    return present, ops.maximum(ops.sum(present, axis=-1, keepdims=True), 1.0)


def taken_and_left(log_s, present, n, transport_ratio, solver, max_iterations=None):
    """Solution p of `Σ_j sigmoid(x + log s_j) = n μ`, and 1 - p, `(..., n)`, 0 where absent."""
    if transport_ratio == 1.0:
        return present, ops.zeros_like(present)
    solve, default_iterations = _SOLVERS[solver]
    log_s = _center(log_s, present)
    x = solve(log_s, present, n, transport_ratio, max_iterations or default_iterations)
    taken, left = present * ops.sigmoid(x + log_s), present * ops.sigmoid(-(x + log_s))
    if solve is _fixed_point:
        _warn_unless_converged(taken, present, n * transport_ratio)
    return taken, left


def _warn_unless_converged(taken, present, mass):
    """Warn if the mass taken is known and is more than a thousandth off the mass to transport."""
    excess = ops.sum(taken, axis=-1, keepdims=True) / mass - 1.0
    there = ops.max(present, axis=-1, keepdims=True)
    largest = concrete(ops.max(there * ops.abs(excess)))
    if largest is not None and largest > 1e-3:
        warnings.warn(
            f"The fixed point has not converged: the mass of its plan is {largest:.1%} off μ. Take "
            'the solver "newton", or more max_iterations.',
            stacklevel=2,
        )


def through_solution(g_p, taken, left):
    """Gradient w.r.t. log s from that w.r.t. p (Prop. 4.3): `h (g_p - Σ g_p h / Σ h)`."""
    h = taken * left
    mean = ops.divide_no_nan(
        ops.sum(g_p * h, axis=-1, keepdims=True), ops.sum(h, axis=-1, keepdims=True)
    )
    return h * (g_p - mean)


def _center(log_s, present):
    """Shift log s to a maximum of 0 over the features; x absorbs the shift and stays precise."""
    highest = ops.max(ops.where(present > 0, log_s, -math.inf), axis=-1, keepdims=True)
    return ops.where(present > 0, log_s - highest, 0.0)


def _newton(log_s, present, n, transport_ratio, max_iterations):
    """Root x of mean_j sigmoid(x + log s_j) = μ, by Newton on the log-odds of both sides."""
    # The log-odds of the mean are almost linear in x (exactly linear for equal s_j and in both
    # tails), so Newton converges quickly. Bisection replaces a step that leaves the bracket.
    target = math.log(transport_ratio) - math.log1p(-transport_ratio)
    low = ops.full_like(n, target)
    high = target - ops.min(log_s, axis=-1, keepdims=True)
    empty = ops.max(present, axis=-1, keepdims=True) == 0
    tolerance = 4.0 * float(np.finfo(keras.backend.standardize_dtype(log_s.dtype)).eps)

    def unfinished(low, high, x, step):
        remaining = ops.minimum(ops.abs(step), high - low)
        return ops.any(remaining > tolerance * (1.0 + ops.abs(x)))

    def advance(low, high, x, step):
        p = present * ops.sigmoid(x + log_s)
        q = present * ops.sigmoid(-(x + log_s))
        p_sum = ops.sum(p, axis=-1, keepdims=True)
        q_sum = ops.sum(q, axis=-1, keepdims=True)
        excess = ops.log(p_sum) - ops.log(q_sum) - target
        low = ops.where(excess < 0, x, low)
        high = ops.where(excess > 0, x, high)
        slope = ops.sum(p * q, axis=-1, keepdims=True) * n / (p_sum * q_sum)
        newton = x - excess / slope
        inside = ops.logical_and(newton >= low, newton <= high)
        new_x = ops.where(excess == 0, x, ops.where(inside, newton, 0.5 * (low + high)))
        new_x = ops.where(empty, x, new_x)
        return low, high, new_x, new_x - x

    start = 0.5 * (low + high)
    state = (low, high, start, ops.full_like(start, math.inf))
    return ops.while_loop(unfinished, advance, state, maximum_iterations=max_iterations)[2]


def _fixed_point(log_s, present, n, transport_ratio, max_iterations):
    """Prop. 4.2, in the log domain: ρ = 1 / (n (1 + t s)), t = μ / Σ_j s_j ρ_j, from ρ = 1/n."""
    absent = ops.where(present > 0, 0.0, ops.full_like(present, -math.inf))
    log_mu_n = math.log(transport_ratio) + ops.log(n)

    def advance(_, x):
        log_n_rho = absent - softplus(x + log_s)
        return log_mu_n - ops.logsumexp(log_s + log_n_rho, axis=-1, keepdims=True)

    start = log_mu_n - ops.logsumexp(log_s + absent, axis=-1, keepdims=True)
    return ops.fori_loop(0, max_iterations, advance, start)


_SOLVERS = {"newton": (_newton, 60), "fixed_point": (_fixed_point, 100)}
"""The solvers, and the limits on their iterations."""
