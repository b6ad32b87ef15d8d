"""The smallest of many distances, exactly, in NumPy's vectorised sorts of integers."""

import numpy as np

GROUPS = 1024


def padded_width(count):
    """Number of columns, a multiple of `GROUPS`, for `count` distances and at least one more.

    Example:
        >>> padded_width(1023), padded_width(1024)
        (1024, 2048)
    """
    return (count // GROUPS + 1) * GROUPS


def smallest_columns(values, k):
    """Some columns that hold the k smallest values of each row.

    The columns fall into groups, column c into group c mod `GROUPS`. The k smallest values lie in
    the k groups with the smallest minima.

    Args:
        values: float32 array `(b, w)`, w a multiple of `GROUPS`.
        k: 1 to w.

    Returns:
        integer array `(b, s)`, s at least k.

    Example:
        >>> values = np.arange(4096, dtype=np.float32)[None]
        >>> columns = smallest_columns(values, 2)
        >>> np.sort(columns).tolist()
        [[0, 1, 1024, 1025, 2048, 2049, 3072, 3073]]
    """
    rows, width = values.shape
    if k >= GROUPS:
        return np.broadcast_to(np.arange(width), values.shape)
    minima = np.maximum(values.reshape(rows, -1, GROUPS).min(axis=1), 0)
    keys = _keys(minima, np.arange(GROUPS))
    groups = np.partition(keys, k - 1, axis=1)[:, :k] % GROUPS
    return (groups[:, None] + np.arange(0, width, GROUPS)[:, None]).reshape(rows, -1)


def ranked_flags(distances, columns, flags, k):
    """The flags of the k smallest distances, the smallest first; ties go to the lower column.

    Args:
        distances: float32 array `(..., w)`, not negative.
        columns: integer array that broadcasts with it, below 2^31.
        flags: bool array that broadcasts with it.
        k: 1 to w.

    Returns:
        bool array `(..., k)`.

    Example:
        >>> distances = np.array([[3.0, 1.0, 2.0, 2.0]], np.float32)
        >>> columns = np.array([[0, 1, 3, 2]])
        >>> ranked_flags(distances, columns, np.array([[True, True, True, False]]), 3)
        array([[ True, False,  True]])
    """
    keys = _keys(distances, columns << 1 | flags)
    if k < keys.shape[-1]:
        keys = np.partition(keys, k - 1, axis=-1)[..., :k]
    return (np.sort(keys, axis=-1) & 1).astype(bool)


def _keys(distances, low):
    """Integers that sort as the distances do and, where these are equal, as `low` does."""
    # The bits of a float that is not negative, read as an integer, sort as the float does.
    keys = np.left_shift(distances.view(np.int32), 32, dtype=np.int64)
    keys |= low
    return keys
