"""Ranking metrics as tables in the terminal and as JSON."""

import json

from rich.console import Console
from rich.table import Table

from gsp_tf._console import as_cell, counted
from gsp_tf._files import replace_text
from gsp_tf.evaluation import intervals
from gsp_tf.visual import display_name, percent


def write_metrics(record, out):
    """Write metrics to a JSON file, if there is one."""
    if out is not None:
        replace_text(out, json.dumps(record, indent=2) + "\n")
        print(f"Metrics: {out}")


def ranking_record(metrics):
    """The means of `RankingMetrics`, the counts of queries, and the 95 % intervals, for JSON."""
    means = metrics.means()
    return {
        **{name: found.value for name, found in means.items()},
        "num_queries": metrics.num_queries,
        "num_skipped": len(metrics.labels) - metrics.num_queries,
        "intervals": intervals(means),
    }


def print_rankings(title, heading, rows, names, **more):
    """Print some metrics of `RankingMetrics` by row as a table, in percent with their intervals.

    More are texts of further columns, by their heading.
    """
    table = Table(title=as_cell(title))
    table.add_column(as_cell(heading), no_wrap=True)
    for name in ("queries", *map(display_name, names), *more):
        table.add_column(name, justify="right")
    for row, (name, metrics) in enumerate(rows.items()):
        means = metrics.means()
        cells = [percent(*means[column]) for column in names]
        cells += [texts[row] for texts in more.values()]
        table.add_row(as_cell(name), f"{metrics.num_queries:,}", *cells)
    Console().print(table)


def print_ranking(metrics, at):
    """Print all metrics of `RankingMetrics` as a table, a column for each value of K."""
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
        table.add_row(name, *(percent(*means[f"{kind}_at_{k}"]) for k in at))
    Console().print(table)
    print(
        f"MAP@R {percent(*means['map_at_r'])}, R-precision {percent(*means['r_precision'])}; with "
        f"every class weighing the same, MAP@R {percent(*by_class.means()['map_at_r'])}"
    )


def reranked(results):
    """Print the results of ways to re-rank as a table; what to write of them."""
    print_rankings(
        "Re-ranking: metrics in percent with 95 % intervals from resampled classes, seconds for "
        "all queries, bytes per image",
        "method",
        {name: found.metrics for name, found in results.items()},
        ["precision_at_1", "map_at_r"],
        seconds=[f"{found.seconds:.1f}" for found in results.values()],
        bytes=[f"{found.bytes_per_image:,}" for found in results.values()],
    )
    return {
        name: {
            **ranking_record(found.metrics),
            "seconds": found.seconds,
            "bytes": found.bytes_per_image,
        }
        for name, found in results.items()
    }
