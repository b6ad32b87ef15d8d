"""Number types with a range for the fields of a recipe, and the base class of its sections."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType
from typing import ClassVar, get_args, get_type_hints

from jsonargparse.typing import restricted_number_type

from gsp_tf._refusals import described

_LARGEST = 2**32 - 1  # as of a seed; TensorFlow and files count in 64 bits

Count = restricted_number_type("Count", int, (">=", 1))
Seed = restricted_number_type("Seed", int, [(">=", 0), ("<", 2**32)])
Positive = restricted_number_type("Positive", float, [(">", 0), ("<", math.inf)])
NonNegative = restricted_number_type("NonNegative", float, [(">=", 0), ("<", math.inf)])
PositiveShare = restricted_number_type("PositiveShare", float, [(">", 0), ("<=", 1)])
ShareBelowOne = restricted_number_type("ShareBelowOne", float, [(">=", 0), ("<", 1)])


@dataclass(frozen=True)
class Section:
    """A section of a recipe, which refuses numbers outside the ranges of its types."""

    section_path: ClassVar[str] = ""

    def __init_subclass__(cls, path: str = "") -> None:
        cls.section_path = f"{path}." if path else ""

    def __post_init__(self) -> None:
        for name, hint in _hints(type(self)).items():
            value = getattr(self, name)
            if not _fits(value, hint):
                self.refuse(name, described(hint))
            if isinstance(value, int) and abs(value) > _LARGEST:
                self.refuse(name, f"at most {_LARGEST:,}")
            if isinstance(value, float) and not math.isfinite(value):
                self.refuse(name, "finite")
            if hasattr(type(value), "_restrictions"):  # a parsed number becomes a plain one
                object.__setattr__(self, name, type(value).__bases__[-1](value))
        self.check()

    def check(self) -> None:
        """Refuse incompatible values."""

    def refuse(self, name, accepted, received=None):
        """Raise `ValueError` about a field."""
        received = getattr(self, name) if received is None else received
        received = "null" if received is None else received
        raise ValueError(f"{self.section_path}{name} must be {accepted}, received {received}.")


@cache
def _hints(section):
    hints = get_type_hints(section)
    return {field.name: hints[field.name] for field in fields(section)}


def _fits(value, hint):
    """Whether a number lies in the range of its type; other values are not checked."""
    kinds = get_args(hint) or (hint,)
    if value is None:
        return NoneType in kinds
    ranges = [kind for kind in kinds if hasattr(kind, "_restrictions")]
    if not ranges or not isinstance(value, (int, float)):
        return True
    return all(matches(value, bound) for matches, bound in ranges[0]._restrictions)
