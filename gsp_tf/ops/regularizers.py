"""Regularisers of the coded residual transform (Kan et al., NeurIPS 2022)."""

from typing import Literal

from keras import ops

from gsp_tf._arguments import check_choice
from gsp_tf._backend import absolute
from gsp_tf._numerics import at_least_float32
from gsp_tf._typing import Tensor
from gsp_tf.ops.normalization import l2_normalize


def prototype_diversity(prototypes: Tensor) -> Tensor:
    """Mean absolute cosine similarity between prototypes: 0 when they are orthogonal.

    `1 / (K (K-1)) Σ_{k≠j} |c_k · c_j| / (‖c_k‖ ‖c_j‖)` over all pairs of different prototypes.
    "Coded Residual Transform for Generalizable Deep Metric Learning" (NeurIPS 2022), eq. 3. The
    gradient is finite everywhere, and zero for a zero prototype and for an orthogonal pair.

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
    similarities = absolute(ops.matmul(unit, ops.transpose(unit)))
    different = 1.0 - ops.eye(num_prototypes, dtype=similarities.dtype)
    return ops.sum(similarities * different) / max(num_prototypes * (num_prototypes - 1), 1)


def similarity_consistency(
    a: Tensor, b: Tensor, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor:
    """Difference between the cosine similarities that two embeddings give the same batch.

    `(1/B²) Σ_ij |s^a_ij - s^b_ij|` with the cosine similarities s. "Coded Residual Transform for
    Generalizable Deep Metric Learning" (NeurIPS 2022), eqs. 4 and 5. The paper prints an L1 norm,
    the sum over the B² pairs. It grows with the batch and would outweigh the metric loss, so the
    default is the mean over the pairs.

    Args:
        a: float tensor `(B, D)`.
        b: float tensor `(B, D')` of the same samples.
        reduction: "mean" over the pairs, or "sum", the printed norm.

    Returns:
        scalar.

    Example:
        >>> float(similarity_consistency([[1.0, 0.0], [0.0, 1.0]], [[2.0], [2.0]]))
        0.5
        >>> float(similarity_consistency([[1.0, 0.0], [0.0, 1.0]], [[2.0], [2.0]], "sum"))
        2.0
    """
    check_choice("reduction", reduction, Literal["mean", "sum"])
    a, b = at_least_float32(a, b)
    known = None not in (a.shape[0], b.shape[0])
    if len(a.shape) != 2 or len(b.shape) != 2 or (known and a.shape[0] != b.shape[0]):
        raise ValueError(
            "similarity_consistency takes embeddings (B, D) and (B, D') of the same samples, "
            f"received shapes {tuple(a.shape)} and {tuple(b.shape)}."
        )
    a, b = l2_normalize(a), l2_normalize(b)
    differences = ops.matmul(a, ops.transpose(a)) - ops.matmul(b, ops.transpose(b))
    return {"mean": ops.mean, "sum": ops.sum}[reduction](absolute(differences))
