"""Validation shared by the evaluation functions."""

import numpy as np


def checked_embeddings(embeddings, name):
    """Returns `embeddings` as a finite, contiguous float32 array of rank 2.

    Args:
        embeddings: real array-like `(N, D)` of any floating or integer dtype.
        name: what to call the array in errors.

    Returns:
        float32 array `(N, D)`.

    Raises:
        ValueError: if the rank is not 2, N or D is 0, or a value is not finite in float32.
        TypeError: if the values are not real numbers.

    Example:
        >>> checked_embeddings([[1.0, float("nan")], [0.0, 1.0]], "queries")
        Traceback (most recent call last):
            ...
        ValueError: queries must be finite in float32; 1 of 2 rows hold NaN or infinity.
    """
    array = np.asarray(embeddings)
    if array.dtype.kind in "cOSUmM":
        raise TypeError(f"{name} must hold real numbers; received dtype {array.dtype}.")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must be a non-empty (N, D) array; received {array.shape}.")
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, dtype=np.float32)
    is_finite = np.isfinite(array)
    if not is_finite.all():
        bad = np.count_nonzero(~is_finite.all(axis=1))
        raise ValueError(
            f"{name} must be finite in float32; {bad} of {len(array)} rows hold NaN or infinity."
        )
    return array


def checked_labels(labels, count, name):
    """Returns `labels` as an integer vector of length `count`.

    Args:
        labels: integer array-like `(count,)` or `(count, 1)`.
        count: the number of embeddings that the labels belong to.
        name: what to call the array in errors.

    Returns:
        integer array `(count,)`.

    Raises:
        ValueError: if the shape is neither `(count,)` nor `(count, 1)`.
        TypeError: if the dtype is not an integer.

    Example:
        >>> checked_labels([[3], [4]], 2, "labels")
        array([3, 4])
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers; received dtype {array.dtype}.")
    if array.shape not in ((count,), (count, 1)):
        raise ValueError(
            f"{name} must have shape ({count},) or ({count}, 1), one label an embedding; "
            f"received {array.shape}."
        )
    return array.reshape(count)
