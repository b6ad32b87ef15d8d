"""Stanford Online Products, read from its official files."""

from typing import Literal

from gsp_tf._typing import PathLike
from gsp_tf.data.datasets._official import Counts, Source, labelled_files, read_table
from gsp_tf.data.images.encoded_images import FileImages

_SOURCE = Source.of_archive(
    "Stanford Online Products",
    "https://cvgl.stanford.edu/projects/lifted_struct/",
    "http://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",
    "7f73d41a2f44250d4779881525aea32e",
    "Stanford_Online_Products",
    {"train": (11_318, 59_551), "test": (11_316, 60_502)},
)
_COLUMNS = {"image_id": int, "class_id": int, "super_class_id": int, "path": str}


def load_sop(
    path: PathLike,
    channels: Literal[1, 3] = 3,
    skip_unreadable: bool = False,
    *,
    download: bool = False,
    counts: Counts | None = None,
) -> dict[str, FileImages]:
    """Reads Stanford Online Products; groups are its 12 kinds of products.

    Song, Xiang, Jegelka, Savarese, "Deep Metric Learning via Lifted Structured Feature Embedding",
    CVPR 2016.

    Args:
        path: Folder that holds `Stanford_Online_Products`.
        channels: Channels to convert to: 1 for grey or 3 for RGB.
        skip_unreadable: Leave out unreadable files with a warning instead of raising an error.
        download: Whether to download missing files.
        counts: Expected classes and images of each half; the published ones by default.

    Returns:
        `{"train": images, "test": images}`, classes in the order of their numbers, with names
        such as `bicycle/1`.

    Raises:
        OSError: If files are missing or cannot be downloaded.
        ValueError: If a list is broken, a count is off, or files are unreadable.

    Example:
        >>> load_sop("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: nowhere/Stanford_Online_Products does not exist. Stanf...
    """
    folder = _SOURCE.obtain(path, download)
    root = folder / "Stanford_Online_Products"
    sets = {}
    for split in ("train", "test"):
        path = root / f"Ebay_{split}.txt"
        _SOURCE.require(folder, path)
        rows = read_table(path, _COLUMNS, heading=1)
        kinds = {row[1]: row[3].split("/")[0].removesuffix("_final") for row in rows}
        sets[split] = labelled_files(
            [(str(root / row[3]), row[1]) for row in rows],
            {label: (f"{kinds[label]}/{label}", kinds[label]) for label in sorted(kinds)},
            channels,
        )
    return _SOURCE.checked(folder, sets, counts, skip_unreadable)
