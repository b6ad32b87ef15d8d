"""Class-disjoint splits: models are evaluated on classes that training never saw."""

from collections.abc import Sequence

import numpy as np

from gsp_tf.data.image_set import ImageSet

_NAMES = ("train", "validation", "test")
_FEWEST_CLASSES = 2


def split_classes(
    images: ImageSet, fractions: Sequence[float] = (0.5, 0.1, 0.4), seed: int = 0
) -> tuple[ImageSet | None, ImageSet | None, ImageSet | None]:
    """Splits a set by class into train, validation and test.

    Classes are shuffled, and every group (super-class) is spread over the splits in proportion.

    Args:
        images: The set to split.
        fractions: Shares of the classes for train, validation and test; they sum to 1.
        seed: Which of the possible splits.

    Returns:
        `(train, validation, test)`; `None` for a fraction of 0. Labels are renumbered from 0 in
        each, in the order of the original classes.

    Raises:
        ValueError: If the fractions are not three shares that sum to 1, or a split would hold
            fewer than two classes.

    Example:

    >>> from gsp_tf.data import ArrayImages
    >>> images = ArrayImages(np.zeros((10, 4, 4, 1), "uint8"), range(10), list("abcdefghij"))
    >>> [len(part.class_names) for part in split_classes(images, (0.5, 0.2, 0.3))]
    [5, 2, 3]
    """
    fractions = tuple(float(fraction) for fraction in fractions)
    if len(fractions) != 3 or min(fractions) < 0 or not np.isclose(sum(fractions), 1):
        raise ValueError(
            "fractions must be three shares (train, validation, test), none negative, that sum "
            f"to 1; received {fractions}."
        )
    order = _stratified_order(images.groups, np.random.default_rng(seed))
    cuts = np.rint(np.cumsum(fractions[:2]) * len(order)).astype(int)
    parts = []
    for name, fraction, classes in zip(_NAMES, fractions, np.split(order, cuts), strict=True):
        if fraction == 0:
            parts.append(None)
            continue
        if len(classes) < _FEWEST_CLASSES:
            raise ValueError(
                f"every split needs at least {_FEWEST_CLASSES} classes; of {len(order)} classes "
                f"the fraction {fraction:g} leaves {len(classes)} for {name}."
            )
        parts.append(images.subset(np.sort(classes)))
    return tuple(parts)


def _stratified_order(groups: Sequence[str], rng: np.random.Generator) -> np.ndarray:
    """Shuffles classes so that every stretch holds its share of each group."""
    groups = np.asarray(groups)
    position = np.empty(len(groups))
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        position[members] = (rng.permutation(len(members)) + rng.random()) / len(members)
    return np.argsort(position, kind="stable")
