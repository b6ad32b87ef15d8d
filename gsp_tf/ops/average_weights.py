"""Weights of average pooling."""

from keras import ops


def average_weights(features, mask=None):
    """Weights `(B, n)` of average pooling: 1/n for the n features that are there, 0 for others.

    Args:
        features: float tensor `(B, n, C)`.
        mask: optional boolean mask `(B, n)`.

    Returns:
        float tensor `(B, n)`; each row sums to 1, or to 0 if nothing is there.

    Example:
        >>> import numpy as np
        >>> average_weights(np.ones((1, 3, 2), "float32"), [[True, True, False]]).numpy()
        array([[0.5, 0.5, 0. ]], dtype=float32)
    """
    present = ops.ones_like(features[..., 0])
    if mask is not None:
        present = ops.cast(mask, present.dtype)
    return present / ops.maximum(ops.sum(present, axis=-1, keepdims=True), 1.0)
