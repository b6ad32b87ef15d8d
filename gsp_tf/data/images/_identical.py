"""Images that are byte for byte the same, and groups of images that sets share."""

import hashlib
import itertools
import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gsp_tf._console import show_progress
from gsp_tf._files import file_sha256
from gsp_tf._typing import PathLike
from gsp_tf.data.images.image_set import ArrayImages, ImageSet

_UNKNOWN = -1


def identical_files(paths: Sequence[PathLike]) -> np.ndarray:
    """Numbers files by their content: integers `(N,)`, the same for the same bytes.

    Only files of the same size are read, and compared by their SHA-256. A file that is not there or
    cannot be read has -1.
    """
    paths = [os.path.realpath(path) for path in paths]
    places = {path: number for number, path in enumerate(dict.fromkeys(paths))}
    sizes = np.array([_size(path) for path in places])
    numbers = np.where(sizes == _UNKNOWN, _UNKNOWN, np.arange(len(sizes)))
    _, same_size, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    shared = np.flatnonzero((counts[same_size] > 1) & (sizes != _UNKNOWN))
    files, known = list(places), {}
    with ThreadPoolExecutor() as pool:
        digests = pool.map(_digest, [files[row] for row in shared])
        for row, digest in zip(
            shared, show_progress(digests, "Comparing files", len(shared)), strict=True
        ):
            numbers[row] = _UNKNOWN if digest is None else known.setdefault(digest, row)
    return numbers[[places[path] for path in paths]]


def _size(path):
    """The size of a file, or -1."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return _UNKNOWN
    return found.st_size if stat.S_ISREG(found.st_mode) else _UNKNOWN


def _digest(path):
    """The SHA-256 of a file, or `None`."""
    try:
        return file_sha256(path)
    except OSError:
        return None


def identical_images(sets: Sequence[ImageSet]) -> np.ndarray | None:
    """Numbers the images of several sets by their content, as `identical_files` does.

    `None` if the sets are of different kinds, or draw their images.
    """
    if all(hasattr(images, "paths") for images in sets):
        return identical_files([path for images in sets for path in images.paths])
    if not all(type(images) is ArrayImages for images in sets):
        return None
    known: dict[bytes, int] = {}
    shown = (images.identity(row) for images in sets for row in range(len(images)))
    digests = (hashlib.sha256(of_image).digest() for of_image in shown)
    return np.array([known.setdefault(digest, number) for number, digest in enumerate(digests)])


def shared_images(
    groups: np.ndarray, sets: Sequence[str]
) -> dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]:
    """Rows of the images in each of two sets that have one of their group in the other.

    Given are the group of each image, negative for none, and its set. Two sets that share nothing
    are left out; names are in order of appearance.
    """
    names = dict.fromkeys(sets)
    groups, sets = np.asarray(groups), np.asarray(sets)
    rows = {name: np.flatnonzero((sets == name) & (groups >= 0)) for name in names}
    found = {}
    for one, other in itertools.combinations(names, 2):
        shared = np.intersect1d(groups[rows[one]], groups[rows[other]])
        if len(shared):
            both = (rows[name][np.isin(groups[rows[name]], shared)] for name in (one, other))
            found[one, other] = tuple(both)
    return found
