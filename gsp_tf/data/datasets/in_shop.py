"""In-shop Clothes Retrieval (DeepFashion), read from its official files."""

from pathlib import Path
from typing import Literal

from gsp_tf._console import bulleted
from gsp_tf._typing import PathLike
from gsp_tf.data.datasets._official import Counts, Source, labelled_files, read_table
from gsp_tf.data.images.encoded_images import FileImages

_LIST = "Eval/list_eval_partition.txt"
_SOURCE = Source(
    "In-shop Clothes Retrieval",
    "https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html (its terms "
    "of use have to be agreed to)",
    f"the file {_LIST} and the folder Img/img that Img/img.zip unpacks to",
    {"train": (3_997, 25_882), "query": (3_985, 14_218), "gallery": (3_985, 12_612)},
)
_COLUMNS = {"image_name": str, "item_id": str, "evaluation_status": str}


def load_in_shop(
    path: PathLike,
    channels: Literal[1, 3] = 3,
    skip_unreadable: bool = False,
    *,
    counts: Counts | None = None,
) -> dict[str, FileImages]:
    """Reads In-shop Clothes Retrieval; groups are categories such as `WOMEN/Dresses`.

    Liu, Luo, Qiu, Wang, Tang, "DeepFashion: Powering Robust Clothes Recognition and Retrieval with
    Rich Annotations", CVPR 2016. The files must be downloaded by hand.

    Args:
        path: Folder that holds `Eval/list_eval_partition.txt`, and images in `Img/img` or `img`.
        channels: Channels to convert to: 1 for grey or 3 for RGB.
        skip_unreadable: Leave out unreadable files with a warning instead of raising an error.
        counts: Expected classes and images of each set; the published ones by default.

    Returns:
        `{"train": images, "query": images, "gallery": images}`. Classes are items, in the
        order of the list; query and gallery share them.

    Raises:
        FileNotFoundError: If the list or listed images are missing.
        ValueError: If the list is broken, a count is off, or files are unreadable.

    Example:
        >>> load_in_shop("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: nowhere/Eval/list_eval_partition.txt does not exist. In-shop...
    """
    folder = Path(path)
    _SOURCE.require(folder, folder / _LIST)
    rows = read_table(folder / _LIST, _COLUMNS, heading=2)
    _check_rows(folder / _LIST, rows)
    images = folder / "Img" if (folder / "Img" / "img").is_dir() else folder
    sets = {}
    for split in ("train", "query", "gallery"):
        side = {"train"} if split == "train" else {"query", "gallery"}
        classes = {}
        for path, item, status in rows:
            if status in side:
                classes.setdefault(item, (item, "/".join(path.split("/")[1:-2])))
        listed = [(str(images / path), item) for path, item, status in rows if status == split]
        sets[split] = labelled_files(listed, classes, channels)
    return _SOURCE.checked(folder, sets, counts, skip_unreadable)


def _check_rows(path: Path, rows: list[tuple]) -> None:
    """Checks the list against the number in its first line, and for unknown sets."""
    announced = path.read_text(encoding="utf-8").split(maxsplit=1)[0]
    if announced != str(len(rows)):
        raise ValueError(
            f"{path} lists {len(rows)} images, but its first line says {announced!r}; is it cut "
            "off?"
        )
    unknown = [" ".join(row) for row in rows if row[2] not in ("train", "query", "gallery")]
    if unknown:
        raise ValueError(
            f"{path} has lines whose evaluation_status is not train, query or gallery:\n"
            f"{bulleted(unknown)}"
        )
