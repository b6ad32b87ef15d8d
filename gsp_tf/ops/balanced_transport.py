"""Entropy-smoothed optimal transport between two given distributions (Cuturi, NeurIPS 2013)."""

import math

from keras import ops

from gsp_tf.ops.precision import at_least_float32


def balanced_transport(cost, weights, entropy_smoothing, num_iterations=10):
    """Transport all mass of n features in equal parts to m prototypes, by Sinkhorn's iteration.

    The plan of `min Σ_ij c_ij π_ij + (1/ε) Σ_ij π_ij log π_ij` subject to `Σ_i π_ij = q_j` and
    `Σ_j π_ij = 1/m` is `π_ij = q_j softmax_i(x_i - ε c_ij)`. Each iteration adds to x_i the log of
    `(1/m) / Σ_j π_ij`. This is the iteration for the scalings in the log domain, where any ε is
    finite; the constraint on q holds after any number of iterations, that on 1/m in the limit.

    Args:
        cost: float tensor `(..., m, n)`, cost c_ij of moving feature j to prototype i.
        weights: float tensor `(..., n)`, mass q_j of every feature; each row sums to 1, or is 0 for
            a set without features, whose plan is 0.
        entropy_smoothing: ε > 0, inverse strength of the smoothing.
        num_iterations: Sinkhorn iterations; the gradient is that of these iterations.

    Returns:
        plan π `(..., m, n)`, float64 for a float64 cost, else float32.

    Example:
        >>> import numpy as np
        >>> cost = np.array([[0.0, 1.0], [0.0, 1.0]], "float32")
        >>> balanced_transport(cost, [0.5, 0.5], entropy_smoothing=5.0).numpy().round(2).tolist()
        [[0.25, 0.25], [0.25, 0.25]]
    """
    cost = at_least_float32(cost)
    weights = ops.cast(weights, cost.dtype)[..., None, :]
    # A set without features is given some, to keep its potentials finite.
    is_empty = ops.logical_not(ops.any(weights > 0, axis=-1, keepdims=True))
    has_mass = ops.logical_or(weights > 0, is_empty)
    log_mass = ops.log(ops.where(weights > 0, weights, 1.0))
    logits = -entropy_smoothing * cost
    potential = ops.zeros_like(logits[..., :1])
    for _ in range(num_iterations):
        log_plan = ops.where(
            has_mass, log_mass + ops.log_softmax(logits + potential, axis=-2), -math.inf
        )
        log_share = ops.logsumexp(log_plan, axis=-1, keepdims=True)
        potential = potential - math.log(cost.shape[-2]) - log_share
    return weights * ops.softmax(logits + potential, axis=-2)
