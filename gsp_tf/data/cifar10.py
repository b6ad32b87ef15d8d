"""CIFAR-10, read from its official binary files."""

from gsp_tf._typing import PathLike
from gsp_tf.data.cifar import PAGE, read_names, read_records
from gsp_tf.data.download import Remote
from gsp_tf.data.image_set import ArrayImages
from gsp_tf.data.official import Counts, Source

_SOURCE = Source(
    "CIFAR-10",
    PAGE,
    "the folder cifar-10-batches-bin that cifar-10-binary.tar.gz unpacks to",
    (
        Remote(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
            folder="cifar-10-batches-bin",
        ),
    ),
)
_COUNTS = {"all": (10, 60_000)}
_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")


def load_cifar10(
    path: PathLike, *, download: bool = False, counts: Counts | None = None
) -> ArrayImages:
    """Reads CIFAR-10, its training and test images as one set.

    Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.

    Args:
        path: Where the folder `cifar-10-batches-bin` lies ("binary version").
        download: Whether to download it if it is missing.
        counts: Classes and images to expect, as `{"all": (classes, images)}`, by default the
            published ones.

    Returns:
        Colour images `(60000, 32, 32, 3)`, those of the training files first.

    Raises:
        FileNotFoundError: If a file is missing.
        OSError: If it cannot be downloaded.
        ValueError: If a file is broken or a count is off.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     root = Path(folder, "cifar-10-batches-bin")
        ...     root.mkdir()
        ...     _ = (root / "batches.meta.txt").write_text("airplane\\nautomobile\\n\\n")
        ...     for i, name in enumerate(_FILES):
        ...         _ = (root / name).write_bytes(bytes([i % 2]) + bytes(3072))
        ...     load_cifar10(folder, counts={"all": (2, 6)}).labels
        array([0, 1, 0, 1, 0, 1])
    """
    counts = _COUNTS if counts is None else counts
    folder = _SOURCE.obtain(path, download)
    root = folder / "cifar-10-batches-bin"
    names = read_names(_SOURCE, folder, root / "batches.meta.txt")
    labels, pixels = read_records(_SOURCE, folder, [root / name for name in _FILES], [len(names)])
    images = ArrayImages(pixels, labels[:, 0], names)
    _SOURCE.check_counts(folder, {"all": images}, counts)
    return images
