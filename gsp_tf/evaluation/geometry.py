"""Density, spread, spectrum and covering radius of embeddings."""

from itertools import combinations

import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from gsp_tf._arguments import check_choice
from gsp_tf.evaluation._vectors import (
    checked_count,
    checked_embeddings,
    checked_labels,
    rows_by_class,
    unit_vectors,
)
from gsp_tf.evaluation.search_space import Metric
from gsp_tf.ops import greedy_k_center

_WORKING_MEMORY_MIB = 64


def embedding_density(
    embeddings: ArrayLike,
    labels: ArrayLike,
    distance: Metric = "euclidean",
) -> dict[str, float]:
    """Mean distance within classes, between class centres, and their ratio.

    Roth et al., Revisiting Training Strategies and Generalization Performance in Deep Metric
    Learning, ICML 2020, sec. 5: `pi_ratio = pi_intra / pi_inter`. pi_intra is the mean over classes
    of the mean distance between two images of the class. pi_inter is the mean distance between the
    mean embeddings of two classes. The text uses the Euclidean distance between unit-length
    embeddings. The authors' code reports cosine distances, `1 - cos`, which are half the squared
    Euclidean ones, and normalises the centres, so its ratios are on another scale. Eq. 6 of "Coded
    Residual Transform for Generalizable Deep Metric Learning" (Kan et al., NeurIPS 2022) is the
    same ratio and names no distance; the sizes in its Table 1 fit cosine distances. A distance
    below the rounding error of float32 unit vectors counts as 0.

    Args:
        embeddings: floats `(N, D)`, normalised here; zero vectors stay zero.
        labels: integers `(N,)` or `(N, 1)`. A class of one image counts for pi_inter only.
        distance: "euclidean", or "cosine" with centres at unit length.

    Returns:
        `intra` and `inter` in [0, 2], and `ratio`. If all centres coincide, the ratio is infinite,
        or NaN if `intra` is 0 too.

    Raises:
        ValueError: if there are fewer than two classes, or none has two images.

    Example:
        >>> embedding_density([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [-4.0, 0.0]], [0, 0, 1, 1])
        {'intra': 0.707, 'inter': 1.581, 'ratio': 0.447}
    """
    check_choice("distance", distance, Metric)
    embeddings = checked_embeddings(embeddings, "embeddings")
    labels = checked_labels(labels, len(embeddings), "labels")
    embeddings = unit_vectors(embeddings)
    classes = [embeddings[rows] for rows in rows_by_class(labels)]
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
    """Mean distance between different rows of points `(n, D)`."""
    from sklearn.metrics import pairwise_distances_chunked

    rounding = np.finfo(np.float32).eps

    def row_sums(distances, _):
        distances = np.where(distances > rounding, distances, 0.0)
        return (distances**2 / 2 if distance == "cosine" else distances).sum(axis=1)

    sums = pairwise_distances_chunked(
        points, reduce_func=row_sums, working_memory=_WORKING_MEMORY_MIB
    )
    return np.concatenate(list(sums)).sum() / (len(points) * (len(points) - 1))


