"""Official lists of images, and the sets they describe."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from gsp_tf.data.image_set import FileImages


def read_table(
    path: str | os.PathLike, columns: Mapping[str, Callable[[str], object]], heading: int = 0
) -> list[tuple]:
    """Reads a text file of columns separated by blanks.

    Args:
        path: The file.
        columns: Name and type of every column.
        heading: Number of lines before the table, the last of which holds the names.

    Returns:
        A tuple for every line; empty lines are left out.

    Raises:
        ValueError: If the names or a line are not as expected.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "list.txt").write_text("id path\\n1 a.png\\n2 b.png\\n")
        ...     read_table(f"{folder}/list.txt", {"id": int, "path": str}, heading=1)
        [(1, 'a.png'), (2, 'b.png')]
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: {error}.") from error
    if heading and (len(lines) < heading or lines[heading - 1].split() != list(columns)):
        raise ValueError(
            f"{path}, line {heading}: expected {' '.join(columns)!r}; received "
            f"{lines[heading - 1] if len(lines) >= heading else 'the end of the file'!r}."
        )
    rows = []
    for number, line in enumerate(lines[heading:], heading + 1):
        fields = line.split()
        try:
            if fields:
                rows.append(
                    tuple(kind(field) for kind, field in zip(columns.values(), fields, strict=True))
                )
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: expected {' '.join(columns)!r}; received {line!r}."
            ) from error
    return rows


def labelled_files(
    listed: Iterable[tuple[str, object]],
    classes: Mapping[object, tuple[str, str]],
    channels: int,
) -> FileImages:
    """Makes a set of listed files.

    Args:
        listed: Path and class of every image; those of other classes are left out.
        classes: For every class its name and group, in the order of their labels.
        channels: 1 (grey) or 3 (RGB).

    Returns:
        The set.

    Example:
        >>> labelled_files([("a.png", 7), ("b.png", 8)], {8: ("cat", "pet")}, 3).paths
        ('b.png',)
    """
    label_of = {key: label for label, key in enumerate(classes)}
    kept = [(path, label_of[key]) for path, key in listed if key in label_of]
    return FileImages(
        [path for path, _ in kept],
        [label for _, label in kept],
        [name for name, _ in classes.values()],
        [group for _, group in classes.values()],
        channels,
    )


def halved(
    listed: Sequence[tuple[str, int]], names: Mapping[int, str], num_training: int, channels: int
) -> dict[str, FileImages]:
    """Makes a training and a test set of the first and the other classes.

    Args:
        listed: Path and class of every image.
        names: The name of every class, in the order of the data set.
        num_training: How many classes train.
        channels: 1 (grey) or 3 (RGB).

    Returns:
        `{"train": images, "test": images}`.

    Example:
        >>> halved([("a.png", 1), ("b.png", 2)], {1: "cat", 2: "dog"}, 1, 3)["test"].class_names
        ('dog',)
    """
    classes = [(key, (name, "")) for key, name in names.items()]
    return {
        "train": labelled_files(listed, dict(classes[:num_training]), channels),
        "test": labelled_files(listed, dict(classes[num_training:]), channels),
    }
