"""Generalized sum pooling as one operation (Gürbüz, Şener, Alatan, ICCV 2023)."""

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import check_transport
from gsp_tf._backend import after, custom_gradient, rounded
from gsp_tf._numerics import at_least_float32, relative_rounding, safe_sqrt, softmax
from gsp_tf._typing import Solver, Tensor
from gsp_tf.ops.normalization import lipschitz_normalize
from gsp_tf.ops.transport import presence, taken_and_left, through_solution


def generalized_sum_pooling(
    features: Tensor,
    prototypes: Tensor,
    transport_ratio: float,
    entropy_smoothing: float,
    solver: Solver = "newton",
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Pool local features by partial transport, as one operation with its own gradient.

    "Generalized Sum Pooling for Metric Learning", section 4. The costs are `c_ij = ||ω̄_i - f̄_j||`
    with `ū = u / max(1, ||u||)`, and `partial_transport` gives ρ and π. Feature j has the weight
    `w_j = (1/n - ρ_j) / μ` (p_j in the paper). The pooled feature is `Σ_j w_j f_j` (eq. 4.1), and
    the attributes are `z_i = Σ_j π_ij / μ` (eq. 4.3).

    The gradient (Prop. 4.3) covers the whole operation. Neither plan nor normalised features are
    formed: `z_i = Σ_j w_j a_ij` for the assignment `a_ij = softmax_i(-ε c_ij)`, and f̄ is a
    multiple of f. Distances within rounding error (1e-3 between unit vectors in float32) are 0 with
    gradient 0.

    Args:
        features: float tensor `(B, n, C)`, finite.
        prototypes: float tensor `(m, C)`.
        transport_ratio: μ in (0, 1], fraction of the mass of the features to transport.
        entropy_smoothing: ε > 0, inverse strength of the smoothing.
        solver: "newton" or "fixed_point", as for `partial_transport`.
        mask: optional boolean tensor `(B, n)`, False for absent features; these have weight 0, get
            no gradient and are not counted in n.

    Returns:
        pooled `(B, C)`, attributes `(B, m)` and weights `(B, n)`, float64 if an input is, else
        float32; each row of attributes and weights sums to 1.

    Example:
        >>> features = np.array([[[1.0, 0.0], [0.0, 0.1], [0.9, 0.0], [0.0, 0.0]]])
        >>> pooled, attributes, weights = generalized_sum_pooling(features, [[0.0, 0.1]], 0.5, 50.0)
        >>> weights.numpy().round(2).tolist()
        [[0.0, 0.5, 0.0, 0.5]]
        >>> pooled.numpy().round(2).tolist()
        [[0.0, 0.05]]
    """
    check_transport(transport_ratio, entropy_smoothing, solver)
    features, prototypes = at_least_float32(features, prototypes)
    present, n = presence(features[..., 0], mask)

    @custom_gradient
    def pool(features, prototypes):
        square_norms, scale, prototype_squares, square_costs = _squares(features, prototypes)
        feature_squares = square_norms * scale * scale
        cost = ops.sqrt(square_costs)
        assignment = softmax(rounded(-entropy_smoothing * cost))
        # log s is computed from the nearest prototype, which has a_ij = exp(-ε c_ij) / s_j.
        log_s = rounded(-entropy_smoothing * ops.min(cost, axis=-1))
        log_s -= ops.log(ops.max(assignment, axis=-1))
        taken, left = taken_and_left(log_s, present, n, transport_ratio, solver)
        mass = n * transport_ratio
        weights = taken / mass
        pooled = _weighted_sums(features, weights)
        attributes = _weighted_sums(assignment, weights)

        # The gradient. Of the outputs Σ_j w_j f_j, z_i = Σ_j w_j a_ij, w_j = p_j / (n μ), and with
        # the upstream gradients P, Z and W, the loss has
        #   ∂L/∂p_j = (f_j·P + t_j + W_j) / (n μ),  t_j = Σ_i a_ij Z_i,
        # and Prop. 4.3 gives ∂L/∂log s_j. With log s_j = log Σ_i exp(-ε c_ij) and the softmax,
        #   ∂L/∂c_ij = -ε a_ij (∂L/∂log s_j + w_j (Z_i - t_j)).
        # Let b_j = 1 / max(1, ||f_j||), f̄_j = b_j f_j and q_ij = b_j ∂L/∂c_ij / c_ij (`pull`). As
        # c_ij = ||f̄_j - ω̄_i||,
        #   b_j ∂L/∂f̄_j = Σ_i q_ij (f̄_j - ω̄_i),  ∂L/∂ω̄_i = Σ_j (q_ij / b_j) ω̄_i - Σ_j q_ij f_j.
        # Within the unit ball, b_j = 1 and this is ∂L/∂f_j. Beyond it, f̄_j = f_j / ||f_j|| drops
        # the part along f̄_j: ∂L/∂f_j = (I - f̄_j f̄_jᵀ) b_j ∂L/∂f̄_j = Σ_i q_ij (f̄_j·ω̄_i) f̄_j -
        # Σ_i q_ij ω̄_i, where f̄_j·ω̄_i = (||f̄_j||² + ||ω̄_i||² - c_ij²) / 2 needs no more products.
        def gradient(g_pooled, g_attributes, g_weights):
            through = _products(assignment, g_attributes)
            g_taken = (_products(features, g_pooled) + through + g_weights) / mass
            g_log_s = through_solution(g_taken, taken, left)
            # b_j ∂L/∂c_ij = a_ij (α_j + β_j Z_i).
            beta = -entropy_smoothing * scale * weights
            alpha = -entropy_smoothing * scale * g_log_s - beta * through
            g_cost = assignment * ops.matmul(
                ops.stack([alpha, beta], axis=-1),
                ops.stack([ops.ones_like(g_attributes), g_attributes], axis=1),
            )
            pull = ops.divide_no_nan(g_cost, cost)
            # The factors of f̄_j: Σ_i q_ij in the ball, Σ_i q_ij (f̄_j·ω̄_i) on the sphere.
            total = _row_sums(pull)
            on_sphere = feature_squares * total + ops.tensordot(pull, prototype_squares, 1)
            on_sphere = 0.5 * (on_sphere - _row_sums(g_cost * cost))
            own = scale * ops.where(square_norms < 1.0, total, on_sphere)
            g_features = (
                ops.expand_dims(own, -1) * features
                + ops.expand_dims(weights, -1) * g_pooled[:, None]
            )
            # Started earlier, the product would hold one more array of the size of the features.
            g_features += after(g_features, lambda: ops.tensordot(pull, -prototypes, 1))
            g_prototypes = ops.tensordot(1.0 / scale, pull, 2)[:, None] * prototypes
            g_prototypes -= ops.matmul(ops.transpose(_rows(pull)), _rows(features))
            return g_features, g_prototypes

        return (pooled, attributes, weights), gradient

    return pool(features, lipschitz_normalize(prototypes))


def attribute_maps(
    features: Tensor,
    prototypes: Tensor,
    transport_ratio: float,
    entropy_smoothing: float,
    solver: Solver = "newton",
    mask: Tensor | None = None,
) -> Tensor:
    """Share `(B, n, m)` of every local feature in every attribute, `π_ij / μ = w_j a_ij`."""
    # The sum over features gives the attributes of `generalized_sum_pooling`, and the sum over
    # prototypes gives its weights.
    weights = generalized_sum_pooling(
        features, prototypes, transport_ratio, entropy_smoothing, solver, mask
    )[2]
    features, prototypes = at_least_float32(features, prototypes)
    cost = safe_sqrt(_squares(features, lipschitz_normalize(prototypes))[-1])
    return ops.expand_dims(weights, -1) * softmax(rounded(-entropy_smoothing * cost))


def _squares(features, prototypes):
    """`||f||²`, `1 / max(1, ||f||)`, `||ω̄||²` and `||f̄ - ω̄||²`, 0 within rounding error."""
    largest = float(np.finfo(keras.backend.standardize_dtype(features.dtype)).max)
    square_norms = ops.minimum(_row_sums(ops.square(features)), largest)
    scale = ops.rsqrt(ops.maximum(square_norms, 1.0))
    prototype_squares = ops.sum(ops.square(prototypes), axis=-1)
    square_sums = ops.expand_dims(square_norms * scale * scale, -1) + prototype_squares
    products = ops.tensordot(features, ops.transpose(-2.0 * prototypes), 1)
    squares = ops.expand_dims(scale, -1) * products + square_sums
    squares = ops.where(squares > relative_rounding(features) * square_sums, squares, 0.0)
    return square_norms, scale, prototype_squares, squares


def _row_sums(x):
    """Sums over the last axis as a matrix product, which XLA vectorises on a CPU."""
    return ops.tensordot(x, ops.ones((x.shape[-1],), x.dtype), 1)


def _rows(x):
    return ops.reshape(x, (-1, x.shape[-1]))


def _weighted_sums(x, weights):
    """`Σ_j w_j x_j` `(B, C)` for x `(B, n, C)` and weights `(B, n)`."""
    return ops.matmul(weights[:, None], x)[:, 0]


def _products(x, y):
    """`x_j . y` `(B, n)` for x `(B, n, C)` and y `(B, C)`."""
    return ops.matmul(x, ops.expand_dims(y, -1))[..., 0]
