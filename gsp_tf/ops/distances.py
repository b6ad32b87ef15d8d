"""Euclidean distances between all pairs, with a gradient that is finite everywhere."""

import math

import keras
import numpy as np
from keras import ops

from gsp_tf.ops.precision import at_least_float32


def pairwise_distances(x, y=None, squared=False):
    """Euclidean distance of every row of `x` to every row of `y`.

    `||x_i - y_j||^2 = ||x_i||^2 - 2 x_i . y_j + ||y_j||^2`, as one matrix product. A squared
    distance below the rounding error of that sum, `max(4, sqrt(D) / 2) eps (||x_i||^2 + ||y_j||^2)`
    for the machine epsilon `eps` of the type, cannot be told from zero: such a pair counts as
    coincident, its distance is exactly 0 and its gradient is 0.

    Args:
        x: float tensor `(..., a, D)`.
        y: float tensor `(..., b, D)`; `x` itself if `None`.
        squared: return squared distances.

    Returns:
        tensor `(..., a, b)`, float64 for float64 inputs, float32 otherwise.

    Raises:
        ValueError: if the two last dimensions differ.

    Example:
        >>> import numpy as np
        >>> points = np.array([[0.0, 0.0], [3.0, 4.0]], "float32")
        >>> pairwise_distances(points).numpy().tolist()
        [[0.0, 5.0], [5.0, 0.0]]
    """
    x, y = at_least_float32(x, x if y is None else y)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            "pairwise_distances needs x (..., a, D) and y (..., b, D) with the same D, "
            f"received shapes {tuple(x.shape)} and {tuple(y.shape)}."
        )
    square_norms = ops.expand_dims(ops.sum(ops.square(x), axis=-1), -1) + ops.expand_dims(
        ops.sum(ops.square(y), axis=-1), -2
    )
    square_distances = square_norms - 2.0 * ops.matmul(x, ops.swapaxes(y, -1, -2))
    coincident = square_distances <= relative_rounding(x) * square_norms
    if squared:
        return ops.where(coincident, 0.0, square_distances)
    return ops.where(coincident, 0.0, ops.sqrt(ops.where(coincident, 1.0, square_distances)))


def relative_rounding(x):
    """Rounding error of a squared distance over the sum of squared norms it is computed from.

    Args:
        x: float tensor `(..., D)`, one side of the distances.

    Returns:
        float, `max(4, sqrt(D) / 2) eps` for the machine epsilon `eps` of the type of `x`.

    Example:
        >>> import numpy as np
        >>> relative_rounding(np.ones((2, 100), "float32")) == 5 * 2.0**-23
        True
    """
    epsilon = float(np.finfo(keras.backend.standardize_dtype(x.dtype)).eps)
    return max(4.0, math.sqrt(x.shape[-1]) / 2.0) * epsilon
