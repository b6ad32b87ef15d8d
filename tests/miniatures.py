"""Miniature copies of published data sets in their official layouts."""

import gzip
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.io
from PIL import Image

from gsp_tf import data
from gsp_tf.data.datasets import benchmarks, small_images

CAR_FIELDS = ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")
_OF_BACKGROUNDS = {
    2: "flowers",
    9: "large_man-made_outdoor_things",
    10: "large_natural_outdoor_scenes",
    17: "trees",
}
"""The super-classes of CIFAR-100 that `load_cifar_collage` knows by their names."""
SUPER_NAMES = [_OF_BACKGROUNDS.get(i, f"super_{i:02}") for i in range(20)]
TEN_NAMES = [f"kind_{i}" for i in range(10)]


def save_image(path, value=0):
    """Saves a small image of one colour and makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (value, value, value)).save(path, "JPEG")


def write_cub200(folder, num_training=10):
    """Two images of every training species and of three others."""
    root = folder / "CUB_200_2011"
    names = [f"{label:03}.Bird_{label}" for label in range(1, num_training + 4)]
    images = [f"{name}/{name[4:]}_000{i}_{i}.jpg" for name in names for i in (1, 2)]
    for value, image in enumerate(images):
        save_image(root / "images" / image, value * 5 % 256)
    lists = {
        "classes": [f"{i} {name}" for i, name in enumerate(names, 1)],
        "images": [f"{i} {image}" for i, image in enumerate(images, 1)],
        "image_class_labels": [f"{i} {int(image[:3])}" for i, image in enumerate(images, 1)],
        "train_test_split": [f"{i} {i % 2}" for i, _ in enumerate(images, 1)],
    }
    for name, lines in lists.items():
        (root / f"{name}.txt").write_text("\n".join(lines) + "\n")


def write_car_annotations(folder, labels, num_classes=13, fields=CAR_FIELDS):
    """cars_annos.mat: a 1 x N struct of 1 x 1 matrices, and a cell of names."""
    cars = np.empty((1, len(labels)), [(field, object) for field in fields])
    for i, label in enumerate(labels):
        row = [f"car_ims/{i + 1:06}.jpg", *np.uint8([[1], [2], [9], [8]]), np.uint8([[label]]), 0]
        cars[0, i] = tuple(row[CAR_FIELDS.index(field)] for field in fields)
    names = np.array([[f"Car {i} Coupé" for i in range(1, num_classes + 1)]], object)
    scipy.io.savemat(folder / "cars_annos.mat", {"annotations": cars, "class_names": names})


def write_cars196(folder, num_training=10):
    """Two images of every training model and of three others."""
    num_classes = num_training + 3
    write_car_annotations(folder, np.repeat(np.arange(1, num_classes + 1), 2), num_classes)
    for i in range(2 * num_classes):
        save_image(folder / f"car_ims/{i + 1:06}.jpg", i * 5 % 256)


def write_sop(folder, num_training=10):
    """Products of two kinds; the test list continues the numbers of the training list."""
    root, number = folder / "Stanford_Online_Products", 0
    first = num_training + 1
    for split, classes, count in (
        ("train", range(1, first), 2),
        ("test", range(first, first + 3), 3),
    ):
        lines = ["image_id class_id super_class_id path"]
        for label in classes:
            kind, name = ((1, "bicycle"), (12, "toaster"))[label % 2]
            for i in range(count):
                number += 1
                path = f"{name}_final/1110851228{label:02}_{i}.JPG"
                save_image(root / path, number * 5 % 256)
                lines.append(f"{number} {label} {kind} {path}")
        (root / f"Ebay_{split}.txt").write_text("\n".join(lines) + "\n")


def write_in_shop(folder, num_training=10, images="Img"):
    """Training items and three to search; `images` is the folder that contains img."""
    items = [(i, "train", 2) for i in range(1, 2 * num_training, 2)]
    items += [(i, status, n) for i in (6, 2, 4) for status, n in (("query", 1), ("gallery", 2))]
    rows = []
    for item, status, count in items:
        for i in range(count):
            kind = ("MEN/Denim", "WOMEN/Dresses")[item % 2]
            path = f"img/{kind}/id_{item:08}/0{i + 1}_1_{status}.jpg"
            save_image(folder / images / path, len(rows) * 5 % 256)
            rows.append(f"{path:<70} id_{item:08} {status}")  # padded, as in the official list
    (folder / "Eval").mkdir(exist_ok=True)
    lines = [str(len(rows)), "image_name item_id evaluation_status", *rows]
    (folder / "Eval/list_eval_partition.txt").write_text("\n".join(lines) + "\n")


def cifar_record(*labels, colour=(0, 0, 0)):
    """A record with one colour, except that the red of its top left pixel is 255."""
    planes = np.empty((3, 32, 32), np.uint8)
    planes[:] = np.reshape(colour, (3, 1, 1))
    planes[:, 0, 0] = 255, 0, 0
    return bytes(labels) + planes.tobytes()


def write_cifar100(folder):
    """Three images of each class i, of super-class i % 20 and colour (i, i % 20, number)."""
    root = folder / "cifar-100-binary"
    root.mkdir(parents=True)
    (root / "fine_label_names.txt").write_text("".join(f"fine_{i:02}\n" for i in range(100)))
    (root / "coarse_label_names.txt").write_text("\n".join(SUPER_NAMES) + "\n")
    for name, numbers in (("train", (0, 1)), ("test", (2,))):
        content = b"".join(
            cifar_record(i % 20, i, colour=(i, i % 20, number))
            for number in numbers
            for i in range(100)
        )
        (root / f"{name}.bin").write_bytes(content)


def write_cifar10(folder):
    """Six images per class, of colour (number of the file, class, 9)."""
    root = folder / "cifar-10-batches-bin"
    root.mkdir(parents=True)
    (root / "batches.meta.txt").write_text("\n".join(TEN_NAMES) + "\n\n")
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        content = b"".join(cifar_record(label, colour=(i, label, 9)) for label in range(10))
        (root / f"{name}.bin").write_bytes(content)


def write_mnist(folder):
    """Twenty training and ten test images; row i % 28 of image i is i + 1."""
    for name, start, stop in (("train", 0, 20), ("t10k", 20, 30)):
        numbers = np.arange(start, stop)
        pixels = np.zeros((len(numbers), 28, 28), np.uint8)
        pixels[np.arange(len(numbers)), numbers % 28] = numbers[:, None] + 1
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", pixels)
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", numbers % 10)


def write_idx(path, array):
    """An array of bytes in the format of MNIST."""
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">i4").tobytes()
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


class Miniature(NamedTuple):
    load: Callable
    write: Callable
    counts: dict
    source: tuple = ()  # a module, and the name of the source in it


CARS = Miniature(
    data.load_cars196, write_cars196, {"train": (10, 20), "test": (3, 6)}, (benchmarks, "_CARS196")
)
BIRDS = Miniature(data.load_cub200, write_cub200, CARS.counts, (benchmarks, "_CUB200"))
PRODUCTS = Miniature(
    data.load_sop, write_sop, {"train": (10, 20), "test": (3, 9)}, (benchmarks, "_SOP")
)
CLOTHES = Miniature(
    data.load_in_shop, write_in_shop, {"train": (10, 20), "query": (3, 3), "gallery": (3, 6)}
)
TEN = Miniature(data.load_cifar10, write_cifar10, {"all": (10, 60)}, (small_images, "_TEN"))
HUNDRED = Miniature(
    data.load_cifar100, write_cifar100, {"all": (100, 300)}, (small_images, "_HUNDRED")
)
DIGITS = Miniature(data.load_mnist, write_mnist, {"all": (10, 30)}, (small_images, "_MNIST"))
