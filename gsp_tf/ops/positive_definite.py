"""Linear systems with a positive definite matrix."""

import tensorflow as tf


def solve_positive_definite(matrix, right):
    """Solution of `A X = B` by a Cholesky factorisation.

    The gradient solves with the same factor, `g_B = A^-1 g_X` and `g_A = -g_B Xᵀ`, instead of
    going through the factorisation. A matrix that is not finite gives a solution that is NaN.

    Args:
        matrix: A, float tensor `(..., n, n)`, symmetric and positive definite.
        right: B, float tensor `(..., n, k)`.

    Returns:
        tensor X `(..., n, k)`.

    Example:
        >>> solve_positive_definite([[2.0, 0.0], [0.0, 4.0]], [[1.0], [1.0]]).numpy().tolist()
        [[0.5], [0.25]]
    """

    @tf.custom_gradient
    def solve(matrix, right):
        # TensorFlow refuses to factorise a matrix that is not finite.
        finite = tf.reduce_all(tf.math.is_finite(matrix), axis=(-1, -2), keepdims=True)
        identity = tf.eye(tf.shape(matrix)[-1], dtype=matrix.dtype)
        factor = tf.linalg.cholesky(tf.where(finite, matrix, identity))
        nan = tf.constant(float("nan"), matrix.dtype)
        solution = tf.where(finite, tf.linalg.cholesky_solve(factor, right), nan)

        def gradient(upstream):
            through_right = tf.linalg.cholesky_solve(factor, upstream)
            return -tf.matmul(through_right, solution, transpose_b=True), through_right

        return solution, gradient

    return solve(tf.convert_to_tensor(matrix), tf.convert_to_tensor(right))
