"""The distances that the triplet losses of TensorFlow Addons can be computed with."""

from typing import Literal, get_args

from keras import ops

from gsp_tf.ops import l2_normalize

TripletDistance = Literal["euclidean", "squared_euclidean", "angular"]


def distances_named(name, pairs):
    """Distances between anchors and references.

    Args:
        name: "euclidean", "squared_euclidean", or "angular", which is 1 minus the cosine
            similarity.
        pairs: `Pairs`.

    Returns:
        tensor `(A, R)`.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses.pairs import Pairs
        >>> x, labels = np.array([[3.0, 0.0], [0.0, 4.0]]), np.array([0, 1])
        >>> float(distances_named("angular", Pairs(x, x, labels, labels))[0, 1])
        1.0
    """
    if name == "euclidean":
        return pairs.distances
    if name == "squared_euclidean":
        return pairs.squared_distances
    cosines = ops.matmul(l2_normalize(pairs.anchors), ops.transpose(l2_normalize(pairs.references)))
    return ops.relu(1.0 - cosines)


def check_distance(name):
    """Refuse a name that is no distance.

    Args:
        name: str.

    Raises:
        ValueError: with the names that are.

    Example:
        >>> check_distance("angular")
    """
    accepted = get_args(TripletDistance)
    if name not in accepted:
        raise ValueError(f"distance must be one of {', '.join(accepted)}, received {name!r}.")
