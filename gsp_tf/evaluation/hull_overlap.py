"""Whether the convex hulls of classes are apart."""

from itertools import combinations

import numpy as np
from scipy.optimize import linprog

from gsp_tf.evaluation.checks import checked_embeddings, checked_labels


def hull_overlap(embeddings, labels):
    """Share of the pairs of classes whose convex hulls have a point in common.

    Two hulls have none just if a hyperplane has either class strictly on one side. Gürbüz, Şener,
    Alatan, "Generalized Sum Pooling for Metric Learning", ICCV 2023, draw such hulls (Fig. 3a):
    an average of local features lies in the hull of what it averages. A pair is decided by a
    linear programme: is there a convex combination of one class that equals one of the other?

    Args:
        embeddings: finite floats `(N, D)`. Where a class has no more than about D points its hull
            seldom meets another, whatever the classes are.
        labels: integers `(N,)`, of two classes or more.

    Returns:
        float in [0, 1]; 0 if any two classes can be separated by a hyperplane.

    Raises:
        ValueError: if there are fewer than two classes, or the shapes do not fit together.
        TypeError: if embeddings are not real or labels not integers.

    Example:
        >>> square, inside, apart = [[0, 0], [0, 2], [2, 0], [2, 2]], [[1, 1]], [[3, 3], [4, 3]]
        >>> round(hull_overlap(square + inside + apart, [0, 0, 0, 0, 1, 2, 2]), 3)
        0.333
    """
    embeddings = checked_embeddings(embeddings, "embeddings").astype(np.float64)
    labels = checked_labels(labels, len(embeddings), "labels")
    classes = [embeddings[labels == label] for label in np.unique(labels)]
    if len(classes) < 2:
        raise ValueError("hulls are compared between classes; received labels of a single class.")
    return float(np.mean([_overlap(*pair) for pair in combinations(classes, 2)]))


def _overlap(one, other):
    """Whether the hulls of two sets of points `(N, D)`, `(M, D)` have a point in common."""
    low = np.maximum(one.min(axis=0), other.min(axis=0))
    high = np.minimum(one.max(axis=0), other.max(axis=0))
    if (low > high).any():
        return False
    points = np.concatenate([one, other])
    centre, scale = points.mean(axis=0), np.ptp(points, axis=0).max() or 1.0
    one, other = (one - centre) / scale, (other - centre) / scale
    sums = np.repeat(np.eye(2), [len(one), len(other)], axis=1)
    equal = np.concatenate([one, -other]).T
    program = linprog(
        np.zeros(len(points)),
        A_eq=np.concatenate([equal, sums]),
        b_eq=np.concatenate([np.zeros(len(equal)), np.ones(2)]),
    )
    return program.status == 0
