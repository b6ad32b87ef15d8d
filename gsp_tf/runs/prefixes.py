"""Ranking metrics of prefixes of the embeddings."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gsp_tf.evaluation import RankingMetrics, checked_embeddings, ranking_metrics, truncated


def prefix_metrics(
    dims: Sequence[int],
    queries: np.ndarray,
    query_labels: np.ndarray,
    references: np.ndarray | None = None,
    reference_labels: np.ndarray | None = None,
    **options: Any,
) -> dict[int, RankingMetrics]:
    """Ranking metrics of the first components of embeddings, normalised to length 1.

    Args:
        dims: numbers of components.
        queries: floats `(Q, D)`.
        query_labels: integers `(Q,)`.
        references: floats `(N, D)`; `None` searches the other queries.
        reference_labels: integers `(N,)`.
        options: further arguments of `ranking_metrics`.

    Returns:
        the metrics of each query, by dimension.

    Raises:
        ValueError: if a dimension is not between 1 and D.

    Example:
        >>> embeddings = [[1.0, 0.0, 0.0], [1.0, 0.1, 0.0], [1.0, 0.0, 1.0], [1.0, 0.1, 1.0]]
        >>> found = prefix_metrics([2, 3], embeddings, np.array([0, 0, 1, 1]))
        >>> [metrics.means()["precision_at_1"].value for metrics in found.values()]
        [0.0, 1.0]
    """
    queries = checked_embeddings(queries, "queries")
    if references is not None:
        references = checked_embeddings(references, "references")
    return {
        dim: ranking_metrics(
            truncated(queries, dim),
            query_labels,
            None if references is None else truncated(references, dim),
            reference_labels,
            **options,
        )
        for dim in dims
    }
