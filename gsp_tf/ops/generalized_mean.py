"""Generalised mean of non-negative features, with a gradient that is finite at zero."""

import numpy as np
from keras import backend, ops

from gsp_tf.ops.precision import at_least_float32


def generalized_mean(features, p, mask=None):
    """Generalised mean over a set of features, channel by channel: `(mean_j f_j^p)^(1/p)`.

    "Fine-tuning CNN Image Retrieval with No Human Annotation" (Radenović, Tolias, Chum, PAMI 2019),
    eq. 3. p = 1 is the mean, p → ∞ the maximum. Negative features count as 0, and a feature that is
    0 gets no gradient. Powers are taken of the shares `f / max_j f_j`, so that no p overflows.

    Args:
        features: float tensor `(..., n, C)`.
        p: positive exponent, a number or a tensor: scalar, or `(C,)` for one a channel.
        mask: optional boolean tensor `(..., n)`, false for features that are left out.

    Returns:
        tensor `(..., C)`, float64 for float64 inputs, float32 otherwise; 0 where there is no
        positive feature.

    Example:
        >>> import numpy as np
        >>> features = np.array([[3.0, 0.0], [4.0, 0.0]], "float32")
        >>> generalized_mean(features, 1.0).numpy().tolist()
        [3.5, 0.0]
        >>> float(generalized_mean(features, 100.0)[0])
        3.97
    """
    features = ops.maximum(at_least_float32(features), 0.0)
    count = ops.cast(ops.shape(features)[-2], features.dtype)
    if mask is not None:
        mask = ops.cast(mask, "bool")[..., None]
        features = ops.where(mask, features, 0.0)
        count = ops.sum(ops.cast(mask, features.dtype), axis=-2, keepdims=True)
        count = ops.maximum(count, 1.0)
    p = ops.cast(p, features.dtype)
    # The mean scales with the features, so a constant factor changes neither it nor its gradient.
    largest = ops.stop_gradient(ops.max(features, axis=-2, keepdims=True))
    all_zero = largest < np.finfo(backend.standardize_dtype(features.dtype)).tiny
    largest = ops.where(all_zero, 1.0, largest)
    shares = features / largest
    is_zero = ops.logical_or(all_zero, shares <= 0)
    powers = ops.where(is_zero, 0.0, ops.power(ops.where(is_zero, 1.0, shares), p))
    mean = ops.sum(powers, axis=-2, keepdims=True) / count
    mean = ops.where(all_zero, 0.0, ops.power(ops.where(all_zero, 1.0, mean), 1.0 / p))
    return ops.squeeze(largest * mean, axis=-2)
