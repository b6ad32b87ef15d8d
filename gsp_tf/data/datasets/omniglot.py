"""Omniglot: handwritten characters of many alphabets, read from its zip files."""

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from gsp_tf._typing import PathLike
from gsp_tf.data.datasets._official import Counts, Remote, download_file
from gsp_tf.data.images.decode import check_pixels
from gsp_tf.data.images.image_set import ArrayImages

_ADDRESS = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
_REMOTES = (
    Remote(
        f"{_ADDRESS}/images_background.zip",
        "images_background.zip",
        "68d2efa1b9178cc56df9314c21c6e718",
    ),
    Remote(
        f"{_ADDRESS}/images_evaluation.zip",
        "images_evaluation.zip",
        "6b91aef0f799c5bb55b94e3f2daec811",
    ),
)
# Characters and drawings of each zip file, by the end of its name.
_COUNTS = {
    "background": (964, 19_280),
    "background_small1": (136, 2_720),
    "background_small2": (156, 3_120),
    "evaluation": (659, 13_180),
}
_PATTERNS = ("images_background*.zip", "omniglot_background*.zip", "images_evaluation.zip")
_SOURCE = "https://github.com/brendenlake/omniglot (folder python)"


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

    Raises:
        OSError: If files are missing or cannot be downloaded.
        ValueError: If a zip file is broken, holds no drawings or an unexpected number of them, or
            if `size` is below 1.

    Example:
        >>> load_omniglot("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: no Omniglot zip file in nowhere. Download images_background.zip...
    """
    counts = _COUNTS if counts is None else counts
    if size < 1:
        raise ValueError(f"size must be at least 1 pixel; received {size}.")
    for remote in _REMOTES if download else ():
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
    archives = sorted({path for pattern in _PATTERNS for path in folder.glob(pattern)})
    if not archives:
        raise FileNotFoundError(
            f"no Omniglot zip file in {folder}. Download images_background.zip (or "
            f"images_background_small1.zip) from {_SOURCE} and put it there unopened, or have the "
            "full set downloaded (download=True, --data.download true); accepted names are "
            f"{', '.join(_PATTERNS)}."
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
            members = [name for name in archive.namelist() if _is_drawing(name)]
            for member in members:
                _, alphabet, character, file = member.split("/")
                key = (f"{alphabet}/{character}", file)
                if key not in drawings:
                    drawings[key] = _read_drawing(archive.read(member), size)
    # A damaged archive may raise anything: OSError, BadZipFile, zlib.error, SyntaxError...
    except Exception as error:
        raise ValueError(
            f"{path} is broken ({error}). Download it again from {_SOURCE}."
        ) from error
    if not members:
        raise ValueError(
            f"{path} holds no drawings; expected files SPLIT/ALPHABET/characterNN/*.png as in the "
            f"zip files from {_SOURCE}."
        )
    found = len({member.rsplit("/", 1)[0] for member in members}), len(members)
    if expected and found != tuple(expected):
        raise ValueError(
            f"{path} holds {found[0]:,} characters and {found[1]:,} drawings, expected "
            f"{expected[0]:,} and {expected[1]:,}. Download it again from {_SOURCE}."
        )


def _is_drawing(name: str) -> bool:
    return name.count("/") == 3 and name.endswith(".png") and not name.startswith("__MACOSX")


def _read_drawing(content: bytes, size: int) -> np.ndarray:
    paper = Image.open(io.BytesIO(content), formats=("PNG",))
    check_pixels(paper.size)
    return 255 - np.asarray(paper.convert("L").resize((size, size), Image.Resampling.BOX))
