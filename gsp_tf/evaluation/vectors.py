"""Checks of embeddings and labels."""

import warnings

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._integers import integers
from gsp_tf._typing import Relation


def checked_embeddings(embeddings: ArrayLike, name: str, wide: bool = False) -> np.ndarray:
    """Returns embeddings as a finite, contiguous float32 array `(N, D)`.

    Args:
        embeddings: real numbers `(N, D)` of any floating or integer dtype.
        name: name of the array in errors.
        wide: returns numbers that float32 does not hold in float64.

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
        narrow = np.ascontiguousarray(array, dtype=np.float32)
    is_finite = np.isfinite(narrow)
    if not is_finite.all():
        bad = np.count_nonzero(~is_finite.all(axis=1))
        raise ValueError(
            f"{name} must be finite in float32; {bad} of {len(array)} rows hold NaN or infinity."
        )
    if wide and not np.can_cast(array.dtype, np.float32):
        return np.ascontiguousarray(array, dtype=np.float64)
    return narrow


def warn_of_own_images(queries: np.ndarray, references: np.ndarray) -> None:
    """Warns where references are the queries, row by row, so that each query finds itself."""
    if np.array_equal(queries, references):
        warnings.warn(
            f"Each of the {len(queries)} queries finds itself: the reference of the same row is at "
            "distance 0, so the first result says nothing. Give other references, or none, and "
            "each query searches the other queries.",
            stacklevel=4,
        )


def checked_labels(labels: ArrayLike, count: int, name: str) -> np.ndarray:
    """Returns labels as an integer array `(count,)`.

    Args:
        labels: integers `(count,)` or `(count, 1)`.
        count: number of embeddings.
        name: name of the array in errors.

    Raises:
        ValueError: if the shape is neither `(count,)` nor `(count, 1)`, or int64 does not hold a
            label.
        TypeError: if the dtype is not an integer.

    Example:
        >>> checked_labels([[3], [4]], 2, "labels")
        array([3, 4])
    """
    hint = " Label vectors need a relation, such as 'any'." if np.ndim(labels) == 2 else ""
    try:
        array = integers(labels, name)
    except TypeError as error:
        raise TypeError(f"{error}{hint}") from None
    if array.shape not in ((count,), (count, 1)):
        raise ValueError(
            f"{name} must have shape ({count},) or ({count}, 1), one label per embedding; "
            f"received {array.shape}.{hint}"
        )
    return array.reshape(count)


def checked_label_vectors(
    labels: ArrayLike, count: int, name: str, relation: Relation = "any"
) -> np.ndarray:
    """Returns label vectors, such as multi-hot tags, as an array `(count, C)`."""
    array = np.asarray(labels)
    low, high = (-np.inf, np.inf) if callable(relation) else (0, 1)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers; received dtype {array.dtype}.")
    accepted = (1, 2) if callable(relation) else (2,)
    if array.ndim not in accepted or len(array) != count or not array.size:
        raise ValueError(
            f"{name} must have shape ({count}, C), one label vector per embedding; received "
            f"{array.shape}."
        )
    is_met = np.isfinite(array) & (array >= low) & (array <= high)
    if not is_met.all():
        raise ValueError(
            f"{name} must be finite and lie in {low} to {high}; received {array[~is_met][0]}."
        )
    return array if callable(relation) and array.dtype.kind in "iu" else array.astype(np.float32)


def unit_vectors(embeddings: np.ndarray) -> np.ndarray:
    """Embeddings of unit length in float64, which avoids overflow; zero vectors stay zero."""
    lengths = np.sqrt(np.einsum("nd,nd->n", embeddings, embeddings, dtype=np.float64))
    lengths[lengths == 0] = 1
    return embeddings / lengths[:, None]


def distinct_rows(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first rows `(U,)` of the different ones of `(N, D)`, and which of them each row is."""
    rows = np.ascontiguousarray(array + array.dtype.type(0))  # -0 becomes 0
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    return np.unique(keys, return_index=True, return_inverse=True)[1:]


def truncated(embeddings: np.ndarray, dim: int) -> np.ndarray:
    """The first components of embeddings, normalised to length 1 again.

    A model trained with `MatryoshkaLoss` has embeddings that can be cut like this.

    Args:
        embeddings: float32 `(N, D)`.
        dim: d, number of components to keep.

    Returns:
        float32 `(N, d)`; zero vectors stay zero.

    Raises:
        ValueError: if `dim` is not between 1 and D.

    Example:
        >>> truncated(np.float32([[3.0, 4.0, 12.0]]), 2)
        array([[0.6, 0.8]], dtype=float32)
    """
    if not 1 <= dim <= embeddings.shape[1]:
        raise ValueError(
            f"The embeddings have {embeddings.shape[1]} dimensions; their prefixes have between 1 "
            f"and {embeddings.shape[1]}, received {dim}."
        )
    return unit_vectors(embeddings[:, :dim]).astype(np.float32)
