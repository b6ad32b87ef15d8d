"""Lists of the image files that a user names."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from gsp_tf._console import bulleted
from gsp_tf._typing import PathLike
from gsp_tf.data import IMAGE_EXTENSIONS, LeftOut, find_images, read_rows


class ListedImage(NamedTuple):
    """The absolute path of an image file, and its class, `None` if unknown."""

    path: str
    label: str | None


def list_images(sources: Sequence[PathLike]) -> list[ListedImage]:
    """The distinct image files in files, folders (searched at any depth) and .csv files."""
    labels = {}
    for source in sources:
        for path, label in _listed(Path(source)):
            path = os.path.abspath(path)
            known = labels.get(path)
            if known is not None and label is not None and known != label:
                raise ValueError(f"{path} has two labels: {known!r} and {label!r}.")
            labels[path] = label if known is None else known
    return [ListedImage(path, label) for path, label in labels.items()]


def list_digest(images: Iterable[ListedImage]) -> str:
    """SHA-256 of the paths and labels of images, in order."""
    digest = hashlib.sha256()
    for path, label in images:
        digest.update(repr((path, label)).encode())
    return digest.hexdigest()


def _listed(source):
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist; expected an image, a folder or a .csv.")
    if source.is_dir():
        return _in_folder(source)
    if source.suffix.lower() == ".csv":
        return _in_manifest(source)
    return [(source, None)]


def _in_folder(folder):
    left_out = LeftOut()
    images = find_images(folder, left_out)
    if not images:
        accepted = ", ".join(IMAGE_EXTENSIONS)
        left_out.problems.append(f"there are no images in it; accepted are {accepted}")
    left_out.report(folder, stacklevel=5)
    found = []
    for path in images:
        parents = Path(path).relative_to(folder).parts[:-1]
        found.append((path, parents[0] if parents else None))
    return sorted(found, key=lambda image: (image[1] or "", image[0]))


def _in_manifest(manifest):
    rows = read_rows(manifest)
    if not rows:
        raise ValueError(f"{manifest} lists no images.")
    empty = [f"line {row.line}: the path is empty" for row in rows if not row.path]
    if empty:
        raise ValueError(f"{manifest} cannot be used:\n{bulleted(empty)}")
    return [(row.path, row.label or None) for row in rows]
