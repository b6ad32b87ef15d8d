"""Diversity of the prototypes of the coded residual transform (Kan et al., NeurIPS 2022)."""

from keras import ops

from gsp_tf.ops import l2_normalize


def prototype_diversity(prototypes):
    """How alike prototypes are: 0 when they are orthogonal.

    `1 / (K (K-1)) Σ_{k≠j} |c_k · c_j| / (‖c_k‖ ‖c_j‖)`, the mean of the absolute cosine
    similarities over all pairs of different prototypes. "Coded Residual Transform for Generalizable
    Deep Metric Learning" (NeurIPS 2022), eq. 3. The gradient is finite everywhere: it is zero for a
    zero prototype and for an orthogonal pair.

    Args:
        prototypes: float tensor `(K, C)`.

    Returns:
        scalar in [0, 1]; 0 for a single prototype.

    Example:
        >>> float(prototype_diversity([[1.0, 0.0], [0.0, 2.0]]))
        0.0
        >>> float(prototype_diversity([[1.0, 0.0], [0.6, 0.8]]))
        0.6
    """
    unit = l2_normalize(prototypes)
    num_prototypes = unit.shape[0]
    similarities = ops.abs(ops.matmul(unit, ops.transpose(unit)))
    different = 1.0 - ops.eye(num_prototypes, dtype=similarities.dtype)
    return ops.sum(similarities * different) / max(num_prototypes * (num_prototypes - 1), 1)
