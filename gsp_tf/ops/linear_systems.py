"""Ridge regression in closed form."""

from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf._numerics import at_least_float32, solve_positive_definite
from gsp_tf._typing import Tensor


def ridge_regression(inputs: Tensor, targets: Tensor, ridge: float) -> Tensor:
    """Linear map that predicts targets from inputs, with an L2 penalty.

    `W = argmin ||X W - Y||^2 + ridge ||W||^2 = (X^T X + ridge I)^-1 X^T Y`, solved by a Cholesky
    factorisation. W is the transpose of A in (P3) of the GSP paper (section 4.3). A row of zeros in
    both arguments changes nothing, so samples can be left out without changing a shape. Non-finite
    inputs or targets give NaN weights.

    Args:
        inputs: float tensor X `(..., n, d)`.
        targets: float tensor Y `(..., n, t)`.
        ridge: weight of the penalty, > 0.

    Returns:
        weights W `(..., d, t)`, float64 for float64 inputs, float32 otherwise.

    Example:
        >>> import numpy as np
        >>> x = np.eye(2, dtype="float32")
        >>> ridge_regression(x, 3 * x, ridge=0.5).numpy().round(3).tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """
    check_positive(ridge=ridge)
    inputs, targets = at_least_float32(inputs, targets)
    transposed = ops.swapaxes(inputs, -1, -2)
    gram = ops.matmul(transposed, inputs)
    identity = ops.eye(inputs.shape[-1], dtype=gram.dtype)
    return solve_positive_definite(gram + ridge * identity, ops.matmul(transposed, targets))