def spectral_decay(embeddings: ArrayLike) -> float:
    """KL divergence of the singular value spectrum of the embeddings from the uniform one.

    Roth et al., Revisiting Training Strategies and Generalization Performance in Deep Metric
    Learning, ICML 2020, sec. 5: `rho = KL(U || S) = -(1/D) sum_d log(D s_d)`, where s are the D
    singular values of the matrix of unit-length embeddings, divided by their sum. It is 0 for
    embeddings that fill all dimensions equally, and grows as they concentrate on few. The matrix is
    not centred, and all singular values are used. This is `rho_spectrum@1` in the authors' code,
    which its README calls the metric of the paper. The figures there are drawn with
    `rho_spectrum@2`, which leaves out the largest value.

    Args:
        embeddings: floats `(N, D)`, normalised here; zero vectors stay zero.

    Returns:
        at least 0; infinite if the embeddings span fewer than D dimensions, as fewer than D
        embeddings always do.

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


def hull_overlap(embeddings: ArrayLike, labels: ArrayLike) -> float:
    """Share of the pairs of classes with convex hulls that intersect.

    Two hulls are disjoint exactly if a hyperplane strictly separates the two classes. Gürbüz,
    Şener, Alatan, "Generalized Sum Pooling for Metric Learning", ICCV 2023, draw such hulls (Fig.
    3a): an average of local features lies in the hull of these features. A linear programme decides
    each pair: is there a convex combination of one class that equals one of the other?

    Args:
        embeddings: finite floats `(N, D)`. The hull of a class of at most about D points seldom
            meets another, whatever the classes are.
        labels: integers `(N,)`, of at least two classes.

    Returns:
        a share in [0, 1]; 0 if every pair of classes can be separated by a hyperplane.

    Example:
        >>> square, inside, apart = [[0, 0], [0, 2], [2, 0], [2, 2]], [[1, 1]], [[3, 3], [4, 3]]
        >>> round(hull_overlap(square + inside + apart, [0, 0, 0, 0, 1, 2, 2]), 3)
        0.333
    """
    embeddings = checked_embeddings(embeddings, "embeddings").astype(np.float64)
    labels = checked_labels(labels, len(embeddings), "labels")
    classes = [embeddings[rows] for rows in rows_by_class(labels)]
    if len(classes) < 2:
        raise ValueError("hulls are compared between classes; received labels of a single class.")
    return float(np.mean([_overlap(*pair) for pair in combinations(classes, 2)]))


def _overlap(one, other):
    """Whether the hulls of two sets of points `(N, D)`, `(M, D)` have a point in common."""
    from scipy.optimize import linprog

    low = np.maximum(one.min(axis=0), other.min(axis=0))
    high = np.minimum(one.max(axis=0), other.max(axis=0))
    if (low > high).any():
        return False
    points = np.concatenate([one, other])
    centre, scale = points.mean(axis=0), np.ptp(points, axis=0).max() or 1.0
    one, other = (one - centre) / scale, (other - centre) / scale
    sums = np.repeat(np.eye(2), [len(one), len(other)], axis=1)
    equal = np.concatenate([one, -other]).T
    program = linprog(
        np.zeros(len(points)),
        A_eq=np.concatenate([equal, sums]),
        b_eq=np.concatenate([np.zeros(len(equal)), np.ones(2)]),
    )
    return program.status == 0


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

    Example:
        >>> embedding_spread([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 1.0]], [0, 0, 1, 1])
        {'similarity': 0.0, 'effective_rank': 2.0, 'alignment': 0.0, 'uniformity': -1.063}
    """
    from scipy.spatial.distance import pdist

    embeddings = checked_embeddings(embeddings, "embeddings")
    labels = checked_labels(labels, len(embeddings), "labels")
    unit = unit_vectors(embeddings)
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


def covering_radius_curve(points: ArrayLike, num_centers: int) -> np.ndarray:
    """Covering radius of 1, 2, ..., `num_centers` greedily chosen centres.

    The radius of centres C is `max_i min_{c in C} ||x_i - c||`. The centres are those of
    `gsp_tf.ops.greedy_k_center` (Gürbüz, thesis 2022, Algorithm 2): the first point, then
    repeatedly the point farthest from all centres so far; ties go to the lower index. The radius is
    at most twice the best possible with the same number of centres (Gonzalez 1985).

    Args:
        points: finite floats `(N, D)`.
        num_centers: 1 to N.

    Returns:
        floats `(num_centers,)` that never increase; 0 once every point is a centre.

    Example:
        >>> covering_radius_curve([[0.0], [1.0], [5.0], [9.0]], 4)
        array([9., 4., 1., 0.])
    """
    points = checked_embeddings(points, "points").astype(np.float64)
    num_centers = checked_count("num_centers", num_centers, len(points), ", the number of points")
    centers = ops.convert_to_numpy(greedy_k_center(points, points[:0], num_centers))
    distances = np.full(len(points), np.inf)
    radii = np.empty(num_centers)
    for step, center in enumerate(centers):
        distances = np.minimum(distances, np.linalg.norm(points - points[center], axis=1))
        radii[step] = distances.max()
    return radii
