"""Metrics of runs and of other embeddings: `evaluate`, `rank`, `verify`, `report`."""

import itertools
import json
import warnings
from pathlib import Path
from typing import Literal

import numpy as np

from gsp_tf import evaluation, runs, search
from gsp_tf._console import as_cell, counted
from gsp_tf._files import locked, replace_text
from gsp_tf._numbers import Count, PositiveShare, Size
from gsp_tf.runs import is_run, require_run
from gsp_tf.visual import display_name, percent

_AT = (1, 5, 10)
_TOKENS = 16


def evaluate(
    run: str,
    *,
    rerank: list[str] = (),
    tokens: Size | None = None,
    at: list[Count] = (),
    out: str | None = None,
):
    """Evaluate a run again, and write its report.

    With --rerank, this re-ranks the test images of the last evaluation instead, which does not
    change. rank and verify also take embeddings that are not of a run.

    Args:
        run: Run folder.
        rerank: Ways to re-rank: k_reciprocal, query_expansion, database_augmentation, whitening,
            transport, or all.
        tokens: Local features of an image that transport compares; null is 16.
        at: Values of K of the metrics of --rerank; without any, 1, 5 and 10.
        out: JSON file for the metrics of --rerank; null is reranking.json in the run.
    """
    if Path(run).exists() and not is_run(run):
        raise ValueError(
            f"{run} is not a run folder; gsp-tf rank and gsp-tf verify take other embeddings."
        )
    require_run(run)
    _check_tokens(tokens, rerank)
    if rerank:
        _rerank_test_images(run, rerank, tokens, at, out)
        return
    if at or out:
        raise ValueError(
            "--at and --out are for --rerank; gsp-tf rank RUN prints other ranking metrics."
        )
    opened = runs.open_run(run)
    opened.evaluate()
    opened.show()


def _check_tokens(tokens, rerank, gallery=()):
    """Refuse a number of local features without transport, which alone compares them."""
    with_transport = {"transport"} if gallery else {"transport", "all"}
    if tokens is not None and not with_transport & set(rerank):
        raise ValueError("--tokens is for --rerank transport; give that too.")


def _rerank_test_images(run, methods, tokens, at, out, **options):
    """Print and write the metrics of ways to re-rank the test images of a run."""
    opened, every, at = runs.open_run(run), evaluation.RERANKINGS, sorted(set(at)) or _AT
    is_one = "all" in methods and isinstance(opened, runs.Run)
    if is_one and not runs.has_local_features(opened.learner.embedder):
        print(
            "note: transport is left out; it needs a pooling with weights, such as gsp, and after "
            "it at most a linear map."
        )
        every = evaluation.RERANKINGS[:-1]
    found = runs.rerank_run(opened, _each(methods, every), tokens or _TOKENS, at, **options)
    record = _reranked(found)
    with locked(run):
        _write_metrics(record, out or Path(run) / "reranking.json")


def _each(methods, every):
    """Each method once, with all of them for the word all."""
    named = (every if method == "all" else [method] for method in methods)
    return [*dict.fromkeys(itertools.chain.from_iterable(named))]


_MOST_CLASSES = 20
_UNITS = ", in percent with 95 % intervals"
_REFUSED = {
    "rerank": (
        {"by", "classes_per_group", "metric", "galleries"},
        "--rerank compares searches by Euclidean distances in one gallery; it takes no --by, "
        "--classes-per-group or --metric.",
    ),
    "classes_per_group": (
        {"gallery", "exclude_same"},
        "--classes-per-group takes no --gallery and no --exclude-same.",
    ),
    "dims": (
        {"rerank", "by", "classes_per_group", "galleries"},
        "--dims compares searches in one gallery; it takes no --rerank, --by or "
        "--classes-per-group.",
    ),
    "by": ({"galleries"}, "--by takes one --gallery at most."),
}


