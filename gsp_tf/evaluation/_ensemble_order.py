"""Exact selection of the smallest distances with vectorised integer sorts in NumPy."""

import numpy as np

GROUPS = 1024


def padded_width(count: int) -> int:
    """Number of columns, a multiple of `GROUPS`, for `count` distances and at least one more."""
    return (count // GROUPS + 1) * GROUPS


def smallest_columns(values: np.ndarray, k: int) -> np.ndarray:
    """Columns `(b, k or more)` that hold the k smallest of each row of float32 `(b, w)`."""
    # Column c is in group c mod `GROUPS`, and `GROUPS` divides w. The k smallest values lie in the
    # k groups with the smallest minima.
    rows, width = values.shape
    if k >= GROUPS:
        return np.broadcast_to(np.arange(width), values.shape)
    minima = np.maximum(values.reshape(rows, -1, GROUPS).min(axis=1), 0)
    keys = _keys(minima, np.arange(GROUPS))
    groups = np.partition(keys, k - 1, axis=1)[:, :k] % GROUPS
    return (groups[:, None] + np.arange(0, width, GROUPS)[:, None]).reshape(rows, -1)


def ranked_flags(
    distances: np.ndarray, columns: np.ndarray, flags: np.ndarray, k: int
) -> np.ndarray:
    """Flags of the k smallest float32 distances >= 0 in order; ties go to the lower column."""
    keys = _keys(distances, columns << 1 | flags)
    if k < keys.shape[-1]:
        keys = np.partition(keys, k - 1, axis=-1)[..., :k]
    return (np.sort(keys, axis=-1) & 1).astype(bool)


def _keys(distances, low):
    """Integers that sort by distance, and by `low` where distances are equal."""
    # The bits of a non-negative float, read as an integer, sort like the float.
    keys = np.left_shift(distances.view(np.int32), 32, dtype=np.int64)
    keys |= low
    return keys
