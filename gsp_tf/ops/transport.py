"""Entropy-smoothed partial optimal transport (Gürbüz et al., ICCV 2023, section 4)."""

import math
import warnings

import numpy as np
import tensorflow as tf

from gsp_tf.ops.precision import at_least_float32

_NEWTON_ITERATIONS = 60
_FIXED_POINT_ITERATIONS = 100


def partial_transport(
    cost,
    transport_ratio,
    entropy_smoothing,
    solver="newton",
    max_iterations=None,
    mask=None,
):
    """Transport a fraction of the mass of n features to m prototypes at the least smoothed cost.

    Solves (P2) of "Generalized Sum Pooling for Metric Learning" (Gürbüz, Şener, Alatan, ICCV 2023),

        min over π, ρ >= 0 of  Σ_ij c_ij π_ij + (1/ε) (Σ_ij π_ij log π_ij + Σ_j ρ_j log ρ_j)
        subject to  ρ_j + Σ_i π_ij = 1/n,   Σ_ij π_ij = μ,

    through its one unknown x: with `s_j = Σ_i exp(-ε c_ij)`, `p_j = sigmoid(x + log s_j)` and
    `Σ_j p_j = n μ`, the solution is `ρ_j = (1 - p_j) / n`, `π_ij = p_j softmax_i(-ε c_ij) / n`.
    p_j is the share of feature j that is taken. The linear program (P1) is the limit of ε → ∞. The
    gradient is Prop. 4.3 (eq. 4.2) in the same terms: no matrix is inverted and no iterate is
    stored.

    Args:
        cost: float tensor `(..., m, n)`, cost c_ij of moving feature j to prototype i.
        transport_ratio: μ in (0, 1], the fraction of the mass to transport. 1 transports all of it.
        entropy_smoothing: ε > 0, inverse strength of the smoothing; large is close to (P1).
        solver: "newton", a bracketed Newton iteration in the log domain, or "fixed_point", the
            iteration of Prop. 4.2 (kept for comparison). The plan of a fixed point that has not
            converged transports another mass than μ: some percent more or less after 100
            iterations with ε 100. Called eagerly it warns of that; in a graph it cannot.
        max_iterations: bound on the solver's iterations; `None` is 60 for "newton", which stops
            when it has converged (3 to 5 steps are usual), and 100 for "fixed_point", which always
            runs them all.
        mask: optional boolean tensor `(..., n)`, False for features that are not there: their ρ and
            π are 0, they get no gradient, and n counts the rest.

    Returns:
        residual ρ `(..., n)` and plan π `(..., m, n)`, float64 for a float64 cost, else float32.

    Raises:
        ValueError: if μ, ε, the solver or the iteration bound is out of range.

    Example:
        >>> import numpy as np
        >>> cost = np.array([[0.1, 0.9, 0.2, 0.8]], "float32")
        >>> residual, plan = partial_transport(cost, transport_ratio=0.5, entropy_smoothing=20.0)
        >>> plan.numpy().round(2).tolist()
        [[0.25, 0.0, 0.25, 0.0]]
    """
    check_transport(transport_ratio, entropy_smoothing, solver)
    if max_iterations is not None and max_iterations < 1:
        raise ValueError(f"max_iterations must be at least 1, received {max_iterations}.")
    cost = at_least_float32(cost)
    present, n = presence(cost[..., 0, :], mask)

    @tf.custom_gradient
    def transport(cost):
        logits = -entropy_smoothing * cost
        assignment = tf.nn.softmax(logits, axis=-2)
        log_s = tf.reduce_logsumexp(logits, axis=-2)
        taken, left = taken_and_left(log_s, present, n, transport_ratio, solver, max_iterations)
        residual = left / n
        plan = assignment * (taken / n)[..., None, :]

        def gradient(upstream_residual, upstream_plan):
            through_plan = tf.reduce_sum(assignment * upstream_plan, axis=-2)
            g_log_s = through_solution((through_plan - upstream_residual) / n, taken, left)
            g_assignment = (taken / n)[..., None, :] * (upstream_plan - through_plan[..., None, :])
            return -entropy_smoothing * assignment * (g_log_s[..., None, :] + g_assignment)

        return (residual, plan), gradient

    return transport(cost)


