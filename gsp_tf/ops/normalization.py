"""Vectors in at least float32, at unit length, and in the unit ball."""

import math

import keras
import numpy as np
from keras import ops

from gsp_tf._typing import Tensor


def at_least_float32(*tensors: Tensor) -> Tensor | list[Tensor]:
    """Convert to floating tensors of at least 32 bits, all of one type.

    Sums of squares overflow float16 and lose most digits in bfloat16. Distances and transport are
    therefore computed in float32 for half-precision inputs, and in float64 if one input is float64.

    Args:
        tensors: arrays or tensors of any shapes and numeric types.

    Returns:
        tensor of the same shape, or a list of them if several are given.

    Example:
        >>> import numpy as np
        >>> at_least_float32(np.ones(2, "float16")).dtype.name
        'float32'
        >>> [x.dtype.name for x in at_least_float32(np.ones(2), np.ones(2, "float32"))]
        ['float64', 'float64']
    """
    tensors = [ops.convert_to_tensor(x) for x in tensors]
    wide = any(keras.backend.standardize_dtype(x.dtype) == "float64" for x in tensors)
    tensors = [ops.cast(x, "float64" if wide else "float32") for x in tensors]
    return tensors[0] if len(tensors) == 1 else tensors


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


def scaled_down(
    u: Tensor, axis: int | tuple[int, ...] = -1, limit: float = 2.0**56
) -> tuple[Tensor, Tensor]:
    """Divide large vectors by a unit, so that the products of their values do not overflow.

    The unit is 1 unless a value exceeds the limit, to which it scales the largest value. It has no
    gradient: a function of the vectors and the unit that is right for any unit has the right
    gradient.

    Args:
        u: float tensor, at least float32.
        axis: axes that share a unit.
        limit: largest magnitude that is kept; 2^56 is 7e16.

    Returns:
        the scaled vectors, and the units with these axes of size 1.

    Example:
        >>> u, unit = scaled_down([[3.0, -4.0], [2.0**57, 2.0**58]])
        >>> unit.numpy().tolist(), u.numpy()[0].tolist()
        ([[1.0], [4.0]], [3.0, -4.0])
    """
    u = ops.convert_to_tensor(u)
    largest = ops.stop_gradient(ops.max(ops.abs(u), axis=axis, keepdims=True))
    unit = ops.maximum(largest / limit, 1.0)
    return u / unit, unit


def scaled_back(u: Tensor, *units: Tensor) -> Tensor:
    """Products of vectors and units, `u unit_1 unit_2 ...`, clipped to the range of the type.

    A product beyond the range counts as the largest number of the type, with zero gradient.

    Args:
        u: float tensor of any shape.
        units: tensors that broadcast to its shape, as from `scaled_down`.

    Returns:
        tensor of the same shape.

    Example:
        >>> scaled_back(np.array([2.0, -2.0], "float32"), 1e30, 1e20).numpy().tolist()
        [3.4028234663852886e+38, -3.4028234663852886e+38]
    """
    u = ops.convert_to_tensor(u)
    largest = float(np.finfo(keras.backend.standardize_dtype(u.dtype)).max)
    for unit in units:
        u = ops.clip(u * unit, -largest, largest)
    return u
