"""Ranking metrics of a run: by prefixes, as tables in the terminal, and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gsp_tf._console import counted
from gsp_tf.evaluation import (
    Estimate,
    RankingMetrics,
    checked_embeddings,
    clustering_metrics,
    ranking_metrics,
    truncated,
)
from gsp_tf.visual import display_name


def ranking_record(metrics: RankingMetrics) -> dict:
    """The means of ranking metrics as they are written in JSON.

    Args:
        metrics: the metrics of each query.

    Returns:
        the mean of each metric, `num_queries`, `num_skipped`, and under `intervals` the ends of the
        95 % intervals of those that have one.

    Example:
        >>> ranking_record(RankingMetrics({"map_at_r": np.array([0.5, 0.7])}, np.arange(2)))
        {'map_at_r': 0.6, 'num_queries': 2, 'num_skipped': 0, 'intervals': {'map_at_r': [0.5, 0.7]}}
    """
    means = metrics.means()
    return {
        **{name: found.value for name, found in means.items()},
        "num_queries": metrics.num_queries,
        "num_skipped": len(metrics.labels) - metrics.num_queries,
        "intervals": {
            name: [found.low, found.high] for name, found in means.items() if np.isfinite(found.low)
        },
    }


def print_rankings(
    title: str,
    heading: str,
    rows: Mapping[str, RankingMetrics],
    names: Sequence[str],
    **more: Sequence[str],
) -> None:
    """Print some ranking metrics as a table, in percent and with their 95 % intervals.

    Args:
        title: what the table shows.
        heading: what a row is.
        rows: the metrics of each query, by row.
        names: names of the metrics, a column each.
        more: texts of further columns, by their heading.

    Example:
        >>> metrics = RankingMetrics({"map_at_r": np.array([0.5, 0.7])}, np.arange(2))
        >>> print_rankings("Two queries", "camera", {"left": metrics}, ["map_at_r"])
                    Two queries
        ...
        │ left   │       2 │ 60.0 [50.0, 70.0] │
        ...
    """
    table = Table(title=title)
    table.add_column(heading, no_wrap=True)
    table.add_column("queries", justify="right")
    for name in names:
        table.add_column(display_name(name), justify="right")
    for name in more:
        table.add_column(name, justify="right")
    for row, (name, metrics) in enumerate(rows.items()):
        means = metrics.means()
        cells = [percent(means[column]) for column in names]
        cells += [texts[row] for texts in more.values()]
        table.add_row(name, f"{metrics.num_queries:,}", *cells)
    Console().print(table)


def print_ranking(metrics: RankingMetrics, at: Sequence[int]) -> None:
    """Print all ranking metrics as a table, in percent and with their 95 % intervals.

    Args:
        metrics: the metrics of each query.
        at: the values of K, a column each.

    Example:
        >>> from gsp_tf.evaluation import ranking_metrics
        >>> print_ranking(ranking_metrics([[0.0], [1.0], [1.5]], [0, 0, 1], at=(1, 2)), (1, 2))
        2 queries of 1 class (1 more have no positive), in percent
        ...
        │ MRR    │ 50.0 │  75.0 │
        ...
        MAP@R 50.0, R-precision 50.0; with every class weighing the same, MAP@R 50.0
    """
    means, by_class = metrics.means(), metrics.class_means()
    skipped = len(metrics.labels) - metrics.num_queries
    queries = counted(metrics.num_queries, "query", "queries")
    title = f"{queries} of {counted(len(by_class.labels), 'class')}"
    title += f" ({skipped:,} more have no positive)" if skipped else ""
    title += ", in percent"
    if len(by_class.labels) > 1:
        title += " with 95 % intervals from resampled classes"
    print(title)
    table = Table()
    table.add_column("", no_wrap=True)
    for k in at:
        table.add_column(f"@{k}", justify="right")
    for kind in ("recall", "precision", "map", "mrr", "ndcg"):
        name = display_name(f"{kind}_at_{at[-1]}").partition("@")[0]
        table.add_row(name, *(percent(means[f"{kind}_at_{k}"]) for k in at))
    Console().print(table)
    print(
        f"MAP@R {percent(means['map_at_r'])}, R-precision {percent(means['r_precision'])}; with "
        f"every class weighing the same, MAP@R {percent(by_class.means()['map_at_r'])}"
    )


def percent(found: Estimate) -> str:
    """An estimate in percent, with its interval if it has one.

    Args:
        found: the estimate of a share.

    Example:
        >>> percent(Estimate(0.5, 0.41, 0.6))
        '50.0 [41.0, 60.0]'
    """
    text = f"{100 * found.value:.1f}"
    if np.isfinite(found.low):
        text += f" [{100 * found.low:.1f}, {100 * found.high:.1f}]"
    return text


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
