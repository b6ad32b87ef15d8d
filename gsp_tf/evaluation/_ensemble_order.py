"""Exact selection of the smallest distances with vectorised integer sorts in NumPy."""

import numpy as np

GROUPS = 1024


def padded_width(count: int) -> int:
    """Number of columns, a multiple of `GROUPS`, for `count` distances and at least one more."""
    return (count // GROUPS + 1) * GROUPS


def smallest_columns(values: np.ndarray, k: int) -> np.ndarray:
    """Columns `(b, k or more)` that hold the k smallest of each row of float32 `(b, w)` >= 0."""
    # Column c is in group c mod `GROUPS`, and `GROUPS` divides w. The k smallest values lie in the
    # k groups with the smallest minima; of equal minima, those of lower columns count.
    rows, width = values.shape
    if k >= GROUPS:
        return np.broadcast_to(np.arange(width), values.shape)
    grouped, low = values.reshape(rows, -1, GROUPS), np.arange(GROUPS)
    minima = grouped.min(axis=1)
    last = np.partition(minima, k - 1, axis=1)[:, k - 1 : k]
    if np.count_nonzero(minima <= last) > rows * k:
        low = grouped.argmin(axis=1) * GROUPS + low
    keys = _keys(minima, low)
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
