"""Mean average precision of each class."""

import numpy as np

from gsp_tf.evaluation.retrieval import r_precision_and_map, ranked_hits
from gsp_tf.evaluation.search import Metric


def class_wise_map(
    queries, query_labels, references=None, reference_labels=None, metric: Metric = "euclidean"
):
    """MAP@R of each class of queries, whose mean over classes lets every class weigh the same.

    MAP@R (Musgrave et al., A Metric Learning Reality Check, ECCV 2020, eq. 3), averaged over the
    queries of one class at a time. `retrieval_metrics` averages over all queries instead, where a
    class weighs as much as it has images. The search is exact and runs over blocks of queries.

    Args:
        queries: float array-like `(Q, D)`.
        query_labels: integer array-like `(Q,)` or `(Q, 1)`.
        references: float array-like `(N, D)`; None searches the other queries, each excluded from
            its own results by index.
        reference_labels: integer array-like `(N,)` or `(N, 1)`; None exactly if `references` is.
        metric: `"euclidean"` or `"cosine"`.

    Returns:
        float array `(classes,)` in [0, 1], in the order of `numpy.unique(query_labels)`; NaN for a
        class without a positive among the references, which `numpy.nanmean` leaves out.

    Raises:
        ValueError: for embeddings that are not finite, shapes that do not fit, only one of
            references and reference_labels, an unknown metric, or no query with a positive.
        TypeError: for labels that are not integers.

    Example:
        >>> embeddings = [[0.0], [1.0], [1.5], [9.0], [9.5], [4.0]]
        >>> by_class = class_wise_map(embeddings, [0, 0, 1, 1, 1, 2])
        >>> by_class.round(3).tolist()
        [0.5, 0.333, nan]
        >>> np.nanmean(by_class).item()
        0.417
    """
    positives, blocks = ranked_hits(queries, query_labels, references, reference_labels, metric)
    map_at_r = np.full(len(positives), np.nan)
    for rows, hits in blocks:
        _, map_at_r[rows] = r_precision_and_map(hits, positives[rows])
    _, classes = np.unique(np.ravel(query_labels), return_inverse=True)
    return np.bincount(classes, weights=map_at_r) / np.bincount(classes)
