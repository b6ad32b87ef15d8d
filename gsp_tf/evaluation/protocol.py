"""The field's evaluation protocols: which classes train, choose the model and test."""

from typing import Literal, get_args

import numpy as np

Protocol = Literal["mlrc", "conventional", "ablation", "tuning"]

_TRAINING_SHARE = {"ablation": 2 / 3, "tuning": 4 / 5}


def halve_classes(num_classes):
    """The first half of the classes, to train and validate on, and the second, to test on.

    Args:
        num_classes: number of classes, at least 2; of an odd number the test half has one more.

    Returns:
        integer arrays: the classes of the training half and of the test half, in order.

    Raises:
        ValueError: if there are fewer than two classes.

    Example:
        >>> halve_classes(5)
        (array([0, 1]), array([2, 3, 4]))
    """
    if num_classes < 2:
        raise ValueError(f"Two halves need at least two classes, received {num_classes}.")
    return tuple(np.split(np.arange(num_classes), [num_classes // 2]))


def protocol_classes(protocol: Protocol, num_classes, fold=0, num_folds=4):
    """Which classes of the training half train, and which choose the model.

    - `mlrc`: the classes are cut into folds; one fold validates, the others train ("A Metric
      Learning Reality Check", Musgrave et al., ECCV 2020; Gürbüz, thesis 2022, sections 3.3.2.1 and
      5.3.4.1).
    - `conventional`: all classes train and none is left to validate; the model is chosen by the
      test half, which is to tune on the test set (the same sections).
    - `ablation`: the first 2/3 train, the last 1/3 validates (section 3.3.2.1).
    - `tuning`: the first 4/5 train, the last 1/5 validates (section 5.3.4.1).

    The parts are stretches of the classes in their order, as are the halves; the papers say how
    many classes they have, not which.

    Args:
        protocol: one of these names.
        num_classes: number of classes of the training half.
        fold: fold of `mlrc` that validates, from 0.
        num_folds: number of folds of `mlrc`.

    Returns:
        integer arrays: the classes that train and those that validate, the latter empty for
        `conventional`.

    Raises:
        ValueError: for an unknown protocol, a fold that there is not, or too few classes for two
            of them in each part.

    Example:
        >>> protocol_classes("mlrc", 8, fold=1)
        (array([0, 1, 4, 5, 6, 7]), array([2, 3]))
        >>> protocol_classes("ablation", 6)
        (array([0, 1, 2, 3]), array([4, 5]))
    """
    if protocol not in get_args(Protocol):
        raise ValueError(f"protocol must be one of {get_args(Protocol)}; received {protocol!r}.")
    classes = np.arange(num_classes)
    if protocol == "conventional":
        parts = classes, classes[:0]
    elif protocol == "mlrc":
        if num_folds < 2 or not 0 <= fold < num_folds:
            raise ValueError(
                "fold must be one of 0 to num_folds - 1, of at least two folds; received "
                f"fold={fold} and num_folds={num_folds}."
            )
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
