"""Generalized max pooling (Murray and Perronnin, CVPR 2014)."""

from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import check_choice, check_positive
from gsp_tf._backend import available, custom_gradient
from gsp_tf._numerics import solve_positive_definite
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling._base import LocalFeaturePooling

_Solver = Literal["cholesky", "conjugate_gradient"]
_EPSILON = float(np.finfo("float64").eps)
_MAX_ITERATIONS = 2000
_NOISE = 16.0  # rounding errors of a slope, below which it is done when it no longer falls
_DIVERGED = 100.0  # squared slope over that at the start


class GeneralizedMaxPooling(LocalFeaturePooling):
    """Weighted sum of local features that is equally similar to rare and frequent ones.

    The pooled ξ minimises `Σ_j (f_jᵀ ξ - 1)² + λ ||ξ||²`. In dual form it is `ξ = Σ_j α_j f_j` with
    `(K + λ I) α = 1` and `K_ij = f_iᵀ f_j`; the weights α may be negative. λ to infinity is sum
    pooling, up to scale. "Generalized Max Pooling" (CVPR 2014) and "Interferences in Match Kernels"
    (Murray, Jégou, Perronnin, Zisserman, TPAMI 2017).

    The system is solved in float64. Its rounding error is about `ε (n + C) Σ_j ||f_j||²` with the
    machine epsilon ε. An error above λ replaces λ: with a hundred features of 512 channels and
    `λ = 1`, this happens from values of about 10,000 on. JAX without `jax_enable_x64` solves it in
    float32, where this happens from values of about 1 on: ξ is then up to 5 % off.

    The plain interpreter of LiteRT has neither Cholesky factorisations nor float64. For it,
    `solver="conjugate_gradient"` minimises the sum of squares itself, in the type of the features,
    by products and sums. Its iterations, at most 2000, and its error grow with the ratio of the
    largest singular value of the features to the smallest, or to √λ if this is larger. In float32
    it differs from the other solver by up to 2e-5 of the largest value for ratios to 200, and by
    7e-5 for 2000. Its gradient is computed by the Cholesky factorisation.

    Args:
        regularization: λ > 0.
        solver: "cholesky", or "conjugate_gradient", for export as LiteRT.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map or a set. Output: `(B, C)`.

    Example:
        >>> import numpy as np
        >>> features = np.array([[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])
        >>> GeneralizedMaxPooling(regularization=0.01)(features).numpy().round(2).tolist()
        [[1.0, 0.99]]
    """

    def __init__(
        self,
        regularization: float = 1.0,
        solver: _Solver = "cholesky",
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_positive(regularization=regularization)
        check_choice("solver", solver, _Solver)
        self.regularization = regularization
        self.solver = solver

    def pool(self, features: Tensor, average: Tensor) -> Tensor:
        if self.solver == "conjugate_gradient":
            return _by_conjugate_gradient(features, self.regularization)
        features, system = _dual_system(features, self.regularization)
        # Masked features are 0: their weights multiply 0 and do not affect the others.
        weights = solve_positive_definite(system, ops.ones_like(features[..., :1]))
        return ops.sum(weights * features, axis=1)


def _dual_system(features, regularization):
    """The features and `K + λ I`, in float64 where there is one."""
    wide = available("float64")
    features = ops.cast(features, wide)
    gram = ops.matmul(features, ops.swapaxes(features, 1, 2))
    n, channels = ops.shape(features)[1:]
    trace = ops.sum(ops.square(features), axis=(1, 2), keepdims=True)
    epsilon = float(np.finfo(wide).eps)
    rounding = epsilon * ops.cast(n + channels, wide) * ops.stop_gradient(trace)
    ridge = ops.maximum(rounding, regularization)
    return features, gram + ridge * ops.eye(n, dtype=wide)


def _by_conjugate_gradient(features, regularization):
    """The pooled features `(B, C)` of sets `(B, n, C)`, with builtin operations of LiteRT alone."""

    @custom_gradient
    def pooled(features):
        def gradient(upstream):
            # With A = K + λ I, α = A^-1 1 and v = A^-1 F g for the gradient g of ξ = Fᵀ α, that of
            # F is α (g - Fᵀ v)ᵀ - v ξᵀ.
            wide, system = _dual_system(features, regularization)
            upstream = ops.cast(ops.expand_dims(upstream, 1), wide.dtype)
            products = ops.matmul(wide, ops.swapaxes(upstream, 1, 2))
            right = ops.concatenate([ops.ones_like(products), products], axis=-1)
            solved = solve_positive_definite(system, right)
            weights, through = solved[..., :1], solved[..., 1:]
            result = ops.sum(weights * wide, axis=1, keepdims=True)
            rest = upstream - ops.sum(through * wide, axis=1, keepdims=True)
            return (ops.cast(weights * rest - through * result, features.dtype),)

        return (_least_squares(features, regularization),), gradient

    return pooled(features)[0]


def _least_squares(features, regularization):
    """Minimum of `||F ξ - 1||² + λ ||ξ||²` by conjugate gradients, in the type of the features."""
    # The residual 1 - F ξ is kept beside ξ ("CGLS", Hestenes and Stiefel 1952): products of F, not
    # of its squares, limit the accuracy. With F = c G, ξ = ζ / (c + λ/c), and numbers near 1.
    dtype = keras.backend.standardize_dtype(features.dtype)
    largest = ops.max(ops.abs(features), axis=(1, 2), keepdims=True)
    largest = ops.where(largest == 0.0, ops.ones_like(largest), largest)
    features = features / largest
    squares = ops.sum(ops.square(features), axis=2, keepdims=True)
    n, channels = ops.shape(features)[1:]
    rounding = _EPSILON * ops.cast(n + channels, dtype) * ops.sum(squares, axis=1, keepdims=True)
    ridge = ops.maximum(regularization / largest, rounding * largest)
    ratio = ops.minimum(ridge / largest, 1e30)
    of_fit, of_ridge = 1.0 / (1.0 + ratio), ratio / (1.0 + ratio)
    squares = ops.swapaxes(squares, 1, 2)
    noise = (_NOISE * float(np.finfo(dtype).eps)) ** 2

    def norm(x):
        return ops.sum(ops.square(x), axis=2, keepdims=True)

    def advance(best, least, solution, residual, direction, size, done):
        change = ops.swapaxes(ops.matmul(features, ops.swapaxes(direction, 1, 2)), 1, 2)
        curvature = of_fit * norm(change) + of_ridge * norm(direction)
        step = size / ops.maximum(curvature, 1e-37)
        solution = solution + step * direction
        residual = residual - step * of_fit * change
        slope = ops.matmul(residual, features) - of_ridge * solution
        new_size = norm(slope)
        # After the last digit, rounding errors add up: the slope rises again. NaN is taken, and
        # ends the iteration.
        is_best = ops.logical_not(done | (new_size >= least))
        best = ops.where(is_best, solution, best)
        least = ops.where(is_best, new_size, least)
        errors = ops.sum(squares * ops.square(residual), axis=2, keepdims=True)
        errors = noise * (errors + norm(of_ridge * solution))
        advances = (new_size > errors) | (new_size < size)
        advances = advances & (new_size < _DIVERGED * first)
        direction = slope + new_size / ops.maximum(size, 1e-37) * direction
        done = done | ops.logical_not(advances)
        return best, least, solution, residual, direction, new_size, done

    residual = ops.ones_like(squares)
    slope = ops.matmul(residual, features)
    start, first = ops.zeros_like(slope), norm(slope)
    done = ops.zeros_like(first, dtype="bool")
    solution, *_ = ops.while_loop(
        lambda *state: ops.logical_not(ops.all(state[-1])),
        advance,
        (start, first, start, residual, slope, first, done),
        maximum_iterations=_MAX_ITERATIONS,
    )
    return ops.squeeze(solution / (largest + ridge), axis=1)
