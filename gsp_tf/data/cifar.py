"""The binary files of CIFAR-10 and CIFAR-100."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gsp_tf.data.official import Source

PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_SHAPE = (3, 32, 32)


def read_names(source: Source, folder: Path, path: Path) -> list[str]:
    """Reads names, one a line.

    Args:
        source: The data set, for errors.
        folder: The user's folder, for errors.
        path: The file.

    Returns:
        The names, without empty lines.

    Raises:
        FileNotFoundError: If there is no such file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "names.txt").write_text("cat\\ndog\\n\\n")
        ...     read_names(Source("CIFAR", PAGE, "names.txt"), folder, Path(folder, "names.txt"))
        ['cat', 'dog']
    """
    source.require(folder, path)
    return path.read_text(encoding="utf-8").split()


def read_records(
    source: Source, folder: Path, paths: Sequence[Path], num_classes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Reads records of label bytes and 3072 bytes of pixels, which are red, then green, then blue.

    Args:
        source: The data set, for errors.
        folder: The user's folder, for errors.
        paths: The files.
        num_classes: For each label of a record how many values it has.

    Returns:
        Labels `(N, len(num_classes))` and images `(N, 32, 32, 3)`, both uint8.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file does not hold whole records, or a label is out of range.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "batch.bin")
        ...     _ = path.write_bytes(b"\\x07" + b"\\xff" * 3072)
        ...     labels, images = read_records(Source("CIFAR", PAGE, ""), folder, [path], [10])
        >>> labels.tolist(), images.shape
        ([[7]], (1, 32, 32, 3))
    """
    num_labels = len(num_classes)
    length = num_labels + np.prod(_SHAPE)
    records = []
    for path in paths:
        source.require(folder, path)
        content = np.fromfile(path, np.uint8)
        if len(content) % length:
            raise ValueError(
                f"{path} is broken: {len(content)} bytes are not a number of records of {length}. "
                f"Unpack or download it again. {source.where(folder)}"
            )
        records.append(content.reshape(-1, length))
    labels, pixels = np.split(np.concatenate(records), [num_labels], axis=1)
    if (labels >= num_classes).any():
        raise ValueError(
            f"the files of {source.name} in {folder} have labels up to {labels.max(0).tolist()} "
            f"for {list(num_classes)} names. Unpack or download it again. {source.where(folder)}"
        )
    return labels, np.ascontiguousarray(pixels.reshape(-1, *_SHAPE).transpose(0, 2, 3, 1))
