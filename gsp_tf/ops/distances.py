"""Distances between all pairs, with a gradient that is finite everywhere."""

import keras
import numpy as np
from keras import ops

from gsp_tf._backend import available
from gsp_tf._numerics import at_least_float32, relative_rounding, safe_sqrt
from gsp_tf._typing import Tensor

_NEAR = 1024.0 * float(np.finfo("float32").eps)


def pairwise_distances(
    x: Tensor, y: Tensor | None = None, squared: bool = False, where: Tensor | bool = True
) -> Tensor:
    """Euclidean distance of every row of `x` to every row of `y`.

    The squared distance is `||x_i||^2 - 2 x_i . y_j + ||y_j||^2`, computed as one matrix product.
    Its rounding error is up to `r (||x_i||^2 + ||y_j||^2)`, `r = max(8, sqrt(D)) eps` with the
    machine epsilon `eps` of float64, and half of that with the one of float32. A pair within that
    error cannot be told from a coincident one: its distance is exactly 0 and its gradient is 0.

    In float32 this would hold for all unit vectors nearer than 1e-3. If a squared distance is less
    than `1024 eps (||x_i||^2 + ||y_j||^2)` (unit vectors nearer than 0.016), all distances are
    therefore computed again in float64. Only unit vectors nearer than 1e-7 then coincide. Value and
    gradient then take 1.6 to 2.9 times as long. On a backend without float64, such as JAX by
    default, the limit of 1e-3 remains.

    Args:
        x: float tensor `(..., a, D)`.
        y: float tensor `(..., b, D)`; `x` if `None`, and a row with itself is not a near pair.
        squared: return squared distances.
        where: True for the pairs `(..., a, b)` whose distances are used, broadcast; other near
            pairs do not trigger float64.

    Returns:
        tensor `(..., a, b)`, float64 for float64 inputs, float32 otherwise.

    Example:
        >>> import numpy as np
        >>> points = np.array([[0.0, 0.0], [3.0, 4.0]], "float32")
        >>> pairwise_distances(points).numpy().tolist()
        [[0.0, 5.0], [5.0, 0.0]]
    """
    is_alone = y is None
    x, y = at_least_float32(x, x if is_alone else y)
    if min(len(x.shape), len(y.shape)) < 2 or x.shape[-1] != y.shape[-1]:
        raise ValueError(
            "pairwise_distances needs x (..., a, D) and y (..., b, D) with the same D, "
            f"received shapes {tuple(x.shape)} and {tuple(y.shape)}."
        )
    if is_alone:
        rows = ops.arange(ops.shape(x)[-2])
        where = ops.logical_and(where, ops.not_equal(rows[:, None], rows))
    unit = common_unit(x, y)
    x, y = x / unit, y / unit
    square_distances, square_norms = _expanded(x, y)
    dtype = square_distances.dtype
    is_wide = keras.backend.standardize_dtype(dtype) != "float32"
    if where is not False and not is_wide and available("float64") == "float64":
        near = square_distances < _NEAR * square_norms
        square_distances = ops.cond(
            ops.any(ops.logical_and(near, where)),
            lambda: ops.cast(_expanded(ops.cast(x, "float64"), ops.cast(y, "float64"))[0], dtype),
            lambda: square_distances,
        )
    if squared:
        return square_distances * unit * unit
    return safe_sqrt(square_distances) * unit


def common_unit(x, y):
    """What to divide both by, so that their squares do not overflow; it has no gradient."""
    # Squares of values above 1e19 overflow in float32.
    return ops.stop_gradient(ops.maximum(ops.maximum(*map(_largest, (x, y))) / 2.0**56, 1.0))


def _largest(x):
    """The largest magnitude in each matrix `(..., 1, 1)`; 0 without any."""
    row = [[0, 0]] * (len(x.shape) - 2) + [[0, 1], [0, 0]]  # of zeros
    return ops.max(ops.pad(ops.abs(x), row), axis=(-2, -1), keepdims=True)


def _expanded(x, y):
    """Squared distances (0 within rounding error) and sums of squared norms, both `(..., a, b)`."""
    x_squares, y_squares = (ops.sum(ops.square(z), axis=-1) for z in (x, y))
    square_norms = ops.expand_dims(x_squares, -1) + ops.expand_dims(y_squares, -2)
    square_distances = square_norms - 2.0 * ops.matmul(x, ops.swapaxes(y, -1, -2))
    coincident = square_distances <= relative_rounding(x) * square_norms
    return ops.where(coincident, 0.0, square_distances), square_norms
