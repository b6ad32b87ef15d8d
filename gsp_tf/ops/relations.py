"""How much the labels of two samples have in common."""

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import check_relation
from gsp_tf._backend import checked
from gsp_tf._numerics import at_least_float32, exact_labels, safe_sqrt
from gsp_tf._typing import Relation, Tensor


def label_relation(x: Tensor, y: Tensor, relation: Relation) -> Tensor:
    """Relation r of every label in `x` to every label in `y`: 0 for none, 1 for the same.

    - "equal": 1 for the same class, else 0.
    - "any": 1 for label vectors with an entry that is positive in both, such as a shared tag.
    - "jaccard": `x·y / (|x|² + |y|² - x·y)`, which is the number of shared tags over the number of
      all tags of the two for multi-hot vectors (Tanimoto's form for graded ones).
    - "cosine": `x·y / (|x| |y|)`.

    A label vector of zeros, a sample without a tag, is related to nothing.

    Args:
        x: labels `(a,)` of classes, or label vectors `(a, C)` of entries in [0, 1].
        y: labels `(b,)`, or label vectors `(b, C)`.
        relation: one of these names; or a function of x and y to r `(a, b)` in [0, 1].

    Returns:
        float tensor `(a, b)`.

    Example:
        >>> tags = [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
        >>> label_relation(tags, tags, "jaccard").numpy()
        array([[1. , 0.5, 0. ],
               [0.5, 1. , 0. ],
               [0. , 0. , 1. ]], dtype=float32)
    """
    check_relation(relation)
    x, y = (ops.convert_to_tensor(exact_labels(labels)) for labels in (x, y))
    if callable(relation):
        return _of_function(relation, x, y)
    rank = 1 if relation == "equal" else 2
    if len(x.shape) != rank or len(y.shape) != rank:
        expected = "labels (a,) and (b,)" if rank == 1 else "label vectors (a, C) and (b, C)"
        raise ValueError(
            f"The relation {relation} is one of {expected}, received {tuple(x.shape)} and "
            f"{tuple(y.shape)}."
        )
    if relation == "equal":
        return ops.cast(ops.equal(x[:, None], y[None, :]), "float32")
    x, y = at_least_float32(x, y)
    shared = ops.matmul(x, ops.transpose(y))
    if relation == "any":
        return ops.cast(shared > 0, x.dtype)
    square_norms = ops.sum(ops.square(x), axis=1)[:, None], ops.sum(ops.square(y), axis=1)[None, :]
    if relation == "jaccard":
        whole = square_norms[0] + square_norms[1] - shared
    else:
        whole = safe_sqrt(square_norms[0] * square_norms[1])
    ratio = shared / ops.where(shared > 0, whole, 1.0)
    # The sums of equal vectors may be rounded differently.
    rounding = 64.0 * float(np.finfo(keras.backend.standardize_dtype(x.dtype)).eps)
    return ops.where(ratio > 1.0 - rounding, 1.0, ratio)


def _of_function(relation, x, y):
    related = at_least_float32(ops.convert_to_tensor(relation(x, y)))
    shape = tuple(related.shape)
    expected = x.shape[0], y.shape[0]
    fits = len(shape) == 2 and all(
        None in sizes or sizes[0] == sizes[1] for sizes in zip(shape, expected, strict=True)
    )
    if not fits:
        raise ValueError(
            f"A relation of labels {tuple(x.shape)} and {tuple(y.shape)} must have the shape "
            f"{expected}, received {shape}."
        )
    is_met = ops.logical_and(related >= 0, related <= 1)
    broken = ops.min(ops.where(is_met, float("inf"), related))
    return checked(related, [(ops.all(is_met), "A relation must lie in 0 to 1, received", broken)])
