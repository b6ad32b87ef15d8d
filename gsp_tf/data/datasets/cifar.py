"""CIFAR-10, and CIFAR-100 with its 20 super-classes, read from their official binary files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gsp_tf._typing import PathLike
from gsp_tf.data.datasets._official import Counts, Source
from gsp_tf.data.images.image_set import ArrayImages

_SHAPE = (3, 32, 32)
_TEN_FOLDER, _HUNDRED_FOLDER = "cifar-10-batches-bin", "cifar-100-binary"
_TEN_FILES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


_PAGE = "https://www.cs.toronto.edu/~kriz/cifar"
_TEN = Source.of_archive(
    "CIFAR-10",
    f"{_PAGE}.html",
    f"{_PAGE}-10-binary.tar.gz",
    "c32a1d4ab5d03f1284b67883e8d87530",
    _TEN_FOLDER,
    {"all": (10, 60_000)},
)
_HUNDRED = Source.of_archive(
    "CIFAR-100",
    f"{_PAGE}.html",
    f"{_PAGE}-100-binary.tar.gz",
    "03b5dce01913d631647c71ecec9e9cb8",
    _HUNDRED_FOLDER,
    {"all": (100, 60_000)},
)


def load_cifar10(
    path: PathLike, *, download: bool = False, counts: Counts | None = None
) -> ArrayImages:
    """Reads the training and test images of CIFAR-10 as one set.

    Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.

    Args:
        path: Folder that holds `cifar-10-batches-bin` (the "binary version").
        download: Whether to download missing files.
        counts: Expected `{"all": (classes, images)}`; the published ones by default.

    Returns:
        Colour images `(60000, 32, 32, 3)`, those of the training files first.

    Raises:
        OSError: If files are missing or cannot be downloaded.
        ValueError: If a file is broken or a count is off.

    Example:
        >>> load_cifar10("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: nowhere/cifar-10-batches-bin does not exist. CIFAR-10 needs the folder...
    """
    folder = _TEN.obtain(path, download)
    root = folder / _TEN_FOLDER
    names = _read_names(_TEN, folder, root / "batches.meta.txt")
    files = [root / f"{name}.bin" for name in _TEN_FILES]
    labels, pixels = _read_records(_TEN, folder, files, [len(names)])
    images = ArrayImages(pixels, labels[:, 0], names)
    _TEN.check_counts(folder, {"all": images}, counts)
    return images


def load_cifar100(
    path: PathLike, *, download: bool = False, counts: Counts | None = None
) -> ArrayImages:
    """Reads the training and test images of CIFAR-100 as one set.

    Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009. The groups are the 20
    super-classes, each with 5 classes.

    Args:
        path: Folder that holds `cifar-100-binary` (the "binary version").
        download: Whether to download missing files.
        counts: Expected `{"all": (classes, images)}`; the published ones by default.

    Returns:
        Colour images `(60000, 32, 32, 3)`, those of the training file first.

    Raises:
        OSError: If files are missing or cannot be downloaded.
        ValueError: If a file is broken, a count is off, or a class has several super-classes.

    Example:
        >>> load_cifar100("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: nowhere/cifar-100-binary does not exist. CIFAR-100 needs the folder...
    """
    folder = _HUNDRED.obtain(path, download)
    root = folder / _HUNDRED_FOLDER
    names = _read_names(_HUNDRED, folder, root / "fine_label_names.txt")
    super_names = _read_names(_HUNDRED, folder, root / "coarse_label_names.txt")
    files = [root / "train.bin", root / "test.bin"]
    labels, pixels = _read_records(_HUNDRED, folder, files, [len(super_names), len(names)])
    pairs = np.unique(labels[:, ::-1], axis=0)
    if not np.array_equal(pairs[:, 0], np.arange(len(names))):
        raise _HUNDRED.broken(
            f"CIFAR-100 in {folder} is broken: {len(names)} classes occur in {len(pairs)} pairs of "
            "class and super-class.",
            folder,
        )
    images = ArrayImages(pixels, labels[:, 1], names, [super_names[group] for _, group in pairs])
    _HUNDRED.check_counts(folder, {"all": images}, counts)
    return images


def _read_names(source: Source, folder: Path, path: Path) -> list[str]:
    source.require(folder, path)
    return path.read_text(encoding="utf-8").split()


def _read_records(
    source: Source, folder: Path, paths: Sequence[Path], num_classes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Reads records of label bytes and 3072 pixels (red, then green, then blue)."""
    num_labels = len(num_classes)
    length = num_labels + np.prod(_SHAPE)
    records = []
    for path in paths:
        source.require(folder, path)
        content = np.fromfile(path, np.uint8)
        if len(content) % length:
            raise source.broken(
                f"{path} is broken: {len(content)} bytes are not a number of records of {length}.",
                folder,
            )
        records.append(content.reshape(-1, length))
    labels, pixels = np.split(np.concatenate(records), [num_labels], axis=1)
    if (labels >= num_classes).any():
        raise source.broken(
            f"the files of {source.name} in {folder} have labels up to {labels.max(0).tolist()} "
            f"for {list(num_classes)} names.",
            folder,
        )
    return labels, np.ascontiguousarray(pixels.reshape(-1, *_SHAPE).transpose(0, 2, 3, 1))
