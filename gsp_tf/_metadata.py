"""Frozen dataclasses that are stored as JSON files."""

import dataclasses
import math
import platform
import sys
import types
import typing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from gsp_tf._files import SEAL, check_seal, json_object, replace_bytes, sealed_json
from gsp_tf._typing import PathLike
from gsp_tf._version import __version__

LARGEST = 2**31 - 1
"""The most that a number of dimensions, images or bytes of text may be."""

_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Preprocessing:
    """How an image is prepared for the model."""

    image_size: int
    resize: int | None


@dataclass(frozen=True)
class ModelInfo:
    """The model that made embeddings: checksum of its file, recipe, run and preprocessing."""

    sha256: str
    recipe: str
    run: str
    preprocessing: Preprocessing


def check_range(name: str, value: float | None, low: float, high: float) -> None:
    """Raises `ValueError` unless a number is `None` or in a range."""
    if value is not None and not low <= value <= high:
        raise ValueError(f"{name} is {value!r}; expected {low:g} to {high:g}.")


def check_same_model(
    ours: ModelInfo | None, theirs: ModelInfo | None, both: str, advice: str = ""
) -> None:
    """Raises `ValueError` if models or preprocessing differ; `both` names their owners."""
    if ours is None or theirs is None:
        if ours is theirs:
            return
        problem = "one of them does not say which model made its embeddings"
    elif ours.sha256 == theirs.sha256:
        a, b = (dataclasses.asdict(model.preprocessing) for model in (ours, theirs))
        if a == b:
            return
        problem = f"the preprocessing is {a} and {b}"
    elif ours.run == theirs.run:
        problem = f"the models are two of {ours.run}, which was trained again in between"
    else:
        problem = f"the models are of {ours.run} and {theirs.run}"
    raise ValueError(f"{both} do not belong together: {problem}. {advice}".rstrip())


class Metadata:
    """Base of dataclasses stored as JSON files with the name and version of their format.

    Each file holds the checksum of its other bytes. `again` says how to write the file again.
    """

    format: ClassVar[str]
    format_version: ClassVar[int]
    again: ClassVar[str]

    def write(self, path: PathLike) -> None:
        """Writes the file under a temporary name, then renames it."""
        header = {"format": self.format, "format_version": self.format_version}
        write_entries(path, header | dataclasses.asdict(self))

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """Reads the file; a `ValueError` names the file and the wrong entry."""
        content = Path(path).read_bytes()
        entries = json_object(path, content)
        name, number = entries.pop("format", None), entries.pop("format_version", None)
        if name != cls.format:
            raise ValueError(f"{path} does not describe {cls.format}; received format {name!r}.")
        if number != cls.format_version:
            raise ValueError(
                f"{path} has format version {number!r}; this version of gsp_tf reads "
                f"{cls.format_version}. {cls.again}"
            )
        check_seal(path, content, cls.again)
        return parsed_entries(cls, path, entries)


def write_entries(path: PathLike, entries: dict[str, Any]) -> None:
    """Writes a JSON object and the checksum of its bytes."""
    replace_bytes(path, sealed_json(entries))


def parsed_entries(kind: type[_Kind], path: PathLike, entries: dict[str, Any]) -> _Kind:
    """A dataclass from the entries of a file."""
    try:
        return parsed(kind, {name: entries[name] for name in entries if name != SEAL}, "")
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def parsed(kind: Any, value: Any, name: str) -> Any:
    """Converts a JSON value to a Python type; raises `ValueError` if it does not fit."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and type(value) is dict:
        hints = {field.name: field.type for field in dataclasses.fields(kind)}
        wrong = sorted(set(hints) ^ set(value))
        if wrong:
            raise ValueError(f"{name or 'it'} lacks entries, or has too many: {', '.join(wrong)}.")
        return kind(**{key: parsed(hints[key], value[key], key) for key in value})
    if origin in (types.UnionType, typing.Union):
        return None if value is None else parsed(arguments[0], value, name)
    if origin is tuple and type(value) is list:
        return tuple(parsed(arguments[0], entry, name) for entry in value)
    if origin is dict and type(value) is dict:
        return {key: parsed(arguments[1], entry, name) for key, entry in value.items()}
    if origin is typing.Literal and type(value) is str and value in arguments:
        return value
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        expected = getattr(kind, "__name__", str(kind)).lstrip("_")
        raise ValueError(f"{name} is {value!r:.200}; expected {expected}.")
    return value


def versions(*packages: str) -> dict[str, str]:
    """Versions of this library, Python and some packages."""
    return {
        "gsp_tf": __version__,
        **{name: _version(name) for name in packages},
        "python": platform.python_version(),
    }


def _version(package):
    """The version of a package; another distribution may bring it, as tensorflow-cpu does."""
    try:
        return version(package)
    except PackageNotFoundError:
        return sys.modules[package].__version__
