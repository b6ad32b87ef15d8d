"""The base class of the sections of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from types import NoneType
from typing import ClassVar, get_args, get_type_hints

from gsp_tf._numbers import checked
from gsp_tf._refusals import described


@dataclass(frozen=True)
class Section:
    """A section of a recipe, which refuses numbers outside the ranges of its types."""

    section_path: ClassVar[str] = ""

    def __init_subclass__(cls, path: str = "") -> None:
        cls.section_path = f"{path}." if path else ""

    def __post_init__(self) -> None:
        for name, hint in _hints(type(self)).items():
            value = getattr(self, name)
            if value is None and NoneType not in get_args(hint):
                self.refuse(name, described(hint))
            object.__setattr__(self, name, checked(value, f"{self.section_path}{name}", hint))
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
