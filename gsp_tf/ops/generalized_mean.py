"""Power means of sets of vectors."""

from keras import ops

_SMALLEST = 1e-6


def generalized_mean(x, p, weights):
    """Weighted power mean of each channel, `(Σ_j w_j max(x_j, 1e-6)^p)^(1/p)`.

    Computed on `x / max_j x_j`, whose powers neither overflow nor all vanish.

    Args:
        x: float tensor `(..., n, C)`, at least float32.
        p: scalar, the power, > 0: 1 is the mean, infinity the maximum.
        weights: float tensor `(..., n)`, each row sums to 1, or is 0 for a set without elements.

    Returns:
        tensor `(..., C)`; 0 for a set without elements.

    Example:
        >>> generalized_mean([[3.0], [5.0]], 2.0, [0.5, 0.5]).numpy().round(3).tolist()
        [4.123]
    """
    weights = ops.convert_to_tensor(weights)[..., None]
    present = weights > 0
    x = ops.maximum(ops.where(present, x, 0.0), _SMALLEST)
    # The mean scales with x, so that the unit in which it is computed has no gradient.
    unit = ops.stop_gradient(ops.max(x, axis=-2, keepdims=True))
    mean_power = ops.sum(weights * ops.power(x / unit, p), axis=-2)
    is_empty = ops.logical_not(ops.any(present, axis=-2))
    mean = ops.power(ops.where(is_empty, 1.0, mean_power), 1.0 / p)
    return ops.where(is_empty, 0.0, unit[..., 0, :] * mean)
