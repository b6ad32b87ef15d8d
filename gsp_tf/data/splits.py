"""Class-disjoint splits and protocols: evaluation uses classes that training never saw."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._arguments import checked_seed
from gsp_tf._console import counted
from gsp_tf.data.images.image_set import ImageSet, SelectedImages

Protocol = Literal["mlrc", "conventional", "ablation", "tuning"]

_FEWEST_CLASSES = 2
_TRAINING_SHARE = {"ablation": 2 / 3, "tuning": 4 / 5}


def split_classes(
    images: ImageSet, fractions: Sequence[float] = (0.5, 0.1, 0.4), seed: int = 0
) -> tuple[ImageSet | None, ImageSet | None, ImageSet | None]:
    """Splits a set by class into train, validation and test.

    Classes are shuffled, and each group (super-class) is spread proportionally over the splits.
    Every split has at least two classes; one with a small fraction takes them from the largest.

    Args:
        images: The set to split.
        fractions: Fractions of the classes for train, validation and test; they sum to 1.
        seed: Seed of the shuffle.

    Returns:
        `(train, validation, test)`; `None` for a fraction of 0. Each split renumbers its labels
        from 0, in the order of the original classes.

    Raises:
        ValueError: If there are fewer than two classes per split.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> images = ArrayImages(np.zeros((10, 4, 4, 1), "uint8"), range(10), list("abcdefghij"))
        >>> [len(part.class_names) for part in split_classes(images, (0.5, 0.2, 0.3))]
        [5, 2, 3]
    """
    fractions = _checked(fractions)
    order = _stratified_order(images.groups, np.random.default_rng(checked_seed(seed)))
    counts = _class_counts(len(order), fractions)
    return tuple(
        images.subset(np.sort(classes)) if len(classes) else None
        for classes in np.split(order, np.cumsum(counts)[:2])
    )


def split_images(
    images: ImageSet, fractions: Sequence[float] = (0.75, 0.05, 0.2), seed: int = 0
) -> tuple[ImageSet, ImageSet, ImageSet]:
    """Splits the images of every class into train, validation and test, for a classifier.

    All parts have the same classes. Retrieval on such a test set says nothing about unseen classes;
    `split_classes` is for that. The images of each part keep their order. Refuses fractions that
    leave a class without an image in one of the parts.
    """
    bounds = np.cumsum(_checked(fractions))
    rng, part = np.random.default_rng(checked_seed(seed)), np.empty(len(images), int)
    for label, name in enumerate(images.class_names):
        members = rng.permutation(np.flatnonzero(images.labels == label))
        ends = np.rint(bounds[:2] * len(members)).astype(int)
        counts = np.diff([0, *ends, len(members)])
        if not counts.all():
            raise ValueError(
                f"every class needs an image for each of train, validation and test; class {name} "
                f"has {counted(len(members), 'image')}, which give {counts.tolist()}."
            )
        part[members] = np.repeat(np.arange(3), counts)
    return tuple(SelectedImages(images, np.flatnonzero(part == number)) for number in range(3))


def halve_classes(num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Halves the classes: the first half trains and validates, the second half tests.

    The test half of an odd number has one class more.
    """
    if num_classes < 2:
        raise ValueError(f"Two halves need at least two classes; received {num_classes}.")
    return tuple(np.split(np.arange(num_classes), [num_classes // 2]))


def protocol_classes(
    protocol: Protocol, num_classes: int, fold: int = 0, num_folds: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    """Splits the classes of the training half: some train, the others choose the model.

    - `mlrc`: the classes are cut into folds; one fold validates, the others train ("A Metric
      Learning Reality Check", Musgrave et al., ECCV 2020; Gürbüz, thesis 2022, sections 3.3.2.1 and
      5.3.4.1).
    - `conventional`: all classes train and none validates; the test half chooses the model, so the
      model is tuned on the test set (the same sections).
    - `ablation`: the first 2/3 train, the last 1/3 validates (section 3.3.2.1).
    - `tuning`: the first 4/5 train, the last 1/5 validates (section 5.3.4.1).

    Like the halves, folds and fractions are consecutive classes. The papers state how many classes
    each has, not which. Returns the classes that train and those that validate, at least two each.
    """
    classes = np.arange(num_classes)
    if protocol == "conventional":
        parts = classes, classes[:0]
    elif protocol == "mlrc":
        validation = np.array_split(classes, num_folds)[fold]
        parts = np.setdiff1d(classes, validation), validation
    else:
        parts = np.split(classes, [round(_TRAINING_SHARE[protocol] * num_classes)])
    if len(parts[0]) < 2 or (len(parts[1]) < 2 and protocol != "conventional"):
        raise ValueError(
            f"{protocol} needs at least two classes to train and two to validate on; the "
            f"{num_classes} classes of the training half give {len(parts[0])} and {len(parts[1])}."
        )
    return tuple(parts)


def _checked(fractions: Sequence[float]) -> tuple[float, ...]:
    """The fractions of three parts; raises if they are none."""
    fractions = tuple(float(fraction) for fraction in fractions)
    if len(fractions) != 3 or min(fractions) < 0 or not np.isclose(sum(fractions), 1):
        raise ValueError(
            "fractions must be three numbers (train, validation, test), none negative, that sum "
            f"to 1; received {fractions}."
        )
    return fractions


def _class_counts(num_classes: int, fractions: Sequence[float]) -> np.ndarray:
    """The number of classes in each split."""
    wanted = np.array(fractions) > 0
    if num_classes < _FEWEST_CLASSES * wanted.sum():
        raise ValueError(
            f"every split needs at least {_FEWEST_CLASSES} classes; received "
            f"{counted(num_classes, 'class', 'classes')} for {counted(wanted.sum(), 'split')}."
        )
    counts = np.diff(np.rint(np.cumsum([0.0, *fractions]) * num_classes).astype(int))
    for split in np.flatnonzero(wanted):
        while counts[split] < _FEWEST_CLASSES:
            counts[np.argmax(counts)] -= 1
            counts[split] += 1
    return counts


def _stratified_order(groups: Sequence[str], rng: np.random.Generator) -> np.ndarray:
    """Shuffles classes so that every consecutive part holds the groups in proportion."""
    groups = np.asarray(groups)
    position = np.empty(len(groups))
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        position[members] = (rng.permutation(len(members)) + rng.random()) / len(members)
    return np.argsort(position, kind="stable")


def class_by_class(labels: ArrayLike) -> np.ndarray:
    """A permutation of indices `(N,)` in which every class comes once before any comes twice."""
    order = np.random.default_rng(0).permutation(len(labels))
    seen = Counter()
    turn = []
    for label in np.asarray(labels)[order].tolist():
        turn.append(seen[label])
        seen[label] += 1
    return order[np.argsort(turn, kind="stable")]
