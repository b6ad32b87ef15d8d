"""A user's own images, one folder per class."""

import os
from pathlib import Path
from typing import Literal

from gsp_tf._console import counted
from gsp_tf._typing import PathLike
from gsp_tf.data.images._formats import IMAGE_EXTENSIONS
from gsp_tf.data.images._left_out import LeftOut
from gsp_tf.data.images.encoded_images import FileImages

_NO_PHOTOGRAPHS = ("__MACOSX", "@eaDir")  # folders that operating systems add


def load_folder(
    path: PathLike,
    channels: Literal[1, 3] = 3,
    skip_unreadable: bool = False,
    min_images_per_class: int = 2,
    unlabelled: PathLike | None = None,
) -> FileImages:
    """Reads a folder with one subfolder per class, which holds its images at any depth.

    Every file is decoded once to find unreadable ones. One warning lists everything that is left
    out: classes with too few images, images outside the class folders, files of other kinds, hidden
    files and folders, folders that an operating system adds, linked folders, and folders without
    read permission.

    Args:
        path: The folder; its subfolders are named after the classes.
        channels: Channels to convert to: 1 for grey or 3 for RGB.
        skip_unreadable: Leave out unreadable files with a warning instead of raising an error.
        min_images_per_class: Classes with fewer images are left out. The only image of a class has
            nothing to retrieve.
        unlabelled: Where `load_unlabelled` finds images without a class. If it is a folder in
            `path`, it is not a class. If it is `path`, these are the images outside the classes.

    Returns:
        The images, with classes and files sorted.

    Raises:
        FileNotFoundError: If `path` does not exist.
        NotADirectoryError: If `path` is not a folder.
        ValueError: If `min_images_per_class` is below 1, files are unreadable, or fewer than two
            classes are left; the message lists all problems.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        ...         os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        ...         Image.new("RGB", (4, 4)).save(f"{folder}/{name}")
        ...     images = load_folder(folder)
        >>> images.class_names, len(images)
        (('cat', 'dog'), 4)
    """
    if min_images_per_class < 1:
        raise ValueError(
            f"min_images_per_class must be 1 or more; received {min_images_per_class}."
        )
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected a folder, one folder per class.")
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is not a folder; expected one folder per class in it.")
    left_out = LeftOut()
    classes = _classes(path, left_out, unlabelled)
    files = [file for of_class in classes.values() for file in of_class]
    unreadable = left_out.add_unreadable(files, skip_unreadable)
    classes = {
        name: [file for file in of_class if file not in unreadable]
        for name, of_class in classes.items()
    }
    sizes = {name: len(of_class) for name, of_class in classes.items()}
    small = left_out.add_small_classes(sizes, min_images_per_class)
    kept = {name: of_class for name, of_class in classes.items() if name not in small}
    if len(kept) < 2:
        left_out.problems.append(
            "at least two classes are needed, one folder each, of "
            f"{counted(min_images_per_class, 'image')} or more ({', '.join(IMAGE_EXTENSIONS)}); "
            f"received {list(kept) or 'none'}"
        )
    left_out.report(path)
    return FileImages(
        [file for of_class in kept.values() for file in of_class],
        [label for label, of_class in enumerate(kept.values()) for _ in of_class],
        list(kept),
        channels=channels,
    )


def find_images(folder: PathLike, left_out: LeftOut) -> list[str]:
    """The sorted image files in a folder at any depth, by extension.

    `left_out` gets the rest: files of other kinds, hidden images and folders, linked folders, and
    folders without read permission. Raises `OSError` if the folder itself cannot be read.
    """
    images, hidden, hidden_folders, links, others, refused = [], [], [], [], [], []
    folder = os.fspath(folder)
    for parent, folders, files in os.walk(folder, onerror=refused.append, followlinks=True):
        for name in list(folders):
            path = os.path.join(parent, name)
            is_deep_link = parent != folder and os.path.islink(path)  # it may lead in a circle
            if is_deep_link or _is_hidden(name):
                folders.remove(name)
                (links if is_deep_link else hidden_folders).append(path)
        for name in files:
            is_image = name.lower().endswith(IMAGE_EXTENSIONS)
            if is_image or not name.startswith("."):
                kind = hidden if name.startswith(".") else images if is_image else others
                kind.append(os.path.join(parent, name))
    if refused and refused[0].filename == folder:
        raise refused[0]

    def relative(paths):
        return sorted(os.path.relpath(path, folder) for path in paths)

    left_out.add_other_files(relative(others))
    left_out.add(relative(hidden), "hidden image")
    left_out.add(relative(hidden_folders), "hidden or system folder")
    left_out.add(relative(links), "link to a folder", "links to folders")
    left_out.add(
        [f"{os.path.relpath(error.filename, folder)} ({error.strerror})" for error in refused],
        "folder that may not be read",
        "folders that may not be read",
    )
    return sorted(images)


def _classes(path: Path, left_out: LeftOut, unlabelled: PathLike | None) -> dict[str, list[str]]:
    """The image files of each class folder, by its name."""
    images = find_images(path, left_out)
    names = [
        entry.name
        for entry in path.iterdir()
        if entry.is_dir() and not (unlabelled is not None and entry.samefile(unlabelled))
    ]
    classes = {name: [] for name in sorted(names) if not _is_hidden(name)}
    stray = []
    for image in images:
        name, *below = Path(image).relative_to(path).parts
        if not below:
            stray.append(name)
        elif name in classes:
            classes[name].append(image)
    if unlabelled is None or not path.samefile(unlabelled):
        left_out.add(stray, "image in no class folder", "images in no class folder")
    return classes


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in _NO_PHOTOGRAPHS
