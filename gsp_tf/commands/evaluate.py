"""`gsp-tf evaluate`: evaluate a run again, or rank its test images or any other embeddings."""

import json
from pathlib import Path
from typing import Literal

from gsp_tf._numbers import Count, PositiveShare, Size
from gsp_tf.commands._recipes import require_run

_AT = (1, 5, 10)
_TOKENS = 16
_MOST_CLASSES = 20
_UNITS = ", in percent with 95 % intervals"


def command(
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
    verification: list[PositiveShare] = (),
    out: str | None = None,
):
    """Evaluate a run again, or rank embeddings.

    Without options, this evaluates the best model of a run and writes the report. With any option,
    or for embeddings that are not a run, it prints ranking metrics with their intervals; those of
    a run are of its last evaluation, which does not change.

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
            transport, or all; for embeddings that are not of a run, all is all but transport.
        whitening: Learn the whitening of --rerank whitening from the matched pairs of these
            labelled embeddings, such as those of the training images; or a run, for those of its
            validation images. Null takes the principal components of the searched images.
        tokens: Local features of an image of a run that transport compares; null is 16. Folders and
            indexes keep those of embed --tokens.
        dims: Compare searches by the first dimensions of the embeddings, normalised again, such as
            16 32 64 (MatryoshkaLoss).
        verification: Instead ask of all pairs whether both are of one class: AUC, EER, and TAR at
            these false match rates, such as 1e-3 1e-2; with --gallery, open-set identification:
            DIR at these false alarm rates.
        out: JSON file for all metrics; null is ranking.json in a run, reranking.json with --rerank,
            or verification.json with --verification, and none for other sources.
    """
    is_run = (Path(source) / "recipe.yaml").is_file()
    if is_run or not Path(source).exists():
        require_run(source)
    if tokens is not None and not {"transport", "all"} & set(rerank):
        raise ValueError("--tokens is for --rerank transport; give that too.")
    if whitening is not None and not {"whitening", "all"} & set(rerank):
        raise ValueError("--whitening is for --rerank whitening; give that too.")
    if tokens is not None and not is_run:
        raise ValueError(
            f"--tokens is for the images of a run; {source} has the local features, if any, that "
            "gsp-tf embed --tokens gave it."
        )
    if exclude_same == "class":
        raise ValueError("--exclude-same takes a column such as camera; class leaves no positive.")
    columns = [column for column in (by, exclude_same) if column not in (None, "class")]
    if table is not None and not columns:
        raise ValueError("--table has the columns of --by and --exclude-same; name one of them.")
    tokens = _TOKENS if tokens is None else tokens
    other = at or by or exclude_same or classes_per_group or rerank or dims
    if verification and other:
        raise ValueError("--verification takes no other options but --gallery, --metric and --out.")
    if is_run and not (other or gallery or metric or verification or out):
        from gsp_tf.runs import open_run

        opened = open_run(source)
        opened.evaluate()
        opened.show()
        return
    if rerank and (by or classes_per_group or metric or len(gallery) > 1):
        raise ValueError(
            "--rerank compares searches by Euclidean distances in one gallery; it takes no --by, "
            "--classes-per-group or --metric."
        )
    if classes_per_group and (gallery or exclude_same):
        raise ValueError("--classes-per-group takes no --gallery and no --exclude-same.")
    if dims and (rerank or by or classes_per_group or len(gallery) > 1):
        raise ValueError(
            "--dims compares searches in one gallery; it takes no --rerank, --by or "
            "--classes-per-group."
        )
    if by and len(gallery) > 1:
        raise ValueError("--by takes one --gallery at most.")
    at = sorted(set(at)) or _AT
    if rerank and is_run and not (gallery or exclude_same or whitening):
        _rerank(source, None, rerank, tokens, at, {}, out)
        return
    from gsp_tf.serving import ranked_images

    of_run = is_run and not gallery  # then `rerank_run` reads the local features
    compared = tokens if "transport" in rerank and not of_run else None
    named = list(dict.fromkeys(columns))
    images = ranked_images(source, gallery, named, table, tokens=compared, whitening=whitening)
    for note in images.notes:
        print(f"note: {note}")
    sources = images.sources(exclude_same) if exclude_same else {}
    if rerank:
        sources["whitening"] = images.whitening
        _rerank(source, None if of_run else images, rerank, tokens, at, sources, out)
        return
    if metric == "euclidean" and images.metric == "cosine" and images.references is not None:
        raise ValueError(
            "An index with cosine distances holds vectors of length 1, which have no Euclidean "
            "distances to others; leave --metric out, or give cosine."
        )
    if classes_per_group and images.references is not None:
        raise ValueError(
            f"--classes-per-group compares the queries with each other, and {source} has a gallery."
        )
    metric = metric or images.metric or "euclidean"
    if verification:
        record = _verify(images, verification, metric, bool(gallery))
    elif dims:
        record = _rank_prefixes(images, dims, at, metric, sources)
    else:
        record = _rank(images, at, by, classes_per_group, metric, sources)
    if out is None and is_run:
        out = Path(source) / ("verification.json" if verification else "ranking.json")
    _write(record, out)


