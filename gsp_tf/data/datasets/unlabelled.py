"""A user's own images that have no class."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from gsp_tf._typing import PathLike
from gsp_tf.data.datasets.folder import find_images
from gsp_tf.data.datasets.manifest import read_rows, row_problems
from gsp_tf.data.images._left_out import LeftOut
from gsp_tf.data.images.encoded_images import FileImages


def load_unlabelled(
    path: PathLike,
    channels: Literal[1, 3] = 3,
    skip_unreadable: bool = False,
    labelled: PathLike | None = None,
) -> FileImages:
    """Reads images without a class: those of a folder at any depth, or of a CSV file.

    Each image counts as a class of its own. Every file is decoded once to find unreadable ones. One
    warning lists everything that is left out, as for `load_folder`.

    Args:
        path: The folder, or a CSV file with the header `path,label`, whose rows without a label are
            the images.
        channels: Channels to convert to: 1 for grey or 3 for RGB.
        skip_unreadable: Leave out unreadable files with a warning instead of raising an error.
        labelled: The folder or CSV file that gives other images their class: images in its class
            folders, or in its rows with a label, are left to it. It may be `path` itself. A folder
            that lies in it has only images without a class.

    Returns:
        The images, with files sorted for a folder, named by their paths within it.

    Raises:
        FileNotFoundError: If `path` does not exist.
        ValueError: If files are unreadable, lines of the CSV file are wrong, or no image is left;
            the message lists all problems.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("cat/1.png", "2.png", "3.png"):
        ...         os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        ...         Image.new("RGB", (4, 4)).save(f"{folder}/{name}")
        ...     images = load_unlabelled(folder, labelled=folder)
        >>> images.class_names, images.labels.tolist()
        (('2.png', '3.png'), [0, 1])
    """
    path, left_out = Path(path), LeftOut()
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist; expected a folder of images or a CSV file."
        )
    if path.is_dir():
        folder, files = path, find_images(path, left_out)
    else:
        folder, rows = path.parent, [row for row in read_rows(path) if not row.label]
        left_out.add_wrong_lines(row_problems(rows, may_lack_label=True))
        files = [row.path for row in rows if os.path.isfile(row.path)]
    if labelled is not None:
        has_class = _has_class(Path(labelled), path)
        files = [file for file in files if not has_class(file)]
    unreadable = left_out.add_unreadable(files, skip_unreadable)
    files = [file for file in files if file not in unreadable]
    if not files:
        left_out.problems.append("it has no image without a class")
    left_out.report(path)
    names = [os.path.relpath(file, folder) for file in files]
    return FileImages(files, range(len(files)), names, channels=channels)


def _has_class(labelled: Path, path: Path) -> Callable[[PathLike], bool]:
    """Whether a folder or CSV file gives a file its class."""
    root = os.path.realpath(labelled)
    if labelled.is_file():
        known = {os.path.realpath(row.path) for row in read_rows(labelled) if row.label}
        return lambda file: os.path.realpath(file) in known
    if os.path.realpath(path).startswith(root + os.sep):
        return lambda file: False
    return lambda file: os.path.realpath(os.path.dirname(file)).startswith(root + os.sep)
