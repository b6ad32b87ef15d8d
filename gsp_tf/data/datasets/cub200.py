"""Caltech-UCSD Birds-200-2011, read from its official files."""

from typing import Literal

from gsp_tf._typing import PathLike
from gsp_tf.data.datasets._official import Counts, Source, halved, read_table
from gsp_tf.data.images.encoded_images import FileImages

_SOURCE = Source.of_archive(
    "CUB-200-2011",
    "https://www.vision.caltech.edu/datasets/cub_200_2011/",
    "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
    "97eceeb196236b17998738112f37df78",
    "CUB_200_2011",
    {"train": (100, 5_864), "test": (100, 5_924)},
)


def load_cub200(
    path: PathLike,
    channels: Literal[1, 3] = 3,
    skip_unreadable: bool = False,
    *,
    download: bool = False,
    counts: Counts | None = None,
) -> dict[str, FileImages]:
    """Reads CUB-200-2011: the first 100 species train, the other 100 test.

    Wah, Branson, Welinder, Perona, Belongie, "The Caltech-UCSD Birds-200-2011 Dataset", 2011. As
    usual in metric learning, the halves are split by class; train_test_split.txt is ignored.

    Args:
        path: Folder that holds `CUB_200_2011`.
        channels: Channels to convert to: 1 for grey or 3 for RGB.
        skip_unreadable: Leave out unreadable files with a warning instead of raising an error.
        download: Whether to download missing files.
        counts: Expected classes and images of each half; the published ones by default.

    Returns:
        `{"train": images, "test": images}`, classes in the order of classes.txt.

    Raises:
        OSError: If files are missing or cannot be downloaded.
        ValueError: If a list is broken, a count is off, or files are unreadable.

    Example:
        >>> load_cub200("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: nowhere/CUB_200_2011 does not exist. CUB-200-2011 needs...
    """
    folder = _SOURCE.obtain(path, download)
    root = folder / "CUB_200_2011"
    lists = {name: root / f"{name}.txt" for name in ("classes", "images", "image_class_labels")}
    for path in lists.values():
        _SOURCE.require(folder, path)
    names = dict(sorted(read_table(lists["classes"], {"class_id": int, "class_name": str})))
    class_of = dict(read_table(lists["image_class_labels"], {"image_id": int, "class_id": int}))
    listed = [
        (str(root / "images" / path), class_of.get(image))
        for image, path in read_table(lists["images"], {"image_id": int, "image_name": str})
    ]
    sets = halved(listed, names, (counts or _SOURCE.counts)["train"][0], channels)
    return _SOURCE.checked(folder, sets, counts, skip_unreadable)