def rank(
    source: str,
    *,
    at: list[Count] = (),
    by: str | None = None,
    exclude_same: str | None = None,
    gallery: list[str] = (),
    classes_per_group: Count | None = None,
    table: str | None = None,
    metric: Literal["euclidean", "cosine"] | None = None,
    rerank: list[str] = (),
    whitening: str | None = None,
    tokens: Size | None = None,
    dims: list[Size] = (),
    out: str | None = None,
):
    """Print ranking metrics of embeddings with their intervals.

    Those of a run are of its last evaluation, which does not change.

    Args:
        source: Run folder, index, folder that embed wrote, Parquet files with the columns label and
            embedding, or .npz file.
        at: Values of K of the ranking metrics; without any, 1, 5 and 10.
        by: Divide the queries by their class, or by a column such as camera.
        exclude_same: Column, such as camera or sequence; a query ignores images of its class with
            the same value.
        gallery: Search these sources instead, each alone.
        classes_per_group: Also print grouped Recall@K, among random groups of as many classes,
            which can be compared between sets of different sizes.
        table: CSV or Parquet file with the column path and those columns; null takes them from the
            source, and for a run of a manifest from the manifest.
        metric: Distance; null is that of the source, or euclidean.
        rerank: Ways to re-rank: k_reciprocal, query_expansion, database_augmentation, whitening,
            transport, or all; with --gallery, and for embeddings that are not of a run, all is all
            but transport.
        whitening: Learn the whitening of --rerank whitening from the matched pairs of these
            labelled embeddings, such as those of the training images; or a run, for those of its
            validation images. Null takes the principal components of the searched images.
        tokens: Local features of an image of a run that transport compares; null is 16. Folders and
            indexes keep those of embed --tokens.
        dims: Compare searches by the first dimensions of the embeddings, normalised again, such as
            16 32 64 (MatryoshkaLoss).
        out: JSON file for all metrics; null is ranking.json in a run, reranking.json with --rerank,
            and none for other sources.
    """
    is_run = _is_run_folder(source)
    _check_tokens(tokens, rerank, gallery)
    columns = _columns(by, exclude_same, table)
    options = {"rerank": rerank, "classes_per_group": classes_per_group, "dims": dims, "by": by}
    options |= {"gallery": gallery, "exclude_same": exclude_same, "metric": metric}
    _refuse_together({**options, "galleries": len(gallery) > 1})
    if tokens is not None and not is_run:
        raise ValueError(
            f"--tokens is for the images of a run; {source} has the local features, if any, that "
            "gsp-tf embed --tokens gave it."
        )
    if whitening is not None and not {"whitening", "all"} & set(rerank):
        raise ValueError("--whitening is for --rerank whitening; give that too.")
    at = sorted(set(at)) or _AT
    of_run = rerank and is_run and not gallery  # then `rerank_run` reads the local features
    if of_run and not (exclude_same or whitening):
        _rerank_test_images(source, rerank, tokens, at, out)
        return
    compared = (tokens or _TOKENS) if "transport" in rerank and not of_run else None
    images = _read_images(source, gallery, columns, table, tokens=compared, whitening=whitening)
    if classes_per_group and images.references is not None:
        raise ValueError(
            f"--classes-per-group compares the queries with each other, and {source} has a gallery."
        )
    sources = images.sources(exclude_same) if exclude_same else {}
    if of_run:
        sources["whitening"] = images.whitening
        _rerank_test_images(source, rerank, tokens, at, out, **sources)
        return
    metric = search.metric_of(images, metric)
    if rerank:
        record = _rerank(source, images, rerank, at, sources)
    elif dims:
        record = _rank_prefixes(images, dims, at, metric, sources)
    else:
        if classes_per_group:  # before anything is printed, because it may refuse the number
            grouped = evaluation.grouped_recall(*images.searched[:2], classes_per_group, at, metric)
        record = _rank(images, at, by, metric, sources)
        if classes_per_group:
            record["grouped_recall"] = _print_groups(grouped, at, classes_per_group)
    if is_run:
        out = out or Path(source, "reranking.json" if rerank else "ranking.json")
    _write_metrics(record, out)


def _is_run_folder(source):
    """Whether a source is a run folder; refuses a path where nothing is."""
    if not Path(source).exists():
        require_run(source)
    return is_run(source)


def _read_images(source, gallery, columns=(), table=None, **options):
    """The images of `ranked_images`, after its notes are printed."""
    images = search.ranked_images(source, gallery, columns, table, **options)
    for note in images.notes:
        print(f"note: {note}")
    return images


def _columns(by, exclude_same, table):
    """The columns that are read beside the classes."""
    if exclude_same == "class":
        raise ValueError("--exclude-same takes a column such as camera; class leaves no positive.")
    columns = [column for column in (by, exclude_same) if column not in (None, "class")]
    if table is not None and not columns:
        raise ValueError("--table has the columns of --by and --exclude-same; name one of them.")
    return list(dict.fromkeys(columns))


def _refuse_together(options):
    given = {name for name, value in options.items() if value}
    for name, (others, text) in _REFUSED.items():
        if name in given and given & others:
            raise ValueError(text)


