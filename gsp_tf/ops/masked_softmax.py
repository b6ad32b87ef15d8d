"""Softmax over the entries that a mask keeps."""

import numpy as np
from keras import ops

from gsp_tf.ops.precision import at_least_float32


def masked_softmax(scores, mask=None):
    """Softmax over the last axis, in which an entry that the mask leaves out has no share.

    Args:
        scores: float tensor `(..., n)`.
        mask: optional boolean tensor that broadcasts to `(..., n)`, false for entries left out.

    Returns:
        tensor `(..., n)`, float64 for float64 inputs, float32 otherwise; each row sums to 1, or is
        0 if the mask keeps nothing of it.

    Example:
        >>> masked_softmax([0.0, 0.0, 9.0], [True, True, False]).numpy().tolist()
        [0.5, 0.5, 0.0]
    """
    scores = at_least_float32(scores)
    if mask is None:
        return ops.exp(ops.log_softmax(scores, axis=-1))
    mask = ops.cast(mask, "bool")
    scores = ops.where(mask, scores, float(np.finfo("float32").min))
    return ops.where(mask, ops.exp(ops.log_softmax(scores, axis=-1)), 0.0)