def presence(features, mask):
    """Float 1 for every feature that is there, `(..., n)`, and their number `(..., 1)`.

    Args:
        features: float tensor `(..., n)`, for shape and type.
        mask: optional boolean tensor `(..., n)`, False for features that are not there.

    Returns:
        floats `(..., n)`, and n `(..., 1)`; 1 for a row without any feature, to keep 1/n finite.

    Example:
        >>> presence(tf.zeros((1, 3)), [[True, False, True]])[1].numpy().tolist()
        [[2.0]]
    """
    present = tf.ones_like(features) if mask is None else tf.cast(mask, features.dtype)
    return present, tf.maximum(tf.reduce_sum(present, axis=-1, keepdims=True), 1.0)


def taken_and_left(log_s, present, n, transport_ratio, solver, max_iterations=None):
    """Solve `Σ_j sigmoid(x + log s_j) = n μ` for p, the part of each feature that is taken.

    Args:
        log_s: float tensor `(..., n)`, `log Σ_i exp(-ε c_ij)`.
        present: 1 for features that are there, 0 for others, as of `presence`.
        n: their number `(..., 1)`.
        transport_ratio: μ in (0, 1].
        solver: "newton" or "fixed_point".
        max_iterations: as for `partial_transport`.

    Returns:
        p and 1 - p, both `(..., n)`, each as precise as floats can be; 0 for absent features.

    Example:
        >>> log_s = tf.constant([[0.0, 0.0, -50.0, -50.0]])
        >>> present, n = presence(log_s, mask=None)
        >>> taken, left = taken_and_left(log_s, present, n, 0.5, "newton")
        >>> taken.numpy().round(3).tolist()
        [[1.0, 1.0, 0.0, 0.0]]
    """
    if transport_ratio == 1.0:
        return present, tf.zeros_like(present)
    solve, default_iterations = _SOLVERS[solver]
    log_s = _center(log_s, present)
    x = solve(log_s, present, n, transport_ratio, max_iterations or default_iterations)
    taken, left = present * tf.sigmoid(x + log_s), present * tf.sigmoid(-(x + log_s))
    if solve is _fixed_point and tf.executing_eagerly():
        _warn_unless_converged(taken, present, n * transport_ratio)
    return taken, left


def _warn_unless_converged(taken, present, mass):
    """Warn where what is taken differs from the mass to transport by more than a thousandth."""
    excess = tf.reduce_sum(taken, axis=-1, keepdims=True) / mass - 1.0
    there = tf.reduce_max(present, axis=-1, keepdims=True)
    largest = float(tf.reduce_max(there * tf.abs(excess)))
    if largest > 1e-3:
        warnings.warn(
            f"The fixed point has not converged: the mass of its plan is {largest:.1%} off μ. Take "
            'the solver "newton", or more max_iterations.',
            stacklevel=2,
        )


def through_solution(g_p, taken, left):
    """Gradient w.r.t. log s from that w.r.t. p (Prop. 4.3): `h (g_p - Σ g_p h / Σ h)`.

    Args:
        g_p: gradient w.r.t. p `(..., n)`.
        taken: p `(..., n)`.
        left: 1 - p `(..., n)`; `h = p (1 - p)` is the curvature of the sigmoid.

    Returns:
        gradient `(..., n)`; it sums to 0.

    Example:
        >>> half = tf.fill((2,), 0.5)
        >>> through_solution(tf.constant([1.0, 3.0]), half, half).numpy().tolist()
        [-0.25, 0.25]
    """
    h = taken * left
    mean = tf.math.divide_no_nan(
        tf.reduce_sum(g_p * h, axis=-1, keepdims=True), tf.reduce_sum(h, axis=-1, keepdims=True)
    )
    return h * (g_p - mean)


