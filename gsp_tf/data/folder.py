"""A user's own images, one folder a class."""

import os
import warnings
from pathlib import Path

from gsp_tf.data.image_set import FileImages
from gsp_tf.data.messages import listed
from gsp_tf.data.readable import check_readable

IMAGE_EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


def load_folder(
    path: str | os.PathLike, channels: int = 3, skip_unreadable: bool = False
) -> FileImages:
    """Reads a folder that holds one folder a class, images at any depth below it.

    Every file is decoded once to find those that cannot be read. Hidden files and files without an
    image extension are ignored.

    Args:
        path: The folder; the names of its folders are the class names.
        channels: 1 (grey) or 3 (RGB), what the images are converted to.
        skip_unreadable: Whether to go on without files that cannot be read, and warn of them.

    Returns:
        The images, classes and files in sorted order.

    Raises:
        FileNotFoundError: If `path` does not exist.
        NotADirectoryError: If `path` is not a folder.
        ValueError: If there are fewer than two classes, a class has no images, or files are
            unreadable.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("cat", "dog"):
        ...         os.mkdir(f"{folder}/{name}")
        ...         Image.new("RGB", (4, 4)).save(f"{folder}/{name}/1.png")
        ...     images = load_folder(folder)
        >>> images.class_names, len(images)
        (('cat', 'dog'), 2)
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected a folder, one folder a class.")
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is not a folder; expected one, with one folder a class.")
    entries = [entry for entry in sorted(path.iterdir()) if not entry.name.startswith(".")]
    classes = {entry.name: image_files(entry) for entry in entries if entry.is_dir()}
    _check_classes(path, classes)
    stray = sum(_is_image(entry.name) for entry in entries if entry.is_file())
    if stray:
        warnings.warn(
            f"{stray} images lie in {path} itself, in no class folder; they are left out.",
            stacklevel=2,
        )
    found = [file for files in classes.values() for file in files]
    readable = check_readable(found, skip_unreadable)
    classes = {name: [f for f in files if f in readable] for name, files in classes.items()}
    _check_classes(path, classes)
    return FileImages(
        [file for files in classes.values() for file in files],
        [label for label, files in enumerate(classes.values()) for _ in files],
        list(classes),
        channels=channels,
    )


def image_files(folder: str | os.PathLike) -> list[str]:
    """Finds the image files in a folder, at any depth, by their extension.

    Args:
        folder: The folder; hidden files and folders in it are ignored.

    Returns:
        Their paths, sorted.

    Example:
        >>> image_files("no/such/folder")
        []
    """
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [os.path.join(parent, name) for name in files if _is_image(name)]
    return sorted(found)


def _is_image(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith(IMAGE_EXTENSIONS)


def _check_classes(path: Path, classes: dict[str, list[str]]) -> None:
    empty = [repr(name) for name, files in classes.items() if not files]
    if classes and len(empty) == len(classes):
        raise ValueError(
            f"no images in the class folders of {path}; accepted are {', '.join(IMAGE_EXTENSIONS)}."
        )
    if empty:
        raise ValueError(
            f"class folders without a readable image in {path}: {listed(empty)}. "
            f"Remove them or add images ({', '.join(IMAGE_EXTENSIONS)})."
        )
    if len(classes) < 2:
        raise ValueError(
            f"at least two classes are needed, one folder each; {path} holds "
            f"{len(classes)}: {list(classes)}."
        )
