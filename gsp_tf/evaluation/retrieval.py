"""Retrieval metrics of an embedding."""

import operator

import numpy as np

from gsp_tf.evaluation.checks import checked_embeddings, checked_labels
from gsp_tf.evaluation.search import ExactSearch, Metric

BLOCK_ENTRIES = 1 << 20


def retrieval_metrics(
    queries,
    query_labels,
    references=None,
    reference_labels=None,
    recall_at=(1, 2, 4, 8),
    metric: Metric = "euclidean",
):
    """Precision@1, R-precision, MAP@R and Recall@K of nearest-neighbour retrieval.

    For a query with R positives among the references, and precision P(i) among its i nearest,
    R-precision is P(R) and MAP@R is the mean over i = 1..R of P(i) where the i-th is correct and
    0 where it is not (Musgrave et al., A Metric Learning Reality Check, ECCV 2020, eq. 3; Gürbüz,
    thesis 2022, section 1.2, where P(i) is misprinted as P(R)).
    Recall@K is the share of queries with a positive among their K nearest. The search is exact
    and runs over blocks of queries, so that its memory does not grow with their number.

    Args:
        queries: float array-like `(Q, D)`.
        query_labels: integer array-like `(Q,)` or `(Q, 1)`.
        references: float array-like `(N, D)`; None searches the other queries, each excluded from
            its own results by index.
        reference_labels: integer array-like `(N,)` or `(N, 1)`; None exactly if `references` is.
        recall_at: the values of K. With fewer than K references all of them are retrieved.
        metric: `"euclidean"` or `"cosine"`.

    Returns:
        dict: `precision_at_1`, `r_precision`, `map_at_r` and `recall_at_K` for each K, floats in
        [0, 1] averaged over queries; `num_queries`, the number of queries averaged over;
        `num_skipped`, the number left out for want of a positive among the references.

    Raises:
        ValueError: for embeddings that are not finite, shapes that do not fit, only one of
            references and reference_labels, K < 1, an unknown metric, or no query with a positive.
        TypeError: for labels or K that are not integers.

    Example:
        >>> embeddings = [[0.0], [1.0], [1.5], [9.0], [9.5], [4.0]]
        >>> metrics = retrieval_metrics(embeddings, [0, 0, 1, 1, 1, 2], recall_at=(1, 2))
        >>> {name: round(value, 3) for name, value in metrics.items()}
        ... # doctest: +NORMALIZE_WHITESPACE
        {'precision_at_1': 0.6, 'r_precision': 0.4, 'map_at_r': 0.4, 'recall_at_1': 0.6,
         'recall_at_2': 0.8, 'num_queries': 5, 'num_skipped': 1}
    """
    recall_at = checked_recall_at(recall_at)
    positives, blocks = ranked_hits(
        queries, query_labels, references, reference_labels, metric, max(recall_at, default=1)
    )
    means = RetrievalMeans(recall_at)
    for rows, hits in blocks:
        means.add(hits, positives[rows])
    num_skipped = int(np.count_nonzero(positives == 0))
    return means.metrics() | {"num_queries": means.num_queries, "num_skipped": num_skipped}


class RetrievalMeans:
    """Means of the retrieval metrics over queries that come in blocks.

    Args:
        recall_at: the K of Recall@K.

    Example:
        >>> means = RetrievalMeans(recall_at=(2,))
        >>> means.add(np.array([[False, True], [True, False]]), positives=np.array([1, 2]))
        >>> means.metrics()
        {'precision_at_1': 0.5, 'r_precision': 0.25, 'map_at_r': 0.25, 'recall_at_2': 1.0}
    """

    def __init__(self, recall_at):
        self.num_queries = 0
        self._recall_at = recall_at
        self._sums = {}

    def add(self, hits, positives):
        """Count a block of queries.

        Args:
            hits: bool array `(b, k)`, true where the i-th nearest reference has the query's label.
            positives: integer array `(b,)`, the number R of positives of each query, 1 to k.
        """
        self.num_queries += len(hits)
        for name, values in query_metrics(hits, positives, self._recall_at).items():
            self._sums[name] = self._sums.get(name, 0.0) + values.sum()

    def metrics(self):
        """dict from metric to float in [0, 1]."""
        return {name: float(total / self.num_queries) for name, total in self._sums.items()}


def query_metrics(hits, positives, recall_at):
    """The retrieval metrics of each query.

    Args:
        hits: bool array `(b, k)`, true where the i-th nearest reference has the label of the query.
        positives: integer array `(b,)`, the number R of positives of each query, 1 to k.
        recall_at: the K of Recall@K.

    Returns:
        dict from metric to array `(b,)` of numbers in [0, 1].

    Example:
        >>> query_metrics(np.array([[False, True, True]]), np.array([2]), recall_at=(1, 2))
        ... # doctest: +NORMALIZE_WHITESPACE
        {'precision_at_1': array([False]), 'r_precision': array([0.5]),
         'map_at_r': array([0.25]), 'recall_at_1': array([False]), 'recall_at_2': array([ True])}
    """
    within_r, average_precision = r_precision_and_map(hits, positives)
    return {
        "precision_at_1": hits[:, 0],
        "r_precision": within_r,
        "map_at_r": average_precision,
        **{f"recall_at_{depth}": hits[:, :depth].any(axis=1) for depth in recall_at},
    }