def check_transport(transport_ratio, entropy_smoothing, solver):
    """Refuse parameters for which (P2) or its solver is not defined.

    Args:
        transport_ratio: μ, must lie in (0, 1].
        entropy_smoothing: ε, must be positive and finite.
        solver: must be "newton" or "fixed_point".

    Raises:
        ValueError: naming the parameter, what was received and what is accepted.

    Example:
        >>> check_transport(transport_ratio=0.3, entropy_smoothing=5.0, solver="newton")
    """
    if not 0.0 < transport_ratio <= 1.0:
        raise ValueError(f"transport_ratio must lie in (0, 1], received {transport_ratio}.")
    if not 0.0 < entropy_smoothing < math.inf:
        raise ValueError(
            f"entropy_smoothing must be positive and finite, received {entropy_smoothing}."
        )
    if solver not in _SOLVERS:
        raise ValueError(f"solver must be one of {sorted(_SOLVERS)}, received {solver!r}.")


def _center(log_s, present):
    """Shift log s so that its maximum over the features is 0, which x takes up; x stays precise."""
    lowest = tf.where(present > 0, log_s, log_s.dtype.min)
    return tf.where(present > 0, log_s - tf.reduce_max(lowest, axis=-1, keepdims=True), 0.0)


def _newton(log_s, present, n, transport_ratio, max_iterations):
    """Root x of mean_j sigmoid(x + log s_j) = μ, by Newton on the log-odds of both sides.

    The log-odds of the mean are close to linear in x (exactly so for equal s_j, and in both tails),
    which makes Newton quick; a step that leaves the bracket is replaced by bisection.
    """
    target = math.log(transport_ratio) - math.log1p(-transport_ratio)
    low = tf.fill(tf.shape(n), tf.constant(target, log_s.dtype))
    high = target - tf.reduce_min(log_s, axis=-1, keepdims=True)
    empty = tf.reduce_max(present, axis=-1, keepdims=True) == 0
    tolerance = 4.0 * float(np.finfo(log_s.dtype.as_numpy_dtype).eps)

    def unfinished(iteration, low, high, x, step):
        remaining = tf.minimum(tf.abs(step), high - low)
        return tf.reduce_any(remaining > tolerance * (1.0 + tf.abs(x)))

    def advance(iteration, low, high, x, step):
        p = present * tf.sigmoid(x + log_s)
        q = present * tf.sigmoid(-(x + log_s))
        p_sum = tf.reduce_sum(p, axis=-1, keepdims=True)
        q_sum = tf.reduce_sum(q, axis=-1, keepdims=True)
        excess = tf.math.log(p_sum) - tf.math.log(q_sum) - target
        low = tf.where(excess < 0, x, low)
        high = tf.where(excess > 0, x, high)
        slope = tf.reduce_sum(p * q, axis=-1, keepdims=True) * n / (p_sum * q_sum)
        newton = x - excess / slope
        inside = (newton >= low) & (newton <= high)
        new_x = tf.where(excess == 0, x, tf.where(inside, newton, 0.5 * (low + high)))
        new_x = tf.where(empty, x, new_x)
        return iteration + 1, low, high, new_x, new_x - x

    start = 0.5 * (low + high)
    state = (0, low, high, start, tf.fill(tf.shape(start), tf.constant(math.inf, log_s.dtype)))
    return tf.while_loop(unfinished, advance, state, maximum_iterations=max_iterations)[3]


def _fixed_point(log_s, present, n, transport_ratio, max_iterations):
    """Prop. 4.2, in the log domain: ρ = 1 / (n (1 + t s)), t = μ / Σ_j s_j ρ_j, from ρ = 1/n."""
    absent = tf.where(present > 0, tf.zeros_like(present), tf.constant(-math.inf, present.dtype))
    log_mu_n = math.log(transport_ratio) + tf.math.log(n)

    def advance(iteration, x):
        log_n_rho = absent - tf.nn.softplus(x + log_s)
        return iteration + 1, log_mu_n - tf.reduce_logsumexp(
            log_s + log_n_rho, axis=-1, keepdims=True
        )

    start = log_mu_n - tf.reduce_logsumexp(log_s + absent, axis=-1, keepdims=True)
    return tf.while_loop(lambda iteration, x: iteration < max_iterations, advance, (0, start))[1]


_SOLVERS = {
    "newton": (_newton, _NEWTON_ITERATIONS),
    "fixed_point": (_fixed_point, _FIXED_POINT_ITERATIONS),
}
