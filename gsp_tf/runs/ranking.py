"""Ranking metrics of a run, and by prefixes of any embeddings."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gsp_tf.evaluation import (
    RankingMetrics,
    checked_embeddings,
    clustering_metrics,
    ranking_metrics,
    truncated,
)


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


def test_metrics(ranking, embedded, evaluation):
    """Metrics of test images, with those of clusters if asked for, and intervals of some."""
    queries, query_labels, references, reference_labels, *_ = embedded
    names = ["precision_at_1", "r_precision", "map_at_r"]
    names += [f"recall_at_{depth}" for depth in evaluation.recall_at]
    found = ranking.means()
    means = {name: found[name] for name in names}
    metrics = {name: estimate.value for name, estimate in means.items()}
    metrics["num_queries"] = ranking.num_queries
    metrics["num_skipped"] = len(queries) - ranking.num_queries
    if evaluation.clustering:
        embeddings, labels = queries, query_labels
        if references is not None:
            embeddings = np.concatenate([queries, references])
            labels = np.concatenate([query_labels, reference_labels])
        means["class_wise_map_at_r"] = ranking.class_means().means()["map_at_r"]
        metrics["class_wise_map_at_r"] = means["class_wise_map_at_r"].value
        metrics |= clustering_metrics(embeddings, labels)
    return {name: np.asarray(value).item() for name, value in metrics.items()}, _intervals(means)


def _intervals(means):
    """The ends of the intervals of estimates that have one, by name."""
    return {
        name: [found.low, found.high] for name, found in means.items() if np.isfinite(found.low)
    }


def metrics_by_dim(embedded, dims, evaluation):
    """Metrics of retrieval and their intervals by prefixes, by their dimension as text."""
    found = prefix_metrics(dims, *embedded[:4], at=evaluation.recall_at)
    names = ["map_at_r", *(f"recall_at_{depth}" for depth in evaluation.recall_at)]
    means = {str(dim): metrics.means() for dim, metrics in found.items()}
    means = {dim: {name: of[name] for name in names} for dim, of in means.items()}
    values = {dim: {name: found.value for name, found in of.items()} for dim, of in means.items()}
    return values, {dim: _intervals(of) for dim, of in means.items()}
