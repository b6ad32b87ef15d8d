"""MNIST, read from its official files."""

import gzip
import zlib
from pathlib import Path

import numpy as np

from gsp_tf._typing import PathLike
from gsp_tf.data.datasets._official import Counts, Remote, Source
from gsp_tf.data.images.image_set import ArrayImages

_FILES = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
_SOURCE = Source(
    "MNIST",
    "http://yann.lecun.com/exdb/mnist/",
    f"the files {', '.join(_FILES)}, not unpacked,",
    {"all": (10, 70_000)},
    tuple(
        Remote(f"https://storage.googleapis.com/cvdf-datasets/mnist/{name}", name, md5)
        for name, md5 in _FILES.items()
    ),
)
_UNSIGNED_BYTES = 8


def load_mnist(
    path: PathLike, *, download: bool = False, counts: Counts | None = None
) -> ArrayImages:
    """Reads the training and test images of MNIST as one set.

    LeCun, Bottou, Bengio, Haffner, "Gradient-Based Learning Applied to Document Recognition",
    Proceedings of the IEEE 86, 1998.

    Args:
        path: Folder that holds the four files `*-ubyte.gz`.
        download: Whether to download missing files.
        counts: Expected `{"all": (classes, images)}`; the published ones by default.

    Returns:
        Grey images `(70000, 28, 28, 1)`, those of the training files first; classes `0` to `9`.

    Raises:
        OSError: If files are missing or cannot be downloaded.
        ValueError: If a file is broken or a count is off.

    Example:
        >>> load_mnist("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: nowhere/train-images-idx3-ubyte.gz does not exist. MNIST...
    """
    folder = _SOURCE.obtain(path, download)
    pixels, labels = (
        np.concatenate([_read_idx(folder, folder / name) for name in list(_FILES)[start::2]])
        for start in (0, 1)
    )
    if len(pixels) != len(labels) or labels.max(initial=0) > 9:
        found = f"{len(pixels)} images, {len(labels)} labels up to {labels.max(initial=0)}"
        raise _SOURCE.broken(f"MNIST in {folder} is broken: {found}.", folder)
    images = ArrayImages(pixels[..., np.newaxis], labels, [str(digit) for digit in range(10)])
    _SOURCE.check_counts(folder, {"all": images}, counts)
    return images


def _read_idx(folder: Path, path: Path) -> np.ndarray:
    """Reads an array of bytes: two zeros, their type, the number of axes, the shape, the bytes."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _SOURCE.broken(f"{path} is broken ({error}).", folder) from error
    start = 4 + 4 * content[3] if len(content) >= 4 else 0
    shape = np.frombuffer(content[4:start], ">i4") if start <= len(content) else ()
    if content[:3] != bytes((0, 0, _UNSIGNED_BYTES)) or np.prod(shape) != len(content) - start:
        problem = f"{len(content)} bytes are not the header and content of an IDX file"
        raise _SOURCE.broken(f"{path} is broken: {problem}.", folder)
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
