"""Cars196 (Stanford Cars), read from its official files."""

from pathlib import Path
from typing import Literal

import scipy.io

from gsp_tf._typing import PathLike
from gsp_tf.data.datasets._official import Counts, Remote, Source, halved
from gsp_tf.data.images.encoded_images import FileImages

_ADDRESS = "http://ai.stanford.edu/~jkrause/car196"
_SOURCE = Source(
    "Cars196",
    "https://ai.stanford.edu/~jkrause/cars/car_dataset.html (gone since 2023: look for copies of "
    "these two files, of MD5 d5c8f0aa497503f355e17dc7886c3f14 and "
    "b407c6086d669747186bd1d764ff9dbc)",
    "the folder car_ims that car_ims.tgz unpacks to and the file cars_annos.mat",
    {"train": (98, 8_054), "test": (98, 8_131)},
    (
        Remote(
            f"{_ADDRESS}/car_ims.tgz",
            "car_ims.tgz",
            "d5c8f0aa497503f355e17dc7886c3f14",
            folder="car_ims",
        ),
        Remote(f"{_ADDRESS}/cars_annos.mat", "cars_annos.mat", "b407c6086d669747186bd1d764ff9dbc"),
    ),
)


def load_cars196(
    path: PathLike,
    channels: Literal[1, 3] = 3,
    skip_unreadable: bool = False,
    *,
    download: bool = False,
    counts: Counts | None = None,
) -> dict[str, FileImages]:
    """Reads Cars196: the first 98 models train, the other 98 test.

    Krause, Stark, Deng, Fei-Fei, "3D Object Representations for Fine-Grained Categorization",
    ICCV workshops 2013. As usual in metric learning, the halves are split by class; the field
    `test` of the annotations is ignored.

    Args:
        path: Folder that holds the folder `car_ims` and the file `cars_annos.mat`.
        channels: Channels to convert to: 1 for grey or 3 for RGB.
        skip_unreadable: Leave out unreadable files with a warning instead of raising an error.
        download: Whether to download missing files. The authors' server is gone, but a
            `car_ims.tgz` in the folder is checked and unpacked.
        counts: Expected classes and images of each half; the published ones by default.

    Returns:
        `{"train": images, "test": images}`, classes in the order of the annotations.

    Raises:
        OSError: If files are missing or cannot be downloaded.
        ValueError: If the annotations are broken, a count is off, or files are unreadable.

    Example:
        >>> load_cars196("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: nowhere/car_ims does not exist. Cars196 needs the folder...
    """
    folder = _SOURCE.obtain(path, download)
    names, listed = _annotations(folder / "cars_annos.mat")
    images = [(str(folder / path), label) for path, label in listed]
    sets = halved(images, names, (counts or _SOURCE.counts)["train"][0], channels)
    return _SOURCE.checked(folder, sets, counts, skip_unreadable)


def _annotations(path: Path) -> tuple[dict[int, str], list[tuple[str, int]]]:
    """The class names, numbered from 1, and the path and class of every image."""
    try:
        content = scipy.io.loadmat(path, squeeze_me=True)
        names = [str(name) for name in content["class_names"]]
        cars = content["annotations"]
        images = [
            (str(image), int(label))
            for image, label in zip(cars["relative_im_path"], cars["class"], strict=True)
        ]
    # A damaged file may raise anything: OSError, KeyError, TypeError, zlib.error...
    except Exception as error:
        raise ValueError(
            f"{path} is broken ({type(error).__name__}: {error}); expected annotations with the "
            "fields relative_im_path and class, and class_names."
        ) from error
    return dict(enumerate(names, start=1)), images
