"""Imports on first use: names of packages, TensorFlow, and classes that saved models need."""

import ast
import contextlib
import functools
import importlib
import importlib.abc
import importlib.util
import os
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


def load_with_keras():
    """Lets `keras.saving.load_model` find the classes of this library without importing them.

    Keras looks a registered class up in a dict by its name. As soon as Keras is imported, the dict
    gets a placeholder for each class, which a class replaces when its module is imported.
    """
    if "keras" in sys.modules:
        _put_placeholders()
    else:
        Loading("keras", _load_keras)


_CORETYPE = "OPENBLAS_CORETYPE"
_KERNELS = {name: name for name in ("Haswell", "Zen", "SkylakeX")}
_KERNELS |= {"Cooperlake": "SkylakeX", "SapphireRapids": "SkylakeX"}
"""Processors for which NumPy's OpenBLAS has kernels, and those of faiss' OpenBLAS for them."""


def load_with_faiss():
    """Lets faiss compute with kernels for this processor, as NumPy does.

    The OpenBLAS in the packages of faiss is of 2021. On a processor that it does not know, it takes
    kernels of 2004, with which an exhaustive search lasts up to eight times as long.
    """
    Loading("faiss", _load_faiss)


def _load_faiss(execute, module):
    import numpy  # noqa: F401  # loads its OpenBLAS
    from threadpoolctl import threadpool_info

    found = {_KERNELS.get(library.get("architecture")) for library in threadpool_info()} - {None}
    if _CORETYPE in os.environ or len(found) != 1:
        execute(module)
        return
    os.environ[_CORETYPE] = found.pop()
    try:
        execute(module)
    finally:
        del os.environ[_CORETYPE]


class Loading(importlib.abc.MetaPathFinder):
    """Makes the import of a module `load(execute, module)`; `execute(module)` runs its code."""

    def __init__(self, name, load):
        self._name, self._load = name, load
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)  # Keras looks for TensorFlow before anything imports it
        if spec is not None:
            spec.loader.exec_module = functools.partial(self._load, spec.loader.exec_module)
        return spec


def _load_keras(execute, module):
    execute(module)
    _put_placeholders()


def _put_placeholders():
    import keras

    objects = keras.saving.get_custom_objects()
    for name in _registered_names():
        objects.setdefault(name, _Placeholder(name))


def _registered_names():
    """Names that Keras knows the classes of this library by: exports, and four private ones."""
    names = {"FrozenNetwork", "PatchTokens", "PathRules", "TrainedPositions"}
    for package in ("layers", "losses", "training"):
        face = Path(__file__).parent / package / "__init__.py"
        names.update(ast.literal_eval(ast.parse(face.read_text("utf-8")).body[-1].value))
    return {f"gsp_tf>{name}" for name in names}


class _Placeholder:
    """A class of the library that nobody has imported yet."""

    def __init__(self, name):
        self._name = name

    def from_config(self, config):
        importlib.import_module("gsp_tf.training")  # registers all of them
        import keras

        # Not `get_registered_object`, which finds the placeholder again while a model is loaded.
        return keras.saving.get_custom_objects()[self._name].from_config(config)
