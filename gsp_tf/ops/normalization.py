"""Normalisations of vectors with a gradient that is finite at zero."""

import math

import keras
import numpy as np
from keras import ops

from gsp_tf.ops.precision import at_least_float32


def l2_normalize(u):
    """Scale vectors to unit length, `u / ||u||`; a zero vector stays zero, with zero gradient.

    Zero is any vector whose components all have a square that underflows: below 3e-16 in float32.

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
    # The gradient has the third power of the norm, which float32 does not hold beyond 1e12.
    u = u / ops.where(largest > math.sqrt(precision.tiny / precision.eps), largest, 1.0)
    square_norm = ops.sum(ops.square(u), axis=-1, keepdims=True)
    is_zero = square_norm < 0.5
    return ops.where(is_zero, 0.0, u * ops.rsqrt(ops.where(is_zero, 1.0, square_norm)))


def lipschitz_normalize(u):
    """Pull vectors into the unit ball, `u / max(1, ||u||)`.

    GSP paper, section 4.1; thesis, section 3.2.4. Unlike L2 normalisation it is 1-Lipschitz
    everywhere, at zero too.

    Args:
        u: float tensor `(..., D)`.

    Returns:
        tensor `(..., D)`, float64 for float64 inputs, float32 otherwise.

    Example:
        >>> lipschitz_normalize([[3.0, 4.0], [0.3, 0.4]]).numpy().tolist()
        [[0.6, 0.8], [0.3, 0.4]]
    """
    u = at_least_float32(u)
    square_norm = ops.sum(ops.square(u), axis=-1, keepdims=True)
    return u * ops.rsqrt(ops.maximum(square_norm, 1.0))