def _rank(images, at, by, metric, sources):
    """Print ranking metrics in all galleries, and by group; what to write."""
    queries = images.searched[:2]
    names = ["precision_at_1", "map_at_r", f"ndcg_at_{at[-1]}"]
    if images.galleries is not None and len(set(images.galleries)) > 1:
        references = images.galleries, *images.searched[2:]
        found = evaluation.gallery_metrics(*queries, *references, at, metric, **sources)
        for gallery in sorted(set(images.galleries.tolist()) - set(found)):
            print(
                f"note: {gallery} is left out: no query has an image of its class there, or all "
                "its images are of one class."
            )
        _print_rankings(f"The same queries in each gallery{_UNITS}", "gallery", found, names)
        return {"galleries": {name: _ranking_record(of) for name, of in found.items()}}
    found = evaluation.ranking_metrics(*images.searched, at, metric, **sources)
    _print_ranking(found, at)
    record = {"all": _ranking_record(found)}
    if by is not None:
        groups = found.by(images.groups(by))
        record[f"by {by}"] = {name: _ranking_record(of) for name, of in groups.items()}
        title = f"Queries by {by}"
        if by == "class" and len(groups) > _MOST_CLASSES:
            worst = sorted(groups, key=lambda name: record["by class"][name]["map_at_r"])
            groups = {name: groups[name] for name in worst[:_MOST_CLASSES]}
            title = (
                f"The {_MOST_CLASSES} of {len(record['by class'])} classes with the lowest MAP@R"
            )
        _print_rankings(title + _UNITS, by, groups, names)
    return record


def _print_groups(found, at, classes_per_group):
    """Print grouped Recall@K in random groups of classes; what to write."""
    print(f"Among random groups of {classes_per_group} classes, in percent:")
    for k, estimate in zip(at, found.values(), strict=True):
        print(f"  grouped Recall@{k} {percent(*estimate)}")
    return {
        "classes_per_group": classes_per_group,
        **{name: of.value for name, of in found.items()},
        "intervals": evaluation.intervals(found),
    }


def _rank_prefixes(images, dims, at, metric, sources):
    """Print ranking metrics of prefixes of the embeddings; what to write."""
    dims = sorted(set(dims))
    found = runs.prefix_metrics(dims, *images.searched, at=at, metric=metric, **sources)
    names = [*(f"recall_at_{k}" for k in at), "map_at_r"]
    rows = {f"{dim:,}": metrics for dim, metrics in found.items()}
    _print_rankings(f"The first dimensions of the embeddings{_UNITS}", "dimensions", rows, names)
    return {"dims": {str(dim): _ranking_record(metrics) for dim, metrics in found.items()}}


def _rerank(source, images, methods, at, sources):
    """Print metrics of ways to re-rank images that are not of a run; what to write."""
    if images.metric == "cosine":
        raise ValueError(
            f"--rerank compares Euclidean distances; the embeddings of {source} or of its gallery "
            "are for cosine distances."
        )
    methods = _each(methods, evaluation.RERANKINGS[:-1])
    results = evaluation.reranking_metrics(
        *images.searched, methods, at, *images.tokens, **sources, whitening=images.whitening
    )
    return _reranked(results)


def _write_metrics(record, out):
    """Write metrics to a JSON file, if there is one."""
    if out is not None:
        replace_text(out, json.dumps(record, indent=2) + "\n")
        print(f"Metrics: {out}")


def _ranking_record(metrics):
    """The means of `RankingMetrics`, the counts of queries, and the 95 % intervals, for JSON."""
    means = metrics.means()
    return {
        **{name: found.value for name, found in means.items()},
        "num_queries": metrics.num_queries,
        "num_skipped": len(metrics.labels) - metrics.num_queries,
        "intervals": evaluation.intervals(means),
    }


def _print_rankings(title, heading, rows, names, **more):
    """Print some metrics of `RankingMetrics` by row as a table, in percent with their intervals.

    More are texts of further columns, by their heading.
    """
    lines = []
    for row, (name, metrics) in enumerate(rows.items()):
        means = metrics.means()
        cells = [percent(*means[column]) for column in names]
        cells += [texts[row] for texts in more.values()]
        lines.append([as_cell(name), f"{metrics.num_queries:,}", *cells])
    headings = as_cell(heading), "queries", *map(display_name, names), *more
    _print_table(headings, lines, as_cell(title))