def _rank(images, at, by, classes_per_group, metric, sources):
    """Print ranking metrics in all galleries, by group and in groups of classes; what to write."""
    from gsp_tf.evaluation import gallery_metrics, grouped_recall, ranking_metrics
    from gsp_tf.runs import percent, print_ranking, print_rankings, ranking_record

    queries = images.queries, images.query_labels
    names = ["precision_at_1", "map_at_r", f"ndcg_at_{at[-1]}"]
    if images.galleries is not None and len(set(images.galleries)) > 1:
        references = images.galleries, images.references, images.reference_labels
        found = gallery_metrics(*queries, *references, at, metric, **sources)
        for gallery in sorted(set(images.galleries.tolist()) - set(found)):
            print(
                f"note: {gallery} is left out: no query has an image of its class there, or all "
                "its images are of one class."
            )
        print_rankings(f"The same queries in each gallery{_UNITS}", "gallery", found, names)
        return {"galleries": {name: ranking_record(of) for name, of in found.items()}}
    found = ranking_metrics(
        *queries, images.references, images.reference_labels, at, metric, **sources
    )
    print_ranking(found, at)
    record = {"all": ranking_record(found)}
    if by is not None:
        groups = found.by(images.groups(by))
        record[f"by {by}"] = {name: ranking_record(of) for name, of in groups.items()}
        title = f"Queries by {by}"
        if by == "class" and len(groups) > _MOST_CLASSES:
            worst = sorted(groups, key=lambda name: record["by class"][name]["map_at_r"])
            groups = {name: groups[name] for name in worst[:_MOST_CLASSES]}
            title = (
                f"The {_MOST_CLASSES} of {len(record['by class'])} classes with the lowest MAP@R"
            )
        print_rankings(title + _UNITS, by, groups, names)
    if classes_per_group:
        searched = *queries, classes_per_group, at, metric
        grouped = grouped_recall(*searched)
        record["grouped_recall"] = {"classes_per_group": classes_per_group}
        print(f"Among random groups of {classes_per_group} classes, in percent:")
        for k, (name, estimate) in zip(at, grouped.items(), strict=True):
            print(f"  grouped Recall@{k} {percent(estimate)}")
            record["grouped_recall"][name] = list(estimate)
    return record


def _rank_prefixes(images, dims, at, metric, sources):
    """Print ranking metrics of prefixes of the embeddings; what to write."""
    from gsp_tf.runs import prefix_metrics, print_rankings, ranking_record

    searched = images.queries, images.query_labels, images.references, images.reference_labels
    found = prefix_metrics(sorted(set(dims)), *searched, at=at, metric=metric, **sources)
    names = [*(f"recall_at_{k}" for k in at), "map_at_r"]
    rows = {f"{dim:,}": metrics for dim, metrics in found.items()}
    print_rankings(f"The first dimensions of the embeddings{_UNITS}", "dimensions", rows, names)
    return {"dims": {str(dim): ranking_record(metrics) for dim, metrics in found.items()}}


def _verify(images, rates, metric, has_gallery):
    """Print metrics of verification, or of identification in a gallery; what to write."""
    import numpy as np

    from gsp_tf._console import counted
    from gsp_tf.evaluation import (
        PairDistances,
        classes_for_interval,
        open_set_identification,
        opis,
        verification_metrics,
    )

    searched = images.queries, images.query_labels, images.references, images.reference_labels
    if has_gallery:
        found = open_set_identification(*searched, rates, metric)
        known = np.isin(images.query_labels, images.reference_labels)
        what = f"{known.sum():,} queries of classes in the gallery and {(~known).sum():,} of others"
        of_kind = "of the gallery among the queries, or of others"
        record = {"num_known": int(known.sum()), "num_unknown": int((~known).sum())}
    else:
        parts = slice(None, None, 2), slice(1, None, 2)
        if images.references is None:
            searched = searched[:2]
        pairs = PairDistances(*(np.concatenate(searched[part]) for part in parts), metric)
        found = verification_metrics(pairs, rates)
        try:
            found["opis"] = opis(pairs).estimate()
        except ValueError as error:
            print(f"note: opis is left out. {error}")
        what = (
            f"{counted(pairs.num_positive, 'pair')} of the same class and {pairs.num_negative:,} "
            "of different classes"
        )
        of_kind = "of two images or more"
        record = {"num_positive": pairs.num_positive, "num_negative": pairs.num_negative}
    print(f"{what[0].upper()}{what[1:]}, with 95 % intervals from resampled classes:")
    if any(np.isnan(estimate.low) for estimate in found.values()):
        print(f"An interval is unknown with fewer than {classes_for_interval()} classes {of_kind}.")
    width = max(map(len, found))
    for name, estimate in found.items():
        print(f"  {name:<{width}}  {estimate}")
    intervals = {name: list(of[1:]) for name, of in found.items() if np.isfinite(of.low)}
    return {name: of.value for name, of in found.items()} | record | {"intervals": intervals}


def _rerank(source, images, methods, tokens, at, options, out):
    """Print and write the metrics of ways to re-rank images, or those of a run for `None`."""
    from gsp_tf.evaluation import RERANKINGS, reranking_metrics
    from gsp_tf.runs import open_run, print_reranking, rerank_run, reranking_record

    if images is None:
        methods = RERANKINGS if "all" in methods else methods
        results = rerank_run(open_run(source), methods, tokens, at, out=out, **options)
        out = Path(source) / "reranking.json" if out is None else out
        print_reranking(results)
        print(f"Metrics: {out}")
        return
    methods = RERANKINGS[:-1] if "all" in methods else methods
    if images.metric == "cosine":
        raise ValueError(
            f"--rerank compares Euclidean distances; the embeddings of {source} or of its gallery "
            "are for cosine distances."
        )
    results = reranking_metrics(
        images.queries,
        images.query_labels,
        images.references,
        images.reference_labels,
        methods,
        at,
        images.query_tokens,
        images.reference_tokens,
        **options,
    )
    print_reranking(results)
    _write(reranking_record(results), out)


def _write(record, out):
    """Write metrics to a JSON file, if there is one."""
    if out is not None:
        from gsp_tf._files import replace_text

        replace_text(out, json.dumps(record, indent=2) + "\n")
        print(f"Metrics: {out}")
