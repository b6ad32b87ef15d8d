"""Caltech-UCSD Birds-200-2011, read from its official files."""

from typing import Literal

from gsp_tf._typing import PathLike
from gsp_tf.data.download import Remote
from gsp_tf.data.image_set import FileImages
from gsp_tf.data.lists import halved, read_table
from gsp_tf.data.official import Counts, Source

_SOURCE = Source(
    "CUB-200-2011",
    "https://www.vision.caltech.edu/datasets/cub_200_2011/",
    "the folder CUB_200_2011 that CUB_200_2011.tgz unpacks to",
    (
        Remote(
            "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
            "CUB_200_2011.tgz",
            "97eceeb196236b17998738112f37df78",
            folder="CUB_200_2011",
        ),
    ),
)
_COUNTS = {"train": (100, 5_864), "test": (100, 5_924)}


def load_cub200(
    path: PathLike,
    channels: Literal[1, 3] = 3,
    skip_unreadable: bool = False,
    *,
    download: bool = False,
    counts: Counts | None = None,
) -> dict[str, FileImages]:
    """Reads CUB-200-2011: the first 100 species train, the other 100 test.

    Wah, Branson, Welinder, Perona, Belongie, "The Caltech-UCSD Birds-200-2011 Dataset", 2011. The
    halves are those of metric learning, by class, not those of the file train_test_split.txt.

    Args:
        path: Where the folder `CUB_200_2011` lies.
        channels: 1 (grey) or 3 (RGB), what the images are converted to.
        skip_unreadable: Whether to decode every image and continue without the broken ones. Else a
            broken image is an error when it is used.
        download: Whether to download what is missing.
        counts: Classes and images of each half to expect, by default the published ones.

    Returns:
        `{"train": images, "test": images}`, classes in the order of classes.txt.

    Raises:
        FileNotFoundError: If the folder, a list or listed images are missing.
        OSError: If it cannot be downloaded.
        ValueError: If a list is broken or a count is off.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> lists = {"classes": "1 001.Gull\\n2 002.Wren\\n", "images": "1 001.Gull/a.jpg\\n"
        ...     "2 002.Wren/b.jpg\\n", "image_class_labels": "1 1\\n2 2\\n"}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("001.Gull/a.jpg", "002.Wren/b.jpg"):
        ...         path = Path(folder, "CUB_200_2011/images", name)
        ...         path.parent.mkdir(parents=True)
        ...         path.touch()
        ...     for name, text in lists.items():
        ...         _ = Path(folder, f"CUB_200_2011/{name}.txt").write_text(text)
        ...     load_cub200(folder, counts={"train": (1, 1), "test": (1, 1)})["test"].class_names
        ('002.Wren',)
    """
    counts = _COUNTS if counts is None else counts
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
    sets = halved(listed, names, counts["train"][0], channels)
    return _SOURCE.verified(folder, sets, counts, skip_unreadable)
