"""CIFAR-100 with its 20 super-classes, read from its official binary files."""

import numpy as np

from gsp_tf._typing import PathLike
from gsp_tf.data.cifar import PAGE, read_names, read_records
from gsp_tf.data.download import Remote
from gsp_tf.data.image_set import ArrayImages
from gsp_tf.data.official import Counts, Source

_SOURCE = Source(
    "CIFAR-100",
    PAGE,
    "the folder cifar-100-binary that cifar-100-binary.tar.gz unpacks to",
    (
        Remote(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "cifar-100-binary.tar.gz",
            "03b5dce01913d631647c71ecec9e9cb8",
            folder="cifar-100-binary",
        ),
    ),
)
COUNTS = {"all": (100, 60_000)}


def load_cifar100(
    path: PathLike, *, download: bool = False, counts: Counts | None = None
) -> ArrayImages:
    """Reads CIFAR-100, its training and test images as one set.

    Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009. The groups are the 20
    super-classes, each of 5 classes.

    Args:
        path: Where the folder `cifar-100-binary` lies ("binary version").
        download: Whether to download it if it is missing.
        counts: Classes and images to expect, as `{"all": (classes, images)}`, by default the
            published ones.

    Returns:
        Colour images `(60000, 32, 32, 3)`, those of the training file first.

    Raises:
        FileNotFoundError: If a file is missing.
        OSError: If it cannot be downloaded.
        ValueError: If a file is broken, a count is off, or a class has not one super-class.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     root = Path(folder, "cifar-100-binary")
        ...     root.mkdir()
        ...     _ = (root / "fine_label_names.txt").write_text("apple\\nrose\\n")
        ...     _ = (root / "coarse_label_names.txt").write_text("flowers\\nfruit\\n")
        ...     _ = (root / "train.bin").write_bytes(b"\\x01\\x00" + bytes(3072))
        ...     _ = (root / "test.bin").write_bytes(b"\\x00\\x01" + bytes(3072))
        ...     load_cifar100(folder, counts={"all": (2, 2)}).groups
        ('fruit', 'flowers')
    """
    counts = COUNTS if counts is None else counts
    folder = _SOURCE.obtain(path, download)
    root = folder / "cifar-100-binary"
    names = read_names(_SOURCE, folder, root / "fine_label_names.txt")
    super_names = read_names(_SOURCE, folder, root / "coarse_label_names.txt")
    files = [root / "train.bin", root / "test.bin"]
    labels, pixels = read_records(_SOURCE, folder, files, [len(super_names), len(names)])
    pairs = np.unique(labels[:, ::-1], axis=0)
    if not np.array_equal(pairs[:, 0], np.arange(len(names))):
        raise ValueError(
            f"{_SOURCE.name} in {folder} is broken: {len(names)} classes occur in {len(pairs)} "
            "pairs of class and super-class. Unpack or download it again. "
            f"{_SOURCE.where(folder)}"
        )
    images = ArrayImages(pixels, labels[:, 1], names, [super_names[group] for _, group in pairs])
    _SOURCE.check_counts(folder, {"all": images}, counts)
    return images
