"""How far embeddings spread over the sphere: collapse, alignment and uniformity."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

from gsp_tf.evaluation.vectors import checked_embeddings, checked_labels, unit_vectors


def embedding_spread(embeddings: ArrayLike, labels: ArrayLike) -> dict[str, float]:
    """Similarity between classes, effective rank, alignment and uniformity of embeddings.

    The effective rank is the exponential of the entropy of the singular values, divided by their
    sum ("The Effective Rank", Roy and Vetterli, EUSIPCO 2007, eq. 5), of the embeddings at unit
    length. Alignment is the mean squared distance of positive pairs, and uniformity is
    `log mean exp(-2 ||x - y||²)` over all pairs ("Understanding Contrastive Representation Learning
    through Alignment and Uniformity", Wang and Isola, ICML 2020, section 4.1). Collapsed embeddings
    have similarity 1, rank 1, alignment 0 and uniformity 0. All pairs are held in memory: it is for
    a batch.

    Args:
        embeddings: finite floats `(N, D)`, normalised here; zero vectors stay zero.
        labels: integers `(N,)`.

    Returns:
        `similarity` (mean cosine of pairs of two classes), `effective_rank` in [1, min(N, D)],
        `alignment` in [0, 4] and `uniformity` in [-8, 0]. A mean without pairs is NaN.

    Raises:
        ValueError: if the embeddings are not finite or the shapes do not match.
        TypeError: if embeddings are not real numbers, or labels are not integers.

    Example:
        >>> embedding_spread([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 1.0]], [0, 0, 1, 1])
        {'similarity': 0.0, 'effective_rank': 2.0, 'alignment': 0.0, 'uniformity': -1.063}
    """
    embeddings = checked_embeddings(embeddings, "embeddings")
    labels = checked_labels(labels, len(embeddings), "labels")
    unit = unit_vectors(embeddings).astype(np.float64)
    first, second = np.triu_indices(len(unit), 1)
    cosines = (unit @ unit.T)[first, second]
    squared = pdist(unit, "sqeuclidean")
    is_positive = labels[first] == labels[second]
    singular = np.linalg.svd(unit, compute_uv=False)
    share = singular[singular > 0] / singular.sum() if singular.any() else np.ones(1)
    return {
        "similarity": _mean(cosines[~is_positive]),
        "effective_rank": float(np.exp(-np.sum(share * np.log(share)))),
        "alignment": _mean(squared[is_positive]),
        "uniformity": float(np.log(_mean(np.exp(-2.0 * squared)))),
    }


def _mean(values):
    return float(values.mean()) if len(values) else float("nan")
