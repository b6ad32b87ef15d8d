"""Vectors at unit length, and in the unit ball."""

import math

import keras
import numpy as np
from keras import ops

from gsp_tf._numerics import at_least_float32, scaled_down
from gsp_tf._typing import Tensor


def l2_normalize(u: Tensor) -> Tensor:
    """Scale vectors to unit length, `u / ||u||`; a zero vector stays zero, with zero gradient.

    Zero is any vector with all components below `sqrt(tiny / eps)` of the type: 3e-16 in float32.

    Args:
        u: float tensor `(..., D)`.

    Returns:
        tensor `(..., D)`, float64 for float64 inputs, float32 otherwise.

    Example:
        >>> l2_normalize([[3.0, 4.0], [0.0, 0.0]]).numpy().tolist()
        [[0.6, 0.8], [0.0, 0.0]]
    """
    u = at_least_float32(u)
    precision = np.finfo(keras.backend.standardize_dtype(u.dtype))
    largest = ops.stop_gradient(ops.max(ops.abs(u), axis=-1, keepdims=True))
    # The gradient contains the cube of the norm, which overflows float32 beyond 1e12.
    u = u / ops.where(largest > math.sqrt(precision.tiny / precision.eps), largest, 1.0)
    square_norm = ops.sum(ops.square(u), axis=-1, keepdims=True)
    is_zero = square_norm < 0.5
    return ops.where(is_zero, 0.0, u * ops.rsqrt(ops.where(is_zero, 1.0, square_norm)))


def lipschitz_normalize(u: Tensor) -> Tensor:
    """Pull vectors into the unit ball, `u / max(1, ||u||)`.

    GSP paper, section 4.1; thesis, section 3.2.4. Unlike L2 normalisation, it is 1-Lipschitz
    everywhere, including at zero.

    Args:
        u: float tensor `(..., D)`.

    Returns:
        tensor `(..., D)`, float64 for float64 inputs, float32 otherwise.

    Example:
        >>> lipschitz_normalize([[3.0, 4.0], [0.3, 0.4]]).numpy().tolist()
        [[0.6, 0.8], [0.3, 0.4]]
    """
    # The gradient contains the cube of the norm, which overflows float32 beyond 1e12.
    u, _ = scaled_down(at_least_float32(u), limit=2.0**24)
    square_norm = ops.sum(ops.square(u), axis=-1, keepdims=True)
    return u * ops.rsqrt(ops.maximum(square_norm, 1.0))
