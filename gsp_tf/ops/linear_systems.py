"""Linear systems by Cholesky factorisations."""

from keras import ops

from gsp_tf._backend import custom_gradient
from gsp_tf._typing import Tensor
from gsp_tf.ops.normalization import at_least_float32


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
    return solve_positive_definite(gram + ridge * identity, ops.matmul(transposed, targets))


def solve_positive_definite(matrix: Tensor, right: Tensor) -> Tensor:
    """Solution of `A X = B` by a Cholesky factorisation.

    The gradient solves with the same factor, `g_B = A^-1 g_X` and `g_A = -g_B Xᵀ`, and does not
    differentiate the factorisation. A non-finite matrix gives a NaN solution.

    Args:
        matrix: A, float tensor `(..., n, n)`, symmetric and positive definite.
        right: B, float tensor `(..., n, k)`.

    Returns:
        tensor X `(..., n, k)`.

    Example:
        >>> solve_positive_definite([[2.0, 0.0], [0.0, 4.0]], [[1.0], [1.0]]).numpy().tolist()
        [[0.5], [0.25]]
    """

    matrix, right = at_least_float32(matrix, right)

    @custom_gradient
    def solve(matrix, right):
        # A factorisation of a non-finite matrix stops the program on some backends. Here NaN passes
        # through, so that the trainer can notice it.
        finite = ops.all(ops.isfinite(matrix), axis=(-1, -2), keepdims=True)
        identity = ops.eye(ops.shape(matrix)[-1], dtype=matrix.dtype)
        factor = ops.cholesky(ops.where(finite, matrix, identity))

        def solved(right):
            half = ops.solve_triangular(factor, right, lower=True)
            return ops.solve_triangular(ops.swapaxes(factor, -1, -2), half, lower=False)

        solution = ops.where(finite, solved(right), float("nan"))

        def gradient(upstream):
            through_right = solved(upstream)
            through_matrix = -ops.matmul(through_right, ops.swapaxes(solution, -1, -2))
            return through_matrix, through_right

        return (solution,), gradient

    return solve(matrix, right)[0]
