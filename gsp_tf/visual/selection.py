"""Selection of the images that a report shows."""

from collections import Counter

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._integers import checked_seed


def class_by_class(labels: ArrayLike, seed: int) -> np.ndarray:
    """Shuffles indices so that every class comes once before any comes twice.

    Args:
        labels: integers `(N,)`.
        seed: seed of the permutation.

    Returns:
        A permutation, integers `(N,)`.

    Example:
        >>> labels = np.array([0, 0, 0, 7, 7, 9])
        >>> labels[class_by_class(labels, seed=0)[:3]].tolist() in [[0, 9, 7], [7, 0, 9], [9, 7, 0]]
        True
    """
    order = np.random.default_rng(checked_seed(seed)).permutation(len(labels))
    seen = Counter()
    turn = []
    for label in np.asarray(labels)[order].tolist():
        turn.append(seen[label])
        seen[label] += 1
    return order[np.argsort(turn, kind="stable")]


def few_classes(
    labels: ArrayLike, seed: int, max_classes: int = 12, max_points: int = 600
) -> np.ndarray:
    """Sorted image indices from a few random classes, about equally many per class."""
    order = class_by_class(labels, seed)
    in_order = np.asarray(labels)[order]
    first = np.sort(np.unique(in_order, return_index=True)[1])
    chosen = np.isin(in_order, in_order[first[:max_classes]])
    return np.sort(order[chosen][:max_points])


def telling_queries(hits: np.ndarray, count: int) -> np.ndarray:
    """Up to `count` queries, taken in turns from those that some, all or no runs have hit."""
    won = np.asarray(hits).mean(axis=0)
    outcomes = [np.flatnonzero(group) for group in ((won > 0) & (won < 1), won == 1, won == 0)]
    turns = [(turn, kind) for kind, found in enumerate(outcomes) for turn in range(len(found))]
    return np.array([outcomes[kind][turn] for turn, kind in sorted(turns)[:count]], dtype=int)
