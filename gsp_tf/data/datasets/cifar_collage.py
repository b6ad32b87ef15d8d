"""Cifar Collage, the synthetic benchmark of the GSP paper, made from CIFAR-100."""

from typing import Literal

import numpy as np

from gsp_tf._typing import PathLike
from gsp_tf.data.datasets._official import Counts
from gsp_tf.data.datasets.cifar import load_cifar100
from gsp_tf.data.datasets.collage import CollageImages, labelled_collages

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
        path: Folder that holds CIFAR-100 (see `load_cifar100`).
        label: Label of a collage. "super_class" gives 16 labels, the same in training and test, as
            in the papers and the program; "class" gives 32, 16 and 32 labels, all different.
        grid: 1 keeps only the foreground image, 32 x 32 pixels: the papers' "Distilled".
        download: Whether to download missing files.
        counts: Expected classes and images of CIFAR-100; the published ones by default.

    Returns:
        `{"train": images, "validation": images, "test": images}`, 64 x 64 pixels each.

    Raises:
        OSError: If files are missing or cannot be downloaded.
        ValueError: If a file is broken, a count is off, a super-class does not have five classes,
            or `grid` is not 1 or 2.

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
