"""Checks of arguments that several packages share."""

import math
import re
from collections.abc import Iterable
from typing import Any, get_args

import numpy as np

from gsp_tf._typing import Relation, Solver

_RELATIONS = get_args(get_args(Relation)[0])


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Raise ValueError unless the value of an argument is one of those of a `Literal`."""
    if value not in get_args(choices):
        accepted = ", ".join(get_args(choices))
        raise ValueError(f"{name} must be one of {accepted}, received {value!r}.")


def check_positive(**numbers: float) -> None:
    """Raise ValueError unless the arguments of these names are positive and finite."""
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise ValueError(f"{name} must be positive and finite, received {number}.")


def check_at_least(least: float, **numbers: float) -> None:
    """Raise ValueError unless the arguments of these names are at least so large."""
    for name, number in numbers.items():
        if not number >= least:
            bound = f"be at least {least}" if least else "not be negative"
            raise ValueError(f"{name} must {bound}, received {number}.")


def check_sizes(least: int = 1, /, **sizes: int) -> None:
    """Raise ValueError unless the arguments of these names are integers of at least so much."""
    for name, size in sizes.items():
        if not _is_integer(size) or size < least:
            raise ValueError(f"{name} must be an integer of at least {least}, received {size!r}.")


def check_share(**shares: float) -> None:
    """Raise ValueError unless the arguments of these names lie in 0 to 1."""
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise ValueError(f"{name} must lie in 0 to 1, received {share}.")


def check_relation(relation: Relation) -> None:
    """Raise ValueError for what is neither the name of a relation nor a function."""
    if not callable(relation) and relation not in _RELATIONS:
        raise ValueError(
            f"relation must be one of {', '.join(_RELATIONS)}, or a function of the labels of "
            f"anchors and references, received {relation!r}."
        )


def check_transport(
    transport_ratio: float, entropy_smoothing: float, solver: Solver = "newton"
) -> None:
    """Raise ValueError for arguments for which (P2) of GSP or its solver is not defined."""
    if not 0 < transport_ratio <= 1:
        raise ValueError(f"transport_ratio must lie in (0, 1], received {transport_ratio}.")
    check_positive(entropy_smoothing=entropy_smoothing)
    check_choice("solver", solver, Solver)


def check_patterns(patterns: Iterable[str]) -> None:
    """Raise ValueError for what is not a regular expression, and for one that is not in a list."""
    if isinstance(patterns, str):
        raise ValueError(f"Patterns must be a list of texts, received the text {patterns!r}.")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValueError(
                f"A pattern must be a regular expression, received {pattern!r}: {error}."
            ) from error


def idle_patterns(patterns: Iterable[str], paths: Iterable[str]) -> list[str]:
    """The patterns that `re.search` finds in none of the paths."""
    paths = list(paths)
    return [p for p in patterns if not any(re.search(p, path) for path in paths)]


LARGEST = 2**63 - 1


def integers(values: Any, name: str, largest: int = LARGEST) -> np.ndarray:
    """The values as int64, in -largest - 1 to largest, and different ones stay different.

    Raises a TypeError for other numbers, and a ValueError for integers out of range.
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
    """The seed as an `int`, or `None`; raises a ValueError for one that a library would refuse."""
    if seed is not None and not (_is_integer(seed) and 0 <= seed < 2**32):
        raise ValueError(f"seed must be an integer between 0 and {2**32 - 1}; received {seed!r}.")
    return None if seed is None else int(seed)


def _is_integer(value):
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
