"""The image files that a user names."""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from gsp_tf._console import bulleted
from gsp_tf.data import IMAGE_EXTENSIONS, LeftOut, find_images, read_rows


class ListedImage(NamedTuple):
    """An image file and its class.

    Args:
        path: absolute path of the file.
        label: name of its class, `None` if it is not known.
    """

    path: str
    label: str | None


def list_images(sources):
    """List the image files that are named by themselves, by folders and by manifests.

    A file has no label. In a folder, searched at any depth for files with an image extension, the
    label is the name of the first folder below it, and files that lie in it directly have none. One
    warning for each folder tells what else lies there and is left out, as `load_folder` tells it.
    A file whose name ends in .csv is a manifest with the columns path and label, of which the
    second may be empty. A file that is named twice is listed once.

    Args:
        sources: paths of files, folders and manifests.

    Returns:
        list of `ListedImage`, in the order of the sources, those of a folder sorted.

    Raises:
        FileNotFoundError: if a source does not exist.
        ValueError: if a folder or a manifest holds no images, a manifest is damaged, or two sources
            give an image different labels.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     os.mkdir(f"{folder}/cat")
        ...     for name in ("cat/1.png", "2.png"):
        ...         Path(folder, name).touch()
        ...     [(os.path.basename(path), label) for path, label in list_images([folder])]
        [('2.png', None), ('1.png', 'cat')]
    """
    labels = {}
    for source in sources:
        for path, label in _listed(Path(source)):
            path = os.path.abspath(path)
            known = labels.get(path)
            if known is not None and label is not None and known != label:
                raise ValueError(f"{path} has two labels: {known!r} and {label!r}.")
            labels[path] = label if known is None else known
    return [ListedImage(path, label) for path, label in labels.items()]


def fingerprint(images):
    """SHA-256 of the paths and labels of images, in their order.

    Args:
        images: list of `ListedImage`.

    Returns:
        str of 64 hexadecimal digits.

    Example:
        >>> fingerprint([ListedImage("/a.png", None)])[:8]
        '1b122a7d'
    """
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
