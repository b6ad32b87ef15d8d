"""Stanford Online Products, read from its official files."""

from typing import Literal

from gsp_tf._typing import PathLike
from gsp_tf.data.download import Remote
from gsp_tf.data.image_set import FileImages
from gsp_tf.data.lists import labelled_files, read_table
from gsp_tf.data.official import Counts, Source

_SOURCE = Source(
    "Stanford Online Products",
    "https://cvgl.stanford.edu/projects/lifted_struct/",
    "the folder Stanford_Online_Products that Stanford_Online_Products.zip unpacks to",
    (
        Remote(
            "http://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",
            "Stanford_Online_Products.zip",
            "7f73d41a2f44250d4779881525aea32e",
            folder="Stanford_Online_Products",
        ),
    ),
)
_COUNTS = {"train": (11_318, 59_551), "test": (11_316, 60_502)}
_COLUMNS = {"image_id": int, "class_id": int, "super_class_id": int, "path": str}


def load_sop(
    path: PathLike,
    channels: Literal[1, 3] = 3,
    skip_unreadable: bool = False,
    *,
    download: bool = False,
    counts: Counts | None = None,
) -> dict[str, FileImages]:
    """Reads Stanford Online Products, whose groups are its 12 kinds of products.

    Song, Xiang, Jegelka, Savarese, "Deep Metric Learning via Lifted Structured Feature Embedding",
    CVPR 2016.

    Args:
        path: Where the folder `Stanford_Online_Products` lies.
        channels: 1 (grey) or 3 (RGB), what the images are converted to.
        skip_unreadable: Whether to decode every image and continue without the broken ones. Else a
            broken image is an error when it is used.
        download: Whether to download what is missing.
        counts: Classes and images of each half to expect, by default the published ones.

    Returns:
        `{"train": images, "test": images}`, classes in the order of their numbers and named such
        as `bicycle/1`.

    Raises:
        FileNotFoundError: If the folder, a list or listed images are missing.
        OSError: If it cannot be downloaded.
        ValueError: If a list is broken or a count is off.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     root = Path(folder, "Stanford_Online_Products")
        ...     (root / "mug_final").mkdir(parents=True)
        ...     for i, split in enumerate(("train", "test"), start=1):
        ...         (root / f"mug_final/{i}_0.JPG").touch()
        ...         _ = (root / f"Ebay_{split}.txt").write_text(
        ...             f"image_id class_id super_class_id path\\n{i} {i} 8 mug_final/{i}_0.JPG\\n")
        ...     load_sop(folder, counts={"train": (1, 1), "test": (1, 1)})["test"].class_names
        ('mug/2',)
    """
    counts = _COUNTS if counts is None else counts
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
    return _SOURCE.verified(folder, sets, counts, skip_unreadable)