def ranked_hits(queries, query_labels, references, reference_labels, metric: Metric, depth=1):
    """Which of the nearest references of each query have its label, a block of queries at a time.

    Args:
        queries: float array-like `(Q, D)`.
        query_labels: integer array-like `(Q,)` or `(Q, 1)`.
        references: float array-like `(N, D)`; None searches the other queries, each excluded from
            its own results by index.
        reference_labels: integer array-like `(N,)` or `(N, 1)`; None exactly if `references` is.
        metric: `"euclidean"` or `"cosine"`.
        depth: number of nearest references to look at, where the largest R is not more.

    Returns:
        integer array `(Q,)`, the number R of positives of each query among the references; and an
        iterator over blocks of the queries with R > 0: their indices `(b,)` and hits `(b, k)`,
        true where the i-th nearest reference has the label of the query, with k at least every R.

    Raises:
        ValueError: for embeddings that are not finite, shapes that do not fit, only one of
            references and reference_labels, an unknown metric, or no query with a positive.
        TypeError: for labels that are not integers.

    Example:
        >>> positives, blocks = ranked_hits([[0.0], [1.0], [9.0]], [4, 4, 5], None, None, "cosine")
        >>> positives
        array([1, 1, 0])
        >>> for rows, hits in blocks:
        ...     print(rows, hits.shape)
        [0 1] (2, 1)
    """
    check_labelled(references, reference_labels)
    queries = checked_embeddings(queries, "queries")
    query_labels = checked_labels(query_labels, len(queries), "query_labels")
    among_themselves = references is None
    if among_themselves:
        references, reference_labels = queries, query_labels
    search = ExactSearch(references, metric)
    reference_labels = checked_labels(reference_labels, search.size, "reference_labels")

    positives = count_positives(query_labels, reference_labels, among_themselves)
    used = np.flatnonzero(positives)
    k = min(search.size - among_themselves, max(positives.max(), depth))

    def hits(rows):
        indices, _ = search(queries[rows], k, exclude=rows if among_themselves else None)
        return reference_labels[indices] == query_labels[rows, None]

    size = max(1, BLOCK_ENTRIES // k)
    blocks = (used[start : start + size] for start in range(0, len(used), size))
    return positives, ((rows, hits(rows)) for rows in blocks)


def r_precision_and_map(hits, positives):
    """R-precision and MAP@R of each query.

    Args:
        hits: bool array `(b, k)`, true where the i-th nearest reference has the label of the query.
        positives: integer array `(b,)`, the number R of positives of each query, 1 to k.

    Returns:
        float arrays `(b,)` and `(b,)`: P(R), and the mean over i = 1..R of P(i) at the hits.

    Example:
        >>> r_precision_and_map(np.array([[True, False, True, True]]), np.array([3]))
        (array([0.66666667]), array([0.55555556]))
    """
    ranks = np.arange(1, positives.max() + 1)
    hits = hits[:, : len(ranks)] & (ranks <= positives[:, None])
    correct = np.cumsum(hits, axis=1, dtype=np.int32)
    precision_at_hits = np.where(hits, correct / ranks, 0.0)
    return correct[:, -1] / positives, precision_at_hits.sum(axis=1) / positives


def checked_recall_at(recall_at):
    """Returns the K of Recall@K as a tuple of int; `ValueError` if one is below 1."""
    depths = tuple(operator.index(depth) for depth in recall_at)
    if any(depth < 1 for depth in depths):
        raise ValueError(f"recall_at must hold integers of at least 1; received {depths}.")
    return depths


def check_labelled(references, reference_labels):
    """`ValueError` if only one of references and reference_labels is given."""
    if (references is None) != (reference_labels is None):
        given = "reference_labels" if references is None else "references"
        raise ValueError(f"references and reference_labels go together; received only {given}.")


def count_positives(query_labels, reference_labels, among_themselves):
    """Number of positives of each query, itself left out; `ValueError` if no query has one."""
    positives = count_labels(query_labels, reference_labels) - among_themselves
    if not positives.any():
        raise ValueError(
            f"None of the {len(positives)} queries has a positive among the references, so there "
            "is nothing to average; at least one label must occur in both."
        )
    return positives


def count_labels(labels, among):
    """How often each of `labels` occurs in `among`."""
    classes, counts = np.unique(among, return_counts=True)
    position = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[position] == labels, counts[position], 0)
