"""Numerics that several packages share."""

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import integers
from gsp_tf._backend import available, custom_gradient, rounded
from gsp_tf._typing import Tensor


def at_least_float32(*tensors: Tensor) -> Tensor | list[Tensor]:
    """Convert to floating tensors of at least 32 bits, all of one type; a list of several."""
    # Sums of squares overflow float16 and lose most digits in bfloat16. Distances and transport are
    # therefore computed in float32 for half-precision inputs, and in float64 if one is float64.
    tensors = [ops.convert_to_tensor(x) for x in tensors]
    wide = any(keras.backend.standardize_dtype(x.dtype) == "float64" for x in tensors)
    tensors = [ops.cast(x, "float64" if wide else "float32") for x in tensors]
    return tensors[0] if len(tensors) == 1 else tensors


def exact_labels(labels: Any) -> Any:
    """Integers that are no tensor yet as int64, or int32 where JAX has no int64; it merges none."""
    is_on_host = isinstance(labels, np.ndarray | np.generic | Sequence | int)
    is_on_host = is_on_host or hasattr(labels, "to_numpy")  # columns of tables
    if is_on_host and not any(map(ops.is_tensor, keras.tree.flatten(labels))):
        with contextlib.suppress(TypeError):
            return integers(labels, "labels", int(np.iinfo(available("int64")).max))
    return labels


def safe_sqrt(x: Tensor) -> Tensor:
    """Square roots with zero gradient at 0; those of negative numbers are 0 too."""
    is_zero = x <= 0
    return ops.where(is_zero, 0.0, ops.sqrt(ops.where(is_zero, 1.0, x)))


def relative_rounding(x: Tensor) -> float | Tensor:
    """Rounding error of a squared distance of rows, relative to the sum of two squared norms."""
    dtype = keras.backend.standardize_dtype(x.dtype)
    size = x.shape[-1]
    if size is None:
        size = ops.maximum(8.0, ops.sqrt(ops.cast(ops.shape(x)[-1], dtype)))
    else:
        size = max(8.0, math.sqrt(size))
    # Of coincident rows of 8 to 2048 columns, the largest is two thirds of this.
    return size * float(np.finfo(dtype).eps) * (1.0 if dtype == "float64" else 0.5)


def scaled_down(
    u: Tensor, axis: int | tuple[int, ...] = -1, limit: float = 2.0**56
) -> tuple[Tensor, Tensor]:
    """Large vectors over a unit, so that products of their values do not overflow, and the unit."""
    # The unit is 1 unless a value exceeds the limit (7e16), to which it scales the largest value.
    # It has no gradient: a function of the vectors and the unit that is right for any unit has the
    # right gradient.
    u = ops.convert_to_tensor(u)
    largest = ops.stop_gradient(ops.max(ops.abs(u), axis=axis, keepdims=True))
    unit = ops.maximum(largest / limit, 1.0)
    return u / unit, unit


def scaled_back(u: Tensor, *units: Tensor) -> Tensor:
    """`u unit_1 unit_2 ...`; a product beyond the range of the type is its largest number."""
    u = ops.convert_to_tensor(u)
    largest = float(np.finfo(keras.backend.standardize_dtype(u.dtype)).max)
    for unit in units:
        u = ops.clip(u * unit, -largest, largest)
    return u


def average_weights(features: Tensor, mask: Tensor | None = None) -> Tensor:
    """Weights `(B, n)` of average pooling: 1/n for the n features that the mask keeps, else 0."""
    present = ops.ones_like(features[..., 0])
    if mask is not None:
        present = ops.cast(mask, present.dtype)
    return present / ops.maximum(ops.sum(present, axis=-1, keepdims=True), 1.0)


def softmax(logits: Tensor, axis: int = -1) -> Tensor:
    """Softmax, without Keras' warning about an axis of size 1."""
    if logits.shape[axis] == 1:
        return ops.exp(logits - logits)
    return ops.softmax(logits, axis=axis)


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last axis without entries that the mask leaves out; 0 if it keeps none."""
    scores = rounded(at_least_float32(scores))
    if mask is None:
        return ops.exp(ops.log_softmax(scores, axis=-1))
    mask = ops.cast(mask, "bool")
    scores = ops.where(mask, scores, float(np.finfo("float32").min))
    return ops.where(mask, ops.exp(ops.log_softmax(scores, axis=-1)), 0.0)


def solve_positive_definite(matrix: Tensor, right: Tensor) -> Tensor:
    """Solution X `(..., n, k)` of `A X = B` by a Cholesky factorisation; NaN if A is not finite."""
    matrix, right = at_least_float32(matrix, right)

    @custom_gradient
    def solve(matrix, right):
        # A factorisation of a non-finite matrix stops the program on some backends. Here NaN passes
        # through, so that the trainer can notice it.
        finite = ops.all(ops.isfinite(matrix), axis=(-1, -2), keepdims=True)
        identity = ops.eye(ops.shape(matrix)[-1], dtype=matrix.dtype)
        factor = ops.cholesky(ops.where(finite, matrix, identity))

        def solved(right):
            half = ops.solve_triangular(factor, right, lower=True)
            return ops.solve_triangular(ops.swapaxes(factor, -1, -2), half, lower=False)

        solution = ops.where(finite, solved(right), float("nan"))

        # The same factor serves: g_B = A^-1 g_X and g_A = -g_B Xᵀ.
        def gradient(upstream):
            through_right = solved(upstream)
            through_matrix = -ops.matmul(through_right, ops.swapaxes(solution, -1, -2))
            return through_matrix, through_right

        return (solution,), gradient

    return solve(matrix, right)[0]
