"""Integers that name things: labels, sources, ids, and seeds."""

from typing import Any

import numpy as np

LARGEST = 2**63 - 1


def integers(values: Any, name: str, largest: int = LARGEST) -> np.ndarray:
    """The values as int64: equal ones stay equal, and different ones stay different.

    Args:
        values: NumPy array, or what NumPy makes an array of.
        name: name of the values in errors.
        largest: the largest accepted value; the smallest is -largest - 1.

    Raises:
        TypeError: if the values are not integers.
        ValueError: if a value is out of range.

    Example:
        >>> integers(np.array([1, 2**63], "uint64"), "labels")
        Traceback (most recent call last):
            ...
        ValueError: labels must lie in -9223372036854775808 to 9223372036854775807, received ...
    """
    array = np.asarray(values)
    dtype = array.dtype
    if dtype.kind == "O" or (dtype.kind not in "iu" and not hasattr(values, "dtype")):
        # NumPy makes floats or objects of Python's integers that no type holds together.
        exact = np.asarray(values, dtype=object)
        array = exact if all(map(_is_integer, exact.flat)) else None
    if array is None or array.dtype.kind not in "iuO":
        raise TypeError(f"{name} must be integers; received dtype {dtype}.")
    if array.size and not -largest - 1 <= int(array.min()) <= int(array.max()) <= largest:
        wrong = int(array.max()) if int(array.max()) > largest else int(array.min())
        raise ValueError(
            f"{name} must lie in {-largest - 1} to {largest}, received {wrong}. Number them with "
            f"np.unique({name}, return_inverse=True)[1]."
        )
    return array.astype(np.int64)


def checked_seed(seed: int | None) -> int | None:
    """The seed, which NumPy, Keras, scikit-learn and faiss take; None is none.

    Raises:
        ValueError: if the seed is neither None nor an integer from 0 to 2^32 - 1.

    Example:
        >>> checked_seed(-1)
        Traceback (most recent call last):
            ...
        ValueError: seed must be an integer between 0 and 4294967295; received -1.
    """
    if seed is not None and not (_is_integer(seed) and 0 <= seed < 2**32):
        raise ValueError(f"seed must be an integer between 0 and {2**32 - 1}; received {seed!r}.")
    return seed


def _is_integer(value):
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
