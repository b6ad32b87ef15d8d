"""Ranking metrics as a table in the terminal and as JSON."""

from collections.abc import Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from gsp_tf._console import counted
from gsp_tf.evaluation import Estimate, RankingMetrics
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
