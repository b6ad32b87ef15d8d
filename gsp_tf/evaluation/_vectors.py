"""Checks of embeddings and labels."""

import operator
import sys
import warnings

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._arguments import integers
from gsp_tf._typing import Relation


def checked_embeddings(embeddings: ArrayLike, name: str, wide: bool = False) -> np.ndarray:
    """Embeddings as a finite, contiguous float32 array `(N, D)`; `name` is theirs in errors."""
    # `wide` gives numbers that float32 does not hold in float64.
    array = np.asarray(embeddings)
    if array.dtype.kind in "cOSUmM":
        raise TypeError(f"{name} must hold real numbers; received dtype {array.dtype}.")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must be a non-empty (N, D) array; received {array.shape}.")
    if array.dtype == np.float32:
        narrow = np.ascontiguousarray(array)
    else:
        with np.errstate(over="ignore"):
            narrow = array.astype(np.float32, order="C")
    is_finite = np.isfinite(narrow)
    if not is_finite.all():
        bad = np.count_nonzero(~is_finite.all(axis=1))
        raise ValueError(
            f"{name} must be finite in float32; {bad} of {len(array)} rows hold NaN or infinity."
        )
    if wide and not np.can_cast(array.dtype, np.float32):
        return np.ascontiguousarray(array, dtype=np.float64)
    return narrow


def check_labelled(references: ArrayLike | None, reference_labels: ArrayLike | None) -> None:
    """Raise `ValueError` if only one of references and reference_labels is given."""
    if (references is None) != (reference_labels is None):
        given = "reference_labels" if references is None else "references"
        raise ValueError(f"references and reference_labels go together; received only {given}.")


def checked_images(
    queries: ArrayLike,
    query_labels: ArrayLike,
    references: ArrayLike | None,
    reference_labels: ArrayLike | None,
    relation: Relation = "equal",
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The embeddings and labels of queries and of references, checked."""
    check_labelled(references, reference_labels)

    def check(labels, embeddings, name):
        if relation == "equal":
            return checked_labels(labels, len(embeddings), name)
        return checked_label_vectors(labels, len(embeddings), name, relation)

    queries = checked_embeddings(queries, "queries")
    query_labels = check(query_labels, queries, "query_labels")
    if references is not None:
        references = checked_embeddings(references, "references")
        warn_of_own_images(queries, references)
        reference_labels = check(reference_labels, references, "reference_labels")
    return queries, query_labels, references, reference_labels


def warn_of_own_images(queries: np.ndarray, references: np.ndarray) -> None:
    """Warns where references are the queries, row by row, so that each query finds itself."""
    if np.array_equal(queries, references):
        level, frame = 1, sys._getframe()
        while frame is not None and frame.f_globals.get("__name__", "").startswith("gsp_tf."):
            level, frame = level + 1, frame.f_back  # measures call each other
        warnings.warn(
            f"Each of the {len(queries)} queries finds itself: the reference of the same row is at "
            "distance 0, so the first result says nothing. Give other references, or none, and "
            "each query searches the other queries.",
            stacklevel=level,
        )


def checked_labels(labels: ArrayLike, count: int, name: str) -> np.ndarray:
    """Labels `(count,)` or `(count, 1)` as integers `(count,)`; `name` is theirs in errors."""
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


def checked_count(name: str, count: int, most: int, of: str = "") -> int:
    """The count as an `int`; raises a `ValueError` unless it is between 1 and the most `of` it."""
    if not 1 <= operator.index(count) <= most:
        raise ValueError(f"{name} must be between 1 and {most}{of}; received {count}.")
    return operator.index(count)


def blocks(count: int, size: int) -> list[slice]:
    """Slices of `size` rows, and of the rest, which are `count` rows together."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def unit_vectors(embeddings: np.ndarray) -> np.ndarray:
    """Embeddings of unit length in float64, which avoids overflow; zero vectors stay zero."""
    lengths = np.sqrt(np.einsum("nd,nd->n", embeddings, embeddings, dtype=np.float64))
    lengths[lengths == 0] = 1
    return embeddings / lengths[:, None]


def rows_by_class(labels: np.ndarray) -> list[np.ndarray]:
    """The rows of each class, in the order of `numpy.unique`, by one sort for all classes."""
    counts = np.unique(labels, return_counts=True)[1]
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])


def distinct_rows(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first rows `(U,)` of the different ones of `(N, D)`, and which of them each row is."""
    rows = np.ascontiguousarray(array + array.dtype.type(0))  # -0 becomes 0
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    return np.unique(keys, return_index=True, return_inverse=True)[1:]


def truncated(embeddings: np.ndarray, dim: int) -> np.ndarray:
    """The first components of embeddings, normalised to length 1 again, float32 `(N, dim)`."""
    if not 1 <= dim <= embeddings.shape[1]:
        raise ValueError(
            f"The embeddings have {embeddings.shape[1]} dimensions; their prefixes have between 1 "
            f"and {embeddings.shape[1]}, received {dim}."
        )
    return unit_vectors(embeddings[:, :dim]).astype(np.float32)
