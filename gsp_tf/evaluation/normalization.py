"""Embeddings as directions."""

import numpy as np


def unit_vectors(embeddings):
    """Divides each embedding by its Euclidean length; a zero vector stays zero.

    Args:
        embeddings: finite float32 array `(N, D)`.

    Returns:
        float64 array `(N, D)`; in float64 no length of a float32 vector over- or underflows.

    Example:
        >>> unit_vectors(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 1e-30]], np.float32))
        array([[0.6, 0.8], [0. , 0. ], [0. , 1. ]])
    """
    lengths = np.sqrt(np.einsum("nd,nd->n", embeddings, embeddings, dtype=np.float64))
    lengths[lengths == 0] = 1
    return embeddings / lengths[:, None]