def _print_table(headings, rows, title=None):
    """Print rows of texts as a table, all but the first column to the right."""
    from rich.console import Console
    from rich.table import Table

    first, *others = headings
    table = Table(title=title)
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _print_ranking(metrics, at):
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
    rows = []
    for kind in ("recall", "precision", "map", "mrr", "ndcg"):
        name = display_name(f"{kind}_at_{at[-1]}").partition("@")[0]
        rows.append([name, *(percent(*means[f"{kind}_at_{k}"]) for k in at)])
    _print_table(["", *(f"@{k}" for k in at)], rows)
    print(
        f"MAP@R {percent(*means['map_at_r'])}, R-precision {percent(*means['r_precision'])}; with "
        f"every class weighing the same, MAP@R {percent(*by_class.means()['map_at_r'])}"
    )


def _reranked(results):
    """Print the results of ways to re-rank as a table; what to write of them."""
    _print_rankings(
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
            **_ranking_record(found.metrics),
            "seconds": found.seconds,
            "bytes": found.bytes_per_image,
        }
        for name, found in results.items()
    }


def verify(
    source: str,
    rates: list[PositiveShare],
    *,
    gallery: list[str] = (),
    metric: Literal["euclidean", "cosine"] | None = None,
    out: str | None = None,
):
    """Say how well distances tell whether two images are of one class.

    Prints AUC, EER, OPIS, and TAR at false match rates, of all pairs. With --gallery this is
    open-set identification: DIR at false alarm rates.

    Args:
        source: Run folder, index, folder that embed wrote, Parquet files with the columns label and
            embedding, or .npz file. Those of a run are of its last evaluation.
        rates: False match rates, or false alarm rates with --gallery, such as 1e-3 1e-2.
        gallery: Sources that hold the known classes.
        metric: Distance; null is that of the source, or euclidean.
        out: JSON file for the metrics; null is verification.json in a run, and none for other
            sources.
    """
    is_run = _is_run_folder(source)
    images = _read_images(source, gallery)
    metric = search.metric_of(images, metric)
    if gallery:
        found, record, what = _identified(images, rates, metric)
        of_kind = "of the gallery among the queries, or of others"
    else:
        found, record, what = _paired(images, rates, metric)
        of_kind = "of two images or more"
    print(f"{what}, with 95 % intervals from resampled classes:")
    if any(np.isnan(estimate.low) for estimate in found.values()):
        needed = evaluation.classes_for_interval()
        print(f"An interval is unknown with fewer than {needed} classes {of_kind}.")
    width = max(map(len, found))
    for name, estimate in found.items():
        print(f"  {name:<{width}}  {estimate}")
    record = {name: of.value for name, of in found.items()} | record
    record["intervals"] = evaluation.intervals(found)
    _write_metrics(record, out or (Path(source) / "verification.json" if is_run else None))


def _identified(images, rates, metric):
    """Metrics of open-set identification, their counts to write, and these in words."""
    found = evaluation.open_set_identification(*images.searched, rates, metric)
    _, labels, _, known = images.searched
    known = np.isin(labels, known)
    what = f"{known.sum():,} queries of classes in the gallery and {(~known).sum():,} of others"
    return found, {"num_known": int(known.sum()), "num_unknown": int((~known).sum())}, what


def _paired(images, rates, metric):
    """Metrics of all pairs, their counts to write, and these in words."""
    embeddings, labels, *gallery = images.searched
    if images.references is not None:  # the own gallery of a run
        embeddings, labels = map(np.concatenate, ((embeddings, gallery[0]), (labels, gallery[1])))
    pairs = evaluation.PairDistances(embeddings, labels, metric)
    found = evaluation.verification_metrics(pairs, rates)
    try:
        found["opis"] = evaluation.opis(pairs).estimate()
    except ValueError as error:
        print(f"note: opis is left out. {error}")
    what = (
        f"{counted(pairs.num_positive, 'pair')} of the same class and {pairs.num_negative:,} "
        "of different classes"
    )
    record = {"num_positive": pairs.num_positive, "num_negative": pairs.num_negative}
    return found, record, what[0].upper() + what[1:]


def report(runs: list[str], *, out: str = "tables"):
    """Compare runs in one table.

    The table has methods as rows and data sets as columns, in Markdown and CSV. Runs with
    the same name and different seeds become a mean and a standard deviation. Folders without
    results are left out with a note; interrupted runs are marked.

    Args:
        runs: Run folders.
        out: Folder for table.md and table.csv.
    """
    from gsp_tf.runs import Comparison  # the argument has the name of the package

    comparison = Comparison(runs, skip=True)
    for reason in comparison.skipped:
        warnings.warn(f"left out: {reason}", stacklevel=1)
    print(comparison.markdown())
    for path in comparison.write(out):
        print(path)
