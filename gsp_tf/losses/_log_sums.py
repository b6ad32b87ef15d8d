"""Log-sums over the pairs that count, and sines of their angles."""

from keras import ops

from gsp_tf._backend import rounded, softplus
from gsp_tf._numerics import safe_sqrt
from gsp_tf._typing import Tensor


def log_sum_exp(exponents: Tensor, weights: Tensor, axis: int = -1) -> Tensor:
    """`log Σ w exp(e)` along an axis; 0, with zero gradient, where all weights are 0.

    Args:
        exponents: float tensor e.
        weights: float tensor w of the same shape; exponents of weight 0 may hold anything.
        axis: axis of the sum.

    Returns:
        tensor without that axis.

    Example:
        >>> log_sum_exp([[1000.0, 1000.0], [5.0, 7.0]], [[1.0, 1.0], [0.0, 0.0]]).numpy()
        array([1000.6932,    0.    ], dtype=float32)
    """
    exponents, weights = ops.convert_to_tensor(exponents), ops.convert_to_tensor(weights)
    exponents = rounded(exponents)
    counted = weights > 0
    lowest = ops.min(ops.where(counted, exponents, 0.0), axis=axis, keepdims=True)
    largest = ops.max(ops.where(counted, exponents, lowest), axis=axis, keepdims=True)
    largest = ops.stop_gradient(largest)
    terms = ops.exp(ops.where(counted, exponents - largest, 0.0))
    total = ops.sum(ops.where(counted, weights * terms, 0.0), axis=axis)
    some = ops.any(counted, axis=axis)
    return ops.where(
        some, ops.log(ops.where(some, total, 1.0)) + ops.squeeze(largest, axis=axis), 0.0
    )


def log1p_sum_exp(exponents: Tensor, weights: Tensor, axis: int = -1) -> Tensor:
    """`log(1 + Σ w exp(e))` along an axis; 0, with zero gradient, where all weights are 0.

    Args: those of `log_sum_exp`.

    Example:
        >>> log1p_sum_exp([[0.0, 0.0], [-200.0, 90.0]], [[1.0, 1.0], [1.0, 1.0]]).numpy()
        array([ 1.0986, 90.    ], dtype=float32)
    """
    some = ops.any(ops.convert_to_tensor(weights) > 0, axis=axis)
    return ops.where(some, softplus(log_sum_exp(exponents, weights, axis)), 0.0)


def sines(cosines: Tensor) -> Tensor:
    """`sqrt(1 - c^2)`; 0, with zero gradient, for cosines that rounding leaves at 1 or beyond."""
    return safe_sqrt(1.0 - ops.square(cosines))
