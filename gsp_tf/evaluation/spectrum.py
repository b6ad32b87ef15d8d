"""Spectral decay: how far embeddings are from spreading over all their dimensions."""

import numpy as np

from gsp_tf.evaluation.checks import checked_embeddings
from gsp_tf.evaluation.normalization import unit_vectors


def spectral_decay(embeddings):
    """KL divergence of the singular value spectrum of the embeddings from the uniform one.

    Roth et al., Revisiting Training Strategies and Generalization Performance in Deep Metric
    Learning, ICML 2020, sec. 5: `rho = KL(U || S) = -(1/D) sum_d log(D s_d)`, where s are the D
    singular values of the matrix of unit-length embeddings, divided by their sum. It is 0 for
    embeddings that fill all dimensions alike and grows as they concentrate on few. The matrix is
    not centred, and no singular value is left out (`rho_spectrum@1` in the authors' code, which its
    README calls the metric of the paper; the figures there are drawn with `rho_spectrum@2`, which
    leaves out the largest).

    Args:
        embeddings: float array-like `(N, D)`; brought to unit length here, zero vectors stay zero.

    Returns:
        float, at least 0; infinite if the embeddings span fewer than D dimensions, as fewer than D
        of them must.

    Raises:
        ValueError: for embeddings that are not finite and `(N, D)`.
        TypeError: for embeddings that are not real numbers.

    Example:
        >>> spectral_decay([[1.0, 0.0], [0.0, 1.0]])
        0.0
        >>> spectral_decay([[1.0, 0.0]] * 9 + [[0.0, 1.0]])
        0.144
    """
    embeddings = checked_embeddings(embeddings, "embeddings")
    count, dim = embeddings.shape
    unit = unit_vectors(embeddings)
    singular_values = np.linalg.svd(unit, compute_uv=False)
    rounding = singular_values[0] * max(count, dim) * np.finfo(np.float64).eps
    if count < dim or singular_values[-1] <= rounding:
        return float("inf")
    share = singular_values / singular_values.sum()
    return max(0.0, -float(np.mean(np.log(dim * share))))
