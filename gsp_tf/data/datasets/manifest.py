"""A user's own images, listed in a CSV file."""

import csv
import os
from collections import Counter
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from gsp_tf._console import counted
from gsp_tf._files import csv_text
from gsp_tf._typing import PathLike
from gsp_tf.data.images._left_out import LeftOut
from gsp_tf.data.images.encoded_images import FileImages
from gsp_tf.data.images.image_set import ImageSet

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
        channels: Channels to convert to: 1 for grey or 3 for RGB.
        skip_unreadable: Leave out unreadable files with a warning instead of raising an error.
        min_images_per_class: Classes with fewer images are left out with the same warning, except
            in `query` and `gallery`. The only image of a class has nothing to retrieve.
        unlabelled: Where `load_unlabelled` finds images without a class. If it is this file, rows
            may lack a label, and are left to it; of the splits, they can only be in `train`.

    Returns:
        One set per split in the file (`train`, `validation`, `test`, `query`, `gallery`), or
        `{"all": set}` without a split column. Labels count from 0 in each set; `query` and
        `gallery` share theirs. Class names are the labels in the file.

    Raises:
        FileNotFoundError: If the CSV file does not exist.
        ValueError: If columns are missing; if a line has an empty path or label, an unknown split,
            a missing file or a repeated path; if a class is in two splits; if a split has fewer
            than two classes; if `test` occurs with `query` or `gallery`; or if files are
            unreadable. The message lists all problems.

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
    if min_images_per_class < 1:
        raise ValueError(
            f"min_images_per_class must be 1 or more; received {min_images_per_class}."
        )
    rows = read_rows(path)
    if not rows:
        raise ValueError(f"{path} lists no images.")
    left_out = LeftOut()
    may_lack_label = unlabelled is not None and path.samefile(unlabelled)
    left_out.add_wrong_lines(row_problems(rows, may_lack_label))
    rows = [row for row in rows if row.label or not may_lack_label]
    files = [row.path for row in rows if os.path.isfile(row.path)]
    unreadable = left_out.add_unreadable(files, skip_unreadable)
    readable = [row for row in rows if row.path not in unreadable]
    sizes = dict.fromkeys(sorted(row.label for row in rows if _side(row.split) != "query"), 0)
    sizes |= Counter(row.label for row in readable if row.label in sizes)
    small = left_out.add_small_classes(sizes, min_images_per_class)
    kept = [row for row in readable if row.label not in small]
    splits = {row.split: _classes(kept, row.split) for row in rows}
    if "test" in splits and {"query", "gallery"} & set(splits):
        left_out.problems.append("test images are either test, or query and gallery; received both")
    left_out.problems += [
        f"at least two classes are needed in split {split or _WITHOUT_SPLIT!r}, of "
        f"{counted(min_images_per_class, 'image')} or more; received {names or 'none'}"
        for split, names in splits.items()
        if len(names) < 2
    ]
    left_out.report(path)
    sets = {split: [row for row in kept if row.split == split] for split in (*_SPLITS, None)}
    return {
        split or _WITHOUT_SPLIT: _image_set(rows, splits[split], channels)
        for split, rows in sets.items()
        if rows
    }


def read_rows(path: PathLike) -> list[_ManifestRow]:
    """Reads the lines of a manifest without checking their content.

    Raises `ValueError` if the file is not CSV in UTF-8 with the columns path and label, or a quote
    is not closed.
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
            return [_row(path.parent, reader.line_num, record) for record in reader]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {error}.") from error
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.line_num + 1}: {error}; a value that begins with a quote ends "
            "with one, and a quote inside it is doubled."
        ) from error


def _row(folder: Path, line: int, record: dict[str, str]) -> _ManifestRow:
    path, label = csv_text(record["path"]), csv_text(record["label"])
    file = os.path.normpath(folder / path) if path.strip() else ""
    split = csv_text(record["split"]).strip() if "split" in record else None
    return _ManifestRow(line, file, label.strip(), split)


def row_problems(rows: list[_ManifestRow], may_lack_label: bool = False) -> list[str]:
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


def _classes(rows: list[_ManifestRow], split: str | None) -> list[str]:
    """The sorted classes of a split; query and gallery share theirs."""
    return sorted({row.label for row in rows if _side(row.split) == _side(split)})


def _image_set(rows: list[_ManifestRow], names: list[str], channels: int) -> FileImages:
    labels = np.searchsorted(names, [row.label for row in rows])
    return FileImages([row.path for row in rows], labels, names, channels=channels)


def _side(split: str | None) -> str | None:
    """The split; `query` and `gallery` count as one because they share their classes."""
    return "query" if split == "gallery" else split
