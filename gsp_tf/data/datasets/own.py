"""A user's own images: one folder per class, listed in a CSV file, or without a class."""

import csv
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gsp_tf._arguments import check_sizes
from gsp_tf._console import counted
from gsp_tf._files import csv_text
from gsp_tf._typing import PathLike
from gsp_tf.data.images._formats import IMAGE_EXTENSIONS
from gsp_tf.data.images._left_out import LeftOut
from gsp_tf.data.images.encoded_images import FileImages, labelled_files
from gsp_tf.data.images.image_set import ImageSet

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
            `path`, at any depth, its images have no class. If it is `path`, these are the images
            outside the classes.

    Returns:
        The images, with classes and files sorted.

    Raises:
        ValueError: If files are unreadable, or fewer than two classes are left; the message lists
            all problems.

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
    check_sizes(min_images_per_class=min_images_per_class)
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
    listed = [(file, name) for name, of_class in kept.items() for file in of_class]
    return labelled_files(listed, {name: (name, "") for name in kept}, channels)


def find_images(folder: PathLike, left_out: LeftOut) -> list[str]:
    """The sorted image files in a folder at any depth, by extension.

    `left_out` gets the rest: files of other kinds, hidden images and folders, linked folders, and
    folders without read permission. Raises `OSError` if the folder itself cannot be read.
    """
    images, hidden, hidden_folders, links, others, refused = [], [], [], [], [], []
    folder = os.fspath(folder)
    own = _real(
        entry.path
        for entry in os.scandir(folder)
        if entry.is_dir(follow_symlinks=False) and not _is_hidden(entry.name)
    )
    for parent, folders, files in os.walk(folder, onerror=refused.append, followlinks=True):
        for name in list(folders):
            path = os.path.join(parent, name)
            # A link may lead in a circle, or to images that are read without it.
            is_left = os.path.islink(path) and (
                parent != folder or _lies_in(folder, _real([path])) or _lies_in(path, own)
            )
            if is_left or _is_hidden(name):
                folders.remove(name)
                (links if is_left else hidden_folders).append(path)
        for name in files:
            is_image = name.lower().endswith(IMAGE_EXTENSIONS)
            if is_image or not name.startswith("."):
                kind = hidden if name.startswith(".") else images if is_image else others
                kind.append(os.path.join(parent, name))

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
    without_class = _real([] if unlabelled is None else [unlabelled])
    if _lies_in(path, without_class):
        without_class = ()
    for image in images:
        if _lies_in(os.path.dirname(image), without_class):
            continue
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


_SPLITS = ("train", "validation", "test", "query", "gallery")
_WITHOUT_SPLIT = "all"


class _ManifestRow(NamedTuple):
    """A line of a manifest: its number, image file (may be empty), class and split."""

    line: int
    path: str
    label: str
    split: str | None


