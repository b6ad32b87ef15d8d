"""Which of many images a report shows."""

from collections import Counter

import numpy as np


def class_by_class(labels, seed):
    """Shuffles indices so that every class comes once before any comes twice.

    Args:
        labels: integers `(N,)`.
        seed: integer seed.

    Returns:
        int array `(N,)`, a permutation.

    Example:
        >>> labels = np.array([0, 0, 0, 7, 7, 9])
        >>> labels[class_by_class(labels, seed=0)[:3]].tolist() in [[0, 9, 7], [7, 0, 9], [9, 7, 0]]
        True
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    seen = Counter()
    turn = []
    for label in np.asarray(labels)[order].tolist():
        turn.append(seen[label])
        seen[label] += 1
    return order[np.argsort(turn, kind="stable")]


def few_classes(labels, seed, max_classes=12, max_points=600):
    """Chooses images of a few classes, each with about equally many.

    Args:
        labels: integers `(N,)`.
        seed: integer seed.
        max_classes: number of classes, drawn at random.
        max_points: number of images, drawn at random.

    Returns:
        sorted int array of indices.

    Example:
        >>> few_classes(np.repeat(np.arange(30), 10), seed=0, max_classes=5, max_points=20).shape
        (20,)
    """
    order = class_by_class(labels, seed)
    in_order = np.asarray(labels)[order]
    first = np.sort(np.unique(in_order, return_index=True)[1])
    chosen = np.isin(in_order, in_order[first[:max_classes]])
    return np.sort(order[chosen][:max_points])


def telling_queries(hits, count):
    """Chooses queries of every outcome: won by some runs only, by all runs, by none.

    Args:
        hits: bool `(runs, Q)`, whether the nearest neighbour of a query is of its class.
        count: how many to choose.

    Returns:
        int array of at most `count` indices into Q, the outcomes taking turns.

    Example:
        >>> telling_queries(np.array([[1, 1, 0, 0, 1], [1, 1, 0, 0, 0]], bool), 4)
        array([4, 0, 2, 1])
    """
    won = np.asarray(hits).mean(axis=0)
    outcomes = [np.flatnonzero(group) for group in ((won > 0) & (won < 1), won == 1, won == 0)]
    turns = [(turn, kind) for kind, found in enumerate(outcomes) for turn in range(len(found))]
    return np.array([outcomes[kind][turn] for turn, kind in sorted(turns)[:count]], dtype=int)
