"""Ridge regression in closed form."""

import tensorflow as tf
from keras import ops

from gsp_tf.ops.precision import at_least_float32


def ridge_regression(inputs, targets, ridge):
    """Linear map that predicts targets from inputs, with an L2 penalty.

    `W = argmin ||X W - Y||^2 + ridge ||W||^2 = (X^T X + ridge I)^-1 X^T Y`, solved by a Cholesky
    factorisation. W is the transpose of A in (P3) of the GSP paper (section 4.3). A row of zeros in
    both arguments changes nothing, which leaves samples out without changing a shape. Inputs or
    targets that are not finite give weights that are NaN.

    Args:
        inputs: float tensor X `(..., n, d)`.
        targets: float tensor Y `(..., n, t)`.
        ridge: weight of the penalty, > 0.

    Returns:
        weights W `(..., d, t)`, float64 for float64 inputs, float32 otherwise.

    Raises:
        ValueError: if `ridge` is not positive.

    Example:
        >>> import numpy as np
        >>> x = np.eye(2, dtype="float32")
        >>> ridge_regression(x, 3 * x, ridge=0.5).numpy().round(3).tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """
    if not ridge > 0:
        raise ValueError(f"ridge_regression needs ridge > 0, received {ridge}.")
    inputs, targets = at_least_float32(inputs, targets)
    transposed = ops.swapaxes(inputs, -1, -2)
    gram = ops.matmul(transposed, inputs)
    identity = ops.eye(inputs.shape[-1], dtype=gram.dtype)
    # TensorFlow refuses to factorise a matrix that is not finite, and keras.ops.cholesky also stops
    # the program at a gradient that is not; here NaN goes through, for the trainer to notice.
    finite = ops.all(ops.isfinite(gram), axis=(-1, -2), keepdims=True)
    factor = tf.linalg.cholesky(ops.where(finite, gram + ridge * identity, identity))
    weights = tf.linalg.cholesky_solve(factor, ops.matmul(transposed, targets))
    return ops.where(finite, weights, float("nan"))
