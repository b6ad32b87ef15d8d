"""Embedding density: how far apart the images of a class and the classes lie."""

import numpy as np
from sklearn.metrics import pairwise_distances_chunked

from gsp_tf.evaluation.checks import checked_embeddings, checked_labels
from gsp_tf.evaluation.normalization import unit_vectors

WORKING_MEMORY_MIB = 64


def embedding_density(embeddings, labels, distance="euclidean"):
    """Mean distance within classes, between class centres, and their ratio.

    Roth et al., Revisiting Training Strategies and Generalization Performance in Deep Metric
    Learning, ICML 2020, sec. 5: `pi_ratio = pi_intra / pi_inter`, where pi_intra is the mean over
    classes of the mean distance between two images of the class, and pi_inter the mean distance
    between the mean embeddings of two classes. The distance of that text is the Euclidean one
    between unit-length embeddings. The authors' code reports cosine distances, `1 - cos`, which are
    half the squared Euclidean ones, and brings the centres to unit length; its ratios are on
    another scale. Eq. 6 of "Coded Residual Transform for Generalizable Deep Metric Learning" (Kan
    et al., NeurIPS 2022) is the same ratio and names no distance; the sizes in its Table 1 fit
    cosine distances. A distance below the rounding error of float32 unit vectors counts as 0.

    Args:
        embeddings: float array-like `(N, D)`; brought to unit length here, zero vectors stay zero.
        labels: integer array-like `(N,)` or `(N, 1)`. A class of one image has no distance within
            it and counts for pi_inter only.
        distance: "euclidean", or "cosine" with centres at unit length.

    Returns:
        dict of floats: `intra` and `inter` in [0, 2], and `ratio`; where all centres coincide the
        ratio is infinite, or NaN if `intra` is 0 too.

    Raises:
        ValueError: for embeddings that are not finite and `(N, D)`, not one label an embedding,
            fewer than two classes, no class with two images, or another distance.
        TypeError: for labels that are not integers.

    Example:
        >>> embedding_density([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [-4.0, 0.0]], [0, 0, 1, 1])
        {'intra': 0.707, 'inter': 1.581, 'ratio': 0.447}
        >>> embeddings = [[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [-4.0, 0.0]]
        >>> embedding_density(embeddings, [0, 0, 1, 1], distance="cosine")
        {'intra': 0.5, 'inter': 1.707, 'ratio': 0.293}
    """
    if distance not in ("euclidean", "cosine"):
        raise ValueError(f'distance must be "euclidean" or "cosine", received {distance!r}.')
    embeddings = checked_embeddings(embeddings, "embeddings")
    labels = checked_labels(labels, len(embeddings), "labels")
    embeddings = unit_vectors(embeddings)
    order = np.argsort(labels, kind="stable")
    _, starts = np.unique(labels[order], return_index=True)
    classes = np.split(embeddings[order], starts[1:])
    sizes = [len(images) for images in classes]
    if len(classes) < 2 or max(sizes) < 2:
        raise ValueError(
            "embedding_density needs two classes or more, and two images or more in one of them; "
            f"received {len(classes)} classes of at most {max(sizes)} images."
        )
    centres = np.stack([images.mean(axis=0) for images in classes])
    if distance == "cosine":
        centres = unit_vectors(centres)
    many = [images for images in classes if len(images) > 1]
    intra = np.mean([_mean_distance(images, distance) for images in many])
    inter = _mean_distance(centres, distance)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = intra / inter
    return {"intra": float(intra), "inter": float(inter), "ratio": float(ratio)}


def _mean_distance(points, distance):
    """Mean distance of two different rows of points `(n, D)`."""
    rounding = np.finfo(np.float32).eps

    def row_sums(distances, _):
        distances = np.where(distances > rounding, distances, 0.0)
        return (distances**2 / 2 if distance == "cosine" else distances).sum(axis=1)

    sums = pairwise_distances_chunked(
        points, reduce_func=row_sums, working_memory=WORKING_MEMORY_MIB
    )
    return np.concatenate(list(sums)).sum() / (len(points) * (len(points) - 1))
