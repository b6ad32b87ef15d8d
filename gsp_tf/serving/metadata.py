"""The JSON files that describe folders of embeddings and indexes."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import gsp_tf
from gsp_tf._files import read_json, replace_text

VERSIONED = ("tensorflow", "keras", "numpy", "faiss-cpu", "pyarrow")  # make embeddings and indexes
_FORMAT_VERSION = 1


def write_metadata(path, format_name, entries):
    """Write a metadata file, under a temporary name first.

    Args:
        path: the JSON file.
        format_name: what it describes.
        entries: dict of values that JSON has.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_metadata(f"{folder}/a.json", "index", {"count": 3})
        ...     read_metadata(f"{folder}/a.json", "index", {"count": int})["count"]
        3
    """
    content = {"format": format_name, "format_version": _FORMAT_VERSION, **entries}
    replace_text(path, json.dumps(content, indent=2) + "\n")


def read_metadata(path, format_name, types):
    """Read a metadata file.

    Args:
        path: the JSON file.
        format_name: what it has to describe.
        types: dict from the names that it must have to their types.

    Returns:
        dict.

    Raises:
        ValueError: if it is no such file.
    """
    path = Path(path)
    entries = read_json(path)
    found = entries.get("format")
    if found != format_name:
        raise ValueError(f"{path} does not describe {format_name}; received format {found!r}.")
    if entries.get("format_version") != _FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {entries.get('format_version')!r}; this version of gsp_tf "
            f"reads {_FORMAT_VERSION}."
        )
    for name, kind in types.items():
        if type(entries.get(name)) is not kind:
            raise ValueError(
                f"{path} is damaged: it has no {name}, or not of type {kind.__name__}."
            )
    return entries


def versions(*packages):
    """Versions of this library, of Python and of the packages that a result depends on.

    Args:
        packages: names of distributions.

    Returns:
        dict from names to str.

    Example:
        >>> list(versions("numpy", "keras"))
        ['gsp_tf', 'numpy', 'keras', 'python']
    """
    return {
        "gsp_tf": gsp_tf.__version__,
        **{name: version(name) for name in packages},
        "python": platform.python_version(),
    }