def load_manifest(
    path: PathLike,
    channels: Literal[1, 3] = 3,
    skip_unreadable: bool = False,
    min_images_per_class: int = 2,
    unlabelled: PathLike | None = None,
) -> dict[str, ImageSet]:
    """Reads the images that a CSV file lists.

    The file is UTF-8 with the header `path,label` or `path,label,split`; further columns are
    ignored. Paths are absolute or relative to the folder of the file. Splits have different
    classes, because evaluation uses classes that training never saw. Only `query` and `gallery`
    share their classes: both are test images, and the queries search the gallery, as in In-shop.

    Args:
        path: The CSV file.
        channels, skip_unreadable: As in `load_folder`.
        min_images_per_class: Classes with fewer images are left out with the same warning, except
            in `query` and `gallery`. The only image of a class has nothing to retrieve.
        unlabelled: Where `load_unlabelled` finds images without a class. If it is this file, rows
            may lack a label, and are left to it; of the splits, they can only be in `train`.

    Returns:
        One set per split in the file (`train`, `validation`, `test`, `query`, `gallery`), or
        `{"all": set}` without a split column. Labels count from 0 in each set; `query` and
        `gallery` share theirs. Class names are the labels in the file.

    Raises:
        ValueError: If lines of the file are wrong or files are unreadable; if a class is in two
            splits, or a split has fewer than two; or if `test` occurs with `query` or `gallery`.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("1.png", "2.png", "3.png", "4.png"):
        ...         Image.new("RGB", (4, 4)).save(f"{folder}/{name}")
        ...     lines = "path,label", "1.png,cat", "2.png,dog", "3.png,cat", "4.png,dog"
        ...     _ = Path(folder, "list.csv").write_text("\\n".join(lines))
        ...     load_manifest(f"{folder}/list.csv")["all"].class_names
        ('cat', 'dog')
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file; expected a CSV file.")
    check_sizes(min_images_per_class=min_images_per_class)
    rows = read_rows(path)
    if not rows:
        raise ValueError(f"{path} lists no images.")
    left_out = LeftOut()
    may_lack_label = unlabelled is not None and path.samefile(unlabelled)
    left_out.add_wrong_lines(_row_problems(rows, may_lack_label))
    rows = [row for row in rows if row.label or not may_lack_label]
    files = [row.path for row in rows if os.path.isfile(row.path)]
    unreadable = left_out.add_unreadable(files, skip_unreadable)
    readable = [row for row in rows if row.path not in unreadable]
    sizes = dict.fromkeys(sorted(row.label for row in rows if _side(row.split) != "query"), 0)
    sizes |= Counter(row.label for row in readable if row.label in sizes)
    small = left_out.add_small_classes(sizes, min_images_per_class)
    kept = [row for row in readable if row.label not in small]
    splits = {
        split: sorted({row.label for row in kept if _side(row.split) == _side(split)})
        for split in dict.fromkeys(row.split for row in rows)
    }
    if "test" in splits and {"query", "gallery"} & set(splits):
        left_out.problems.append("test images are either test, or query and gallery; received both")
    left_out.problems += [
        f"at least two classes are needed in split {split or _WITHOUT_SPLIT!r}, of "
        f"{counted(min_images_per_class, 'image')} or more; received {names or 'none'}"
        for split, names in splits.items()
        if len(names) < 2
    ]
    left_out.report(path)
    sets = {}
    for split in (*_SPLITS, None):
        listed = [(row.path, row.label) for row in kept if row.split == split]
        if listed:
            classes = {name: (name, "") for name in splits[split]}
            sets[split or _WITHOUT_SPLIT] = labelled_files(listed, classes, channels)
    return sets


def read_rows(path: PathLike) -> list[_ManifestRow]:
    """Reads the lines of a manifest without checking their content.

    Raises `ValueError` if the file is not CSV in UTF-8 with the columns path and label, each once,
    a quote is not closed, or a line has more values than there are columns.
    """
    path = Path(path)
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="", strict=True)
            columns = reader.fieldnames or []
            missing = [name for name in ("path", "label") if name not in columns]
            if missing:
                raise ValueError(
                    f"{path}, line 1: columns {missing} are missing; expected the header "
                    f"path,label or path,label,split; received {','.join(columns)!r}."
                )
            twice = [name for name in ("path", "label", "split") if columns.count(name) > 1]
            if twice:
                raise ValueError(
                    f"{path}, line 1: columns {twice} occur more than once; received "
                    f"{','.join(columns)!r}."
                )
            return [_row(path, reader.line_num, record) for record in reader]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {error}.") from error
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.line_num + 1}: {error}; a value that begins with a quote ends "
            "with one, and a quote inside it is doubled."
        ) from error


def _row(manifest: Path, line: int, record: dict[str | None, Any]) -> _ManifestRow:
    beyond = record.get(None, [])  # a comma in a label begins another value
    if any(value.strip() for value in beyond):
        raise ValueError(
            f"{manifest}, line {line}: the values {beyond} have no column; a value with a comma "
            "needs quotes."
        )
    path, label = csv_text(record["path"]), csv_text(record["label"])
    file = os.path.normpath(manifest.parent / path) if path.strip() else ""
    split = csv_text(record["split"]).strip() if "split" in record else None
    return _ManifestRow(line, file, label.strip(), split)


def _row_problems(rows: list[_ManifestRow], may_lack_label: bool = False) -> list[str]:
    """Problems of individual lines of a manifest."""
    problems = []
    first_line: dict[str, int] = {}
    split_of: dict[str, str] = {}
    for row in rows:
        if not row.path:
            problems.append(f"line {row.line}: the path is empty")
        elif row.path in first_line:
            problems.append(
                f"line {row.line}: {row.path} is already on line {first_line[row.path]}"
            )
        elif not os.path.isfile(row.path):
            problems.append(f"line {row.line}: there is no file {row.path}")
        first_line.setdefault(row.path, row.line)
        if row.split not in (*_SPLITS, None):
            problems.append(
                f"line {row.line}: unknown split {row.split!r}; accepted are {', '.join(_SPLITS)}"
            )
        if not row.label and may_lack_label:
            if row.split not in ("train", None):
                problems.append(
                    f"line {row.line}: an image without a label can only train; received split "
                    f"{row.split!r}"
                )
        elif not row.label:
            problems.append(f"line {row.line}: the label is empty")
        elif _side(split_of.setdefault(row.label, row.split)) != _side(row.split):
            problems.append(
                f"line {row.line}: class {row.label!r} is in split {split_of[row.label]!r} and "
                f"in {row.split!r}; a class belongs to one split"
            )
    return problems


def _side(split: str | None) -> str | None:
    """The split; `query` and `gallery` count as one because they share their classes."""
    return "query" if split == "gallery" else split


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
        channels, skip_unreadable: As in `load_folder`.
        labelled: The folder or CSV file that gives other images their class: images in its class
            folders, or in its rows with a label, are left to it. It may be `path` itself. A folder
            that lies in it has only images without a class.

    Returns:
        The images, with files sorted for a folder, named by their paths within it.

    Raises:
        ValueError: As for `load_folder` and `load_manifest`, or if no image is left.

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
        left_out.add_wrong_lines(_row_problems(rows, may_lack_label=True))
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
    if labelled.is_file():
        known = {os.path.realpath(row.path) for row in read_rows(labelled) if row.label}
        return lambda file: os.path.realpath(file) in known
    if path.is_dir() and not path.samefile(labelled) and _lies_in(path, _real([labelled])):
        return lambda file: False
    classes = _real(entry for entry in labelled.iterdir() if entry.is_dir())
    return lambda file: _lies_in(os.path.dirname(file), classes)


def _real(folders: Iterable[PathLike]) -> tuple[str, ...]:
    """Where folders are, links resolved, with a slash at the end."""
    return tuple(os.path.realpath(folder) + os.sep for folder in folders)


def _lies_in(folder: PathLike, folders: tuple[str, ...]) -> bool:
    """Whether a folder is one of those that `_real` gave, or lies in one of them."""
    return (os.path.realpath(folder) + os.sep).startswith(folders)
