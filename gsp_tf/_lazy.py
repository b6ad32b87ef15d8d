"""Packages that import their names on first use, and TensorFlow in the same way."""

import ast
import contextlib
import importlib
import sys
import types
from pathlib import Path


def import_lazily(package):
    """Makes a package import its exports, listed under `if TYPE_CHECKING:`, on first use."""
    sys.modules[package].__class__ = _LazyPackage


class _LazyPackage(types.ModuleType):
    """A package that imports a name on first use."""

    def __getattr__(self, name):
        origin = _origins(self).get(name)
        if origin is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if origin == self.__name__:
            return importlib.import_module(f"{origin}.{name}")
        with _explaining(f"{self.__name__}.{name}"):
            value = getattr(importlib.import_module(origin), name)
        setattr(self, name, value)
        return value

    def __dir__(self):
        return sorted({*super().__dir__(), *_origins(self)})


def _origins(package):
    """The module of each name that the package imports under `if TYPE_CHECKING:`."""
    if "_imports" not in vars(package):
        source = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
        vars(package)["_imports"] = {
            alias.name: statement.module
            for block in source.body
            if isinstance(block, ast.If)
            for statement in block.body
            if isinstance(statement, ast.ImportFrom)
            for alias in statement.names
        }
    return vars(package)["_imports"]


@contextlib.contextmanager
def _explaining(what):
    """Says what needs TensorFlow if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise ImportError(
            f"{what} needs TensorFlow, whatever the backend of Keras is, and TensorFlow is not "
            "installed: pip install tensorflow."
        ) from error


class _TensorFlow(types.ModuleType):
    """TensorFlow, imported on first use."""

    def __getattr__(self, name):
        with _explaining("This function of gsp_tf"):
            module = importlib.import_module("tensorflow")
        return getattr(module, name)


tensorflow = _TensorFlow("tensorflow")


def has_tensorflow() -> bool:
    """Whether TensorFlow can be imported; if so, it is."""
    try:
        importlib.import_module("tensorflow")
    except ImportError:
        return False
    return True
