"""The four benchmarks of retrieval (CUB-200-2011, Cars196, SOP, In-shop), from official files."""

from pathlib import Path
from typing import Literal

import scipy.io

from gsp_tf._console import bulleted
from gsp_tf._typing import PathLike
from gsp_tf.data.datasets._official import (
    Counts,
    Remote,
    Source,
    halved,
    read_table,
)
from gsp_tf.data.images.encoded_images import FileImages, labelled_files

_CUB200 = Source.of_archive(
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
        counts: Expected classes and images of each set; the published ones by default.

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
    folder = _CUB200.obtain(path, download)
    root = folder / "CUB_200_2011"
    lists = {name: root / f"{name}.txt" for name in ("classes", "images", "image_class_labels")}
    for path in lists.values():
        _CUB200.require(folder, path)
    names = dict(sorted(read_table(lists["classes"], {"class_id": int, "class_name": str})))
    class_of = dict(read_table(lists["image_class_labels"], {"image_id": int, "class_id": int}))
    listed = [
        (str(root / "images" / path), class_of.get(image))
        for image, path in read_table(lists["images"], {"image_id": int, "image_name": str})
    ]
    sets = halved(listed, names, (counts or _CUB200.counts)["train"][0], channels)
    return _CUB200.checked(folder, sets, counts, skip_unreadable)


_ADDRESS = "http://ai.stanford.edu/~jkrause/car196"
_CARS196 = Source(
    "Cars196",
    "https://ai.stanford.edu/~jkrause/cars/car_dataset.html (gone since 2023: look for copies of "
    "these two files, of MD5 d5c8f0aa497503f355e17dc7886c3f14 and "
    "b407c6086d669747186bd1d764ff9dbc)",
    "the folder car_ims that car_ims.tgz unpacks to and the file cars_annos.mat",
    {"train": (98, 8_054), "test": (98, 8_131)},
    (
        Remote(f"{_ADDRESS}/car_ims.tgz", "d5c8f0aa497503f355e17dc7886c3f14", folder="car_ims"),
        Remote(f"{_ADDRESS}/cars_annos.mat", "b407c6086d669747186bd1d764ff9dbc"),
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
        channels, skip_unreadable, counts: As in `load_cub200`.
        download: Whether to download missing files. The authors' server is gone, but a
            `car_ims.tgz` in the folder is checked and unpacked.

    Returns:
        `{"train": images, "test": images}`, classes in the order of the annotations.

    Example:
        >>> load_cars196("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: nowhere/car_ims does not exist. Cars196 needs the folder...
    """
    folder = _CARS196.obtain(path, download)
    names, listed = _annotations(folder / "cars_annos.mat")
    images = [(str(folder / path), label) for path, label in listed]
    sets = halved(images, names, (counts or _CARS196.counts)["train"][0], channels)
    return _CARS196.checked(folder, sets, counts, skip_unreadable)


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


_SOP = Source.of_archive(
    "Stanford Online Products",
    "https://cvgl.stanford.edu/projects/lifted_struct/",
    "http://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",
    "7f73d41a2f44250d4779881525aea32e",
    "Stanford_Online_Products",
    {"train": (11_318, 59_551), "test": (11_316, 60_502)},
)
_SOP_COLUMNS = {"image_id": int, "class_id": int, "super_class_id": int, "path": str}


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
        channels, skip_unreadable, download, counts: As in `load_cub200`.

    Returns:
        `{"train": images, "test": images}`, classes in the order of their numbers, with names
        such as `bicycle/1`.

    Example:
        >>> load_sop("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: nowhere/Stanford_Online_Products does not exist. Stanf...
    """
    folder = _SOP.obtain(path, download)
    root = folder / "Stanford_Online_Products"
    sets = {}
    for split in ("train", "test"):
        path = root / f"Ebay_{split}.txt"
        _SOP.require(folder, path)
        rows = read_table(path, _SOP_COLUMNS, heading=1)
        kinds = {row[1]: row[3].split("/")[0].removesuffix("_final") for row in rows}
        sets[split] = labelled_files(
            [(str(root / row[3]), row[1]) for row in rows],
            {label: (f"{kinds[label]}/{label}", kinds[label]) for label in sorted(kinds)},
            channels,
        )
    return _SOP.checked(folder, sets, counts, skip_unreadable)


_IN_SHOP_LIST = "Eval/list_eval_partition.txt"
_IN_SHOP = Source(
    "In-shop Clothes Retrieval",
    "https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html (its terms "
    "of use have to be agreed to)",
    f"the file {_IN_SHOP_LIST} and the folder Img/img that Img/img.zip unpacks to",
    {"train": (3_997, 25_882), "query": (3_985, 14_218), "gallery": (3_985, 12_612)},
)
_IN_SHOP_COLUMNS = {"image_name": str, "item_id": str, "evaluation_status": str}


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
        channels, skip_unreadable, counts: As in `load_cub200`.

    Returns:
        `{"train": images, "query": images, "gallery": images}`. Classes are items, in the
        order of the list; query and gallery share them.

    Example:
        >>> load_in_shop("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: nowhere/Eval/list_eval_partition.txt does not exist. In-shop...
    """
    folder = Path(path)
    _IN_SHOP.require(folder, folder / _IN_SHOP_LIST)
    rows = read_table(folder / _IN_SHOP_LIST, _IN_SHOP_COLUMNS, heading=2)
    _check_rows(folder / _IN_SHOP_LIST, rows)
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
    return _IN_SHOP.checked(folder, sets, counts, skip_unreadable)


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
