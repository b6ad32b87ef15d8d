"""Retrieval sets that hold a true match with a promised probability."""

import math

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._integers import checked_seed
from gsp_tf.evaluation.exact_search import ExactSearch
from gsp_tf.evaluation.search_space import Metric
from gsp_tf.evaluation.vectors import checked_embeddings, checked_labels


def conformal_threshold(
    embeddings: ArrayLike,
    labels: ArrayLike,
    coverage: float,
    metric: Metric = "euclidean",
    seed: int = 0,
) -> float:
    """The distance within which a search finds an image of the query's class often enough.

    Split conformal prediction with one image of each class, so that the classes need to be
    exchangeable and the images of a class need not be independent (Dunn, Wasserman, Ramdas,
    "Distribution-Free Prediction Sets for Two-Layer Hierarchical Models", JASA 2022, subsampling
    once). The score of a class is the distance from a random image to its nearest other image of
    the class. The threshold is the `ceil((C + 1) coverage)`-th smallest of the C scores. For a
    query of a new class with as many other images in the gallery, the set of all images up to the
    threshold holds one of its class with at least this probability.

    Args:
        embeddings: floats `(N, D)`.
        labels: integers `(N,)` or `(N, 1)`; classes of one image are left out.
        coverage: the probability, in (0, 1).
        metric: the distance.
        seed: seed of the choice of images.

    Returns:
        The threshold.

    Raises:
        ValueError: if arrays do not fit, the coverage is not in (0, 1), or there are too few
            classes for it.
        TypeError: if labels are not integers.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(200) // 10
        >>> embeddings = rng.normal(size=(20, 8))[labels] + 0.3 * rng.normal(size=(200, 8))
        >>> round(conformal_threshold(embeddings, labels, 0.9), 3)
        1.026
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must be between 0 and 1; received {coverage:g}.")
    embeddings = checked_embeddings(embeddings, "embeddings")
    labels = checked_labels(labels, len(embeddings), "labels")
    rng = np.random.default_rng(checked_seed(seed))
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=labels[order[0]] - 1))
    classes = [rows for rows in np.split(order, starts[1:]) if len(rows) > 1]
    rank = math.ceil((len(classes) + 1) * coverage - 1e-9)
    if rank > len(classes):
        needed = math.ceil(coverage / (1 - coverage) - 1e-9)
        raise ValueError(
            f"A coverage of {coverage:g} needs at least {needed} classes of two images or more; "
            f"there are {len(classes)}."
        )
    scores = []
    for rows in classes:
        query, *others = rng.permutation(rows)
        _, distances = ExactSearch(embeddings[others], metric)(embeddings[[query]], 1)
        scores.append(distances[0, 0])
    return float(np.sort(scores)[rank - 1])
