"""MNIST, CIFAR-10, CIFAR-100, its collages and Omniglot, read from their official files."""

import gzip
import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from gsp_tf._arguments import check_sizes
from gsp_tf._typing import PathLike
from gsp_tf.data.datasets._official import Counts, Remote, Source, download_file
from gsp_tf.data.datasets.collage import CollageImages, labelled_collages
from gsp_tf.data.images.decode import check_pixels
from gsp_tf.data.images.image_set import ArrayImages

_MNIST_FILES = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
_MNIST = Source(
    "MNIST",
    "http://yann.lecun.com/exdb/mnist/",
    f"the files {', '.join(_MNIST_FILES)}, not unpacked,",
    {"all": (10, 70_000)},
    tuple(
        Remote(f"https://storage.googleapis.com/cvdf-datasets/mnist/{name}", md5)
        for name, md5 in _MNIST_FILES.items()
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
    folder = _MNIST.obtain(path, download)
    pixels, labels = (
        np.concatenate([_read_idx(folder, folder / name) for name in list(_MNIST_FILES)[start::2]])
        for start in (0, 1)
    )
    if len(pixels) != len(labels) or labels.max(initial=0) > 9:
        found = f"{len(pixels)} images, {len(labels)} labels up to {labels.max(initial=0)}"
        raise _MNIST.broken(f"MNIST in {folder} is broken: {found}.", folder)
    images = ArrayImages(pixels[..., np.newaxis], labels, [str(digit) for digit in range(10)])
    _MNIST.check_counts(folder, {"all": images}, counts)
    return images


def _read_idx(folder: Path, path: Path) -> np.ndarray:
    """Reads an array of bytes: two zeros, their type, the number of axes, the shape, the bytes."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _MNIST.broken(f"{path} is broken ({error}).", folder) from error
    start = 4 + 4 * content[3] if len(content) >= 4 else 0
    shape = np.frombuffer(content[4:start], ">i4") if start <= len(content) else ()
    if content[:3] != bytes((0, 0, _UNSIGNED_BYTES)) or np.prod(shape) != len(content) - start:
        problem = f"{len(content)} bytes are not the header and content of an IDX file"
        raise _MNIST.broken(f"{path} is broken: {problem}.", folder)
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


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
        download, counts: As in `load_mnist`.

    Returns:
        Colour images `(60000, 32, 32, 3)`, those of the training files first.

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
        download, counts: As in `load_mnist`.

    Returns:
        Colour images `(60000, 32, 32, 3)`, those of the training file first.

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


_OMNIGLOT_ADDRESS = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
_OMNIGLOT_REMOTES = (
    Remote(f"{_OMNIGLOT_ADDRESS}/images_background.zip", "68d2efa1b9178cc56df9314c21c6e718"),
    Remote(f"{_OMNIGLOT_ADDRESS}/images_evaluation.zip", "6b91aef0f799c5bb55b94e3f2daec811"),
)
# Characters and drawings of each zip file, by the end of its name.
_OMNIGLOT_COUNTS = {
    "background": (964, 19_280),
    "background_small1": (136, 2_720),
    "background_small2": (156, 3_120),
    "evaluation": (659, 13_180),
}
_ARCHIVES = ("images_background*.zip", "omniglot_background*.zip", "images_evaluation.zip")
_OMNIGLOT = "https://github.com/brendenlake/omniglot (folder python)"


def load_omniglot(
    path: PathLike,
    size: int = 28,
    *,
    download: bool = False,
    counts: Counts | None = None,
) -> ArrayImages:
    """Reads the Omniglot characters from the zip files in a folder.

    Lake, Salakhutdinov, Tenenbaum, "Human-level concept learning through probabilistic program
    induction", Science 350, 2015. The groups are the alphabets. A character in several zip files is
    one class, and a drawing in several zip files is read once.

    Args:
        path: Folder that holds `images_background*.zip`, `omniglot_background*.zip` or
            `images_evaluation.zip`.
        size: Side of the images in pixels; the 105 x 105 drawings are reduced with antialiasing.
        download: Whether to download missing files of the full set, `images_background.zip` and
            `images_evaluation.zip`.
        counts: Expected characters and drawings of each zip file, by the end of its name, such as
            `background_small1`; the published ones by default.

    Returns:
        Grey images `(N, size, size, 1)`, ink 255 on 0; class names `ALPHABET/characterNN`.

    Example:
        >>> load_omniglot("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: no Omniglot zip file in nowhere. Download images_background.zip...
    """
    counts = _OMNIGLOT_COUNTS if counts is None else counts
    check_sizes(size=size)
    for remote in _OMNIGLOT_REMOTES if download else ():
        download_file(remote, path)
    drawings: dict[tuple[str, str], np.ndarray] = {}
    for archive in _find_archives(Path(path)):
        part = archive.stem.removeprefix("images_").removeprefix("omniglot_")
        _read_archive(archive, size, drawings, counts.get(part))
    keys = sorted(drawings)
    names, labels = np.unique([name for name, _ in keys], return_inverse=True)
    return ArrayImages(
        np.stack([drawings[key] for key in keys])[..., np.newaxis],
        labels,
        names.tolist(),
        [name.split("/")[0] for name in names.tolist()],
    )


def _find_archives(folder: Path) -> Sequence[Path]:
    archives = sorted({path for pattern in _ARCHIVES for path in folder.glob(pattern)})
    if not archives:
        raise FileNotFoundError(
            f"no Omniglot zip file in {folder}. Download images_background.zip (or "
            f"images_background_small1.zip) from {_OMNIGLOT} and put it there unopened, or have "
            "the full set downloaded (download=True, --data.download true); accepted names are "
            f"{', '.join(_ARCHIVES)}."
        )
    return archives


def _read_archive(
    path: Path,
    size: int,
    drawings: dict[tuple[str, str], np.ndarray],
    expected: tuple[int, int] | None,
) -> None:
    """Adds the drawings of one zip file that `drawings` lacks."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = (name for name in archive.namelist() if not name.startswith("__MACOSX"))
            members = [name for name in names if name.count("/") == 3 and name.endswith(".png")]
            for member in members:
                _, alphabet, character, file = member.split("/")
                key = (f"{alphabet}/{character}", file)
                if key not in drawings:
                    drawings[key] = _read_drawing(archive.read(member), size)
    # A damaged archive may raise anything: OSError, BadZipFile, zlib.error, SyntaxError...
    except Exception as error:
        raise ValueError(
            f"{path} is broken ({error}). Download it again from {_OMNIGLOT}."
        ) from error
    if not members:
        raise ValueError(
            f"{path} holds no drawings; expected files SPLIT/ALPHABET/characterNN/*.png as in the "
            f"zip files from {_OMNIGLOT}."
        )
    found = len({member.rsplit("/", 1)[0] for member in members}), len(members)
    if expected and found != tuple(expected):
        raise ValueError(
            f"{path} holds {found[0]:,} characters and {found[1]:,} drawings, expected "
            f"{expected[0]:,} and {expected[1]:,}. Download it again from {_OMNIGLOT}."
        )


def _read_drawing(content: bytes, size: int) -> np.ndarray:
    paper = Image.open(io.BytesIO(content), formats=("PNG",))
    check_pixels(paper.size)
    return 255 - np.asarray(paper.convert("L").resize((size, size), Image.Resampling.BOX))


_BACKGROUND = (
    "flowers",
    "large_man-made_outdoor_things",
    "large_natural_outdoor_scenes",
    "trees",
)
# The five classes of a super-class, in the order of their labels.
_PARTS = {"train": slice(0, 2), "validation": slice(2, 3), "test": slice(3, 5)}


def load_cifar_collage(
    path: PathLike,
    *,
    label: Literal["class", "super_class"] = "class",
    grid: Literal[1, 2] = 2,
    download: bool = False,
    counts: Counts | None = None,
) -> dict[str, CollageImages]:
    """Makes collages of 2 x 2 images, one of a foreground class and three of background classes.

    Section 5.1 of Gürbüz, Şener, Alatan, "Generalized Sum Pooling for Metric Learning", ICCV 2023,
    and section 5.3.2 of the thesis (Gürbüz, 2022). Four of the 20 super-classes of CIFAR-100
    are background, the other 16 foreground. In each super-class, 2 of the 5 classes train, 1
    validates and 2 test: test images show unseen classes on a background of unseen classes. The
    papers name neither the 4 super-classes nor the classes of each part. Both follow the authors'
    program, where the last two classes test.

    Args:
        path, download, counts: As in `load_cifar100`.
        label: Label of a collage. "super_class" gives 16 labels, the same in training and test, as
            in the papers and the program; "class" gives 32, 16 and 32 labels, all different.
        grid: 1 keeps only the foreground image, 32 x 32 pixels: the papers' "Distilled".

    Returns:
        `{"train": images, "validation": images, "test": images}`, 64 x 64 pixels each.

    Example:
        >>> load_cifar_collage("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: nowhere/cifar-100-binary does not exist. CIFAR-100 needs the folder...
    """
    if grid not in (1, 2):
        raise ValueError(f"grid must be 1 or 2, received {grid}.")
    images = load_cifar100(path, download=download, counts=counts)
    groups = np.asarray(images.groups)
    known, sizes = np.unique(groups, return_counts=True)
    if not set(_BACKGROUND) < set(known) or (sizes != 5).any():
        raise ValueError(
            f"Cifar Collage needs super-classes of 5 classes each, {', '.join(_BACKGROUND)} among "
            f"them; received {dict(zip(known.tolist(), sizes.tolist(), strict=True))}."
        )

    def classes(part, is_background):
        return [
            label
            for group in known
            if (group in _BACKGROUND) == is_background
            for label in np.flatnonzero(groups == group)[part]
        ]

    return {
        split: labelled_collages(
            images.subset(classes(part, False)), images.subset(classes(part, True)), grid, label
        )
        for split, part in _PARTS.items()
    }
