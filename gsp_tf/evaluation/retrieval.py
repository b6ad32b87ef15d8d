"""Retrieval metrics of an embedding."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._typing import Relation
from gsp_tf.evaluation._positives import (
    Nearest,
    Positives,
    check_labelled,
    checked_depths,
    positives_of,
)
from gsp_tf.evaluation.exact_search import exact_ranking
from gsp_tf.evaluation.search_space import Metric
from gsp_tf.evaluation.vectors import (
    checked_embeddings,
    checked_label_vectors,
    checked_labels,
    warn_of_own_images,
)


def retrieval_metrics(
    queries: ArrayLike,
    query_labels: ArrayLike,
    references: ArrayLike | None = None,
    reference_labels: ArrayLike | None = None,
    recall_at: Sequence[int] = (1, 2, 4, 8),
    metric: Metric = "euclidean",
    relation: Relation = "equal",
    relation_threshold: float = 0.0,
) -> dict[str, float | int]:
    """Precision@1, R-precision, MAP@R and Recall@K of nearest-neighbour retrieval.

    For a query with R positives among the references, P(i) is the precision among its i nearest
    references. R-precision is P(R). MAP@R is the mean over i = 1..R of P(i) where the i-th is
    correct and 0 where it is not (Musgrave et al., A Metric Learning Reality Check, ECCV 2020, eq.
    3; Gürbüz, thesis 2022, section 1.2, where P(i) is misprinted as P(R)). Recall@K is the share of
    queries with a positive among their K nearest. The search is exact and runs over blocks of
    queries, so its memory does not grow with their number.

    With label vectors, such as multi-hot tags, a reference is a positive if its relation to the
    query is above a threshold, such as one shared tag.

    Args:
        queries: floats `(Q, D)`.
        query_labels: integers `(Q,)` or `(Q, 1)`; label vectors `(Q, C)` in [0, 1] for another
            relation than "equal".
        references: floats `(N, D)`; None searches the other queries, where each query is excluded
            by index from its own results.
        reference_labels: integers `(N,)` or `(N, 1)`, or label vectors `(N, C)`; None if and only
            if `references` is None.
        recall_at: the values of K. If there are fewer than K references, all are retrieved.
        metric: the distance of the search.
        relation: "any", "jaccard", "cosine", or a function, as in `gsp_tf.ops.label_relation`.
        relation_threshold: t in [0, 1): positives have a relation above t.

    Returns:
        `precision_at_1`, `r_precision`, `map_at_r` and `recall_at_K` for each K, floats in [0, 1]
        averaged over queries; `num_queries`, the number of queries averaged over; `num_skipped`,
        the number left out because no reference is a positive.

    Raises:
        ValueError: if embeddings are not finite or not `(N, D)`, shapes do not match, only one of
            references and reference_labels is given, K < 1, the metric is unknown, no query has a
            positive, or all references are of one class, for then every order of them is right.
        TypeError: if labels or K are not integers.

    Example:
        >>> embeddings = [[0.0], [1.0], [1.5], [9.0], [9.5], [4.0]]
        >>> metrics = retrieval_metrics(embeddings, [0, 0, 1, 1, 1, 2], recall_at=(1, 2))
        >>> {name: round(value, 3) for name, value in metrics.items()}
        {'precision_at_1': 0.6, 'r_precision': 0.4, 'map_at_r': 0.4, 'recall_at_1': 0.6,
         'recall_at_2': 0.8, 'num_queries': 5, 'num_skipped': 1}
    """
    recall_at = checked_depths(recall_at, "recall_at")
    nearest, labels = searched(
        queries, query_labels, references, reference_labels, metric, relation
    )
    positives = positives_of(*labels, relation, relation_threshold)
    sums: dict[str, float] = {}
    for rows, hits in positives.hits(nearest, max(recall_at, default=1)):
        for name, values in query_metrics(hits > 0, positives.counts[rows], recall_at).items():
            sums[name] = sums.get(name, 0.0) + values.sum()
    num_queries = int(np.count_nonzero(positives.counts))
    means = {name: float(total / num_queries) for name, total in sums.items()}
    num_skipped = len(positives.labels) - num_queries
    return means | {"num_queries": num_queries, "num_skipped": num_skipped}


def class_wise_map(
    queries: ArrayLike,
    query_labels: ArrayLike,
    references: ArrayLike | None = None,
    reference_labels: ArrayLike | None = None,
    metric: Metric = "euclidean",
) -> np.ndarray:
    """MAP@R of each class of queries; the mean over classes weighs all classes equally.

    MAP@R (Musgrave et al., A Metric Learning Reality Check, ECCV 2020, eq. 3) is averaged over the
    queries of one class at a time. `retrieval_metrics` averages over all queries instead, so that
    large classes weigh more.

    Args:
        queries: floats `(Q, D)`; all arguments are those of `retrieval_metrics`.

    Returns:
        floats `(classes,)` in [0, 1], in the order of `numpy.unique(query_labels)`. It is NaN for a
        class without a positive among the references, which `numpy.nanmean` leaves out.

    Raises:
        ValueError: as in `retrieval_metrics`.
        TypeError: if labels are not integers.

    Example:
        >>> embeddings = [[0.0], [1.0], [1.5], [9.0], [9.5], [4.0]]
        >>> by_class = class_wise_map(embeddings, [0, 0, 1, 1, 1, 2])
        >>> by_class.round(3).tolist()
        [0.5, 0.333, nan]
        >>> np.nanmean(by_class).item()
        0.417
    """
    nearest, labels = searched(queries, query_labels, references, reference_labels, metric)
    positives = Positives(*labels)
    map_at_r = np.full(len(positives.labels), np.nan)
    for rows, hits in positives.hits(nearest, depth=1):
        _, map_at_r[rows] = _r_precision_and_map(hits, positives.counts[rows])
    _, classes = np.unique(positives.labels, return_inverse=True)
    return np.bincount(classes, weights=map_at_r) / np.bincount(classes)


def query_metrics(
    hits: np.ndarray, positives: np.ndarray, recall_at: Sequence[int]
) -> dict[str, np.ndarray]:
    """Metrics `(b,)` of queries with 1 to k positives, from hits `(b, k)` in order of distance."""
    within_r, average_precision = _r_precision_and_map(hits, positives)
    return {
        "precision_at_1": hits[:, 0],
        "r_precision": within_r,
        "map_at_r": average_precision,
        **{f"recall_at_{depth}": hits[:, :depth].any(axis=1) for depth in recall_at},
    }


def searched(
    queries: ArrayLike,
    query_labels: ArrayLike,
    references: ArrayLike | None,
    reference_labels: ArrayLike | None,
    metric: Metric,
    relation: Relation = "equal",
) -> tuple[Nearest, tuple[np.ndarray, np.ndarray | None]]:
    """The exact ranking of references, and the labels of queries and references, checked."""
    check_labelled(references, reference_labels)

    def check(labels, embeddings, name):
        if relation == "equal":
            return checked_labels(labels, len(embeddings), name)
        return checked_label_vectors(labels, len(embeddings), name, relation)

    queries = checked_embeddings(queries, "queries")
    labels = check(query_labels, queries, "query_labels")
    if references is None:
        return exact_ranking(queries, queries, metric, exclude_own=True), (labels, None)
    references = checked_embeddings(references, "references")
    warn_of_own_images(queries, references)
    reference_labels = check(reference_labels, references, "reference_labels")
    return exact_ranking(queries, references, metric, False), (labels, reference_labels)


def _r_precision_and_map(hits, positives):
    """R-precision and average precision at R of each query, `(b,)` each."""
    ranks = np.arange(1, positives.max() + 1)
    hits = hits[:, : len(ranks)] & (ranks <= positives[:, None])
    correct = np.cumsum(hits, axis=1, dtype=np.int32)
    precision_at_hits = np.where(hits, correct / ranks, 0.0)
    return correct[:, -1] / positives, precision_at_hits.sum(axis=1) / positives
