"""Class-disjoint splits: models are evaluated on classes that training never saw."""

from collections.abc import Sequence

import numpy as np

from gsp_tf._console import counted
from gsp_tf.data.images.image_set import ImageSet

_FEWEST_CLASSES = 2


def split_classes(
    images: ImageSet, fractions: Sequence[float] = (0.5, 0.1, 0.4), seed: int = 0
) -> tuple[ImageSet | None, ImageSet | None, ImageSet | None]:
    """Splits a set by class into train, validation and test.

    Classes are shuffled, and every group (super-class) is spread over the splits in proportion. A
    split has at least two classes; a small fraction takes them from the largest split.

    Args:
        images: The set to split.
        fractions: Fractions of the classes for train, validation and test; they sum to 1.
        seed: Which of the possible splits.

    Returns:
        `(train, validation, test)`; `None` for a fraction of 0. Labels are renumbered from 0 in
        each, in the order of the original classes.

    Raises:
        ValueError: If the fractions are not three numbers that sum to 1, or if there are fewer than
            two classes for every split.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> images = ArrayImages(np.zeros((10, 4, 4, 1), "uint8"), range(10), list("abcdefghij"))
        >>> [len(part.class_names) for part in split_classes(images, (0.5, 0.2, 0.3))]
        [5, 2, 3]
    """
    fractions = tuple(float(fraction) for fraction in fractions)
    if len(fractions) != 3 or min(fractions) < 0 or not np.isclose(sum(fractions), 1):
        raise ValueError(
            "fractions must be three numbers (train, validation, test), none negative, that sum "
            f"to 1; received {fractions}."
        )
    order = _stratified_order(images.groups, np.random.default_rng(seed))
    counts = _class_counts(len(order), fractions)
    return tuple(
        images.subset(np.sort(classes)) if len(classes) else None
        for classes in np.split(order, np.cumsum(counts)[:2])
    )


def _class_counts(num_classes: int, fractions: Sequence[float]) -> np.ndarray:
    """Returns the number of classes of every split."""
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
    """Shuffles classes so that every stretch holds each group in proportion."""
    groups = np.asarray(groups)
    position = np.empty(len(groups))
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        position[members] = (rng.permutation(len(members)) + rng.random()) / len(members)
    return np.argsort(position, kind="stable")
