"""Neighbours of images: `index`, `search`, `calibrate`, `explore`."""

import os
from pathlib import Path
from typing import Literal

import numpy as np
from jsonargparse.typing import OpenUnitInterval

from gsp_tf import evaluation
from gsp_tf._console import counted, listed, printable
from gsp_tf._files import replacing
from gsp_tf._numbers import Count, Port, Positive, PositiveShare, Seed, Size
from gsp_tf._typing import Reranking
from gsp_tf.runs import is_run, run_folder


def index(
    folder: str,
    *,
    out: str | None = None,
    kind: Literal["exact", "sq8", "hnsw", "hnsw_sq8", "ivf_sq8", "ivf_pq"] | None = None,
    metric: Literal["euclidean", "cosine"] | None = None,
    rescore: Literal["sq8", "vectors"] | None = None,
    dim: Size | None = None,
    table: str | None = None,
    add: str | None = None,
    replace: str | None = None,
    delete: list[str] = (),
    verify: bool = False,
    compare: bool = False,
    recall: PositiveShare | None = None,
    sample: Count | None = None,
):
    """Build, change or verify a nearest-neighbour index of embeddings, or compare the kinds.

    Args:
        folder: Folder that embed wrote, or a run or a pretrained network, such as
            efficientnet_lite0 or the recipe of one, whose images embed has embedded; or vectors
            from elsewhere: Parquet files with the column embedding, .npz or .npy, or an index that
            has its vectors. With --add, --replace, --delete or --verify the index, or its run.
        out: Folder to write; null is the folder index in the run, where there is one. With
            --compare, folder for comparison.csv and comparison.png; null only prints.
        kind: exact; sq8, codes of a byte per dimension; hnsw and hnsw_sq8, a graph of vectors or
            codes; ivf_sq8 and ivf_pq, codes in lists. Null is exact up to 100,000 images, ivf_sq8
            up to 5,000,000, ivf_pq above.
        metric: Distance; null is that of the embeddings, or euclidean.
        rescore: Take more candidates from a compressed kind and order them by codes of a byte per
            dimension, or by the vectors; these stay on disk.
        dim: Keep this many components of the embeddings, normalised again (MatryoshkaLoss).
        table: CSV or Parquet file with the column path and metadata of the images, for search
            --where, beside those of the embeddings; also of the images that --add or --replace
            adds.
        add: Add the images of this folder of embed, or of other embeddings as for building.
        replace: Add them, and remove older ones with the same paths.
        delete: Remove images by their file paths; with --add or --replace in one step.
        verify: Compare the files of the index with their checksums, and change nothing.
        compare: Measure recall, bytes and time of every kind on these vectors, and recommend one.
        recall: With --compare, the recall at 10 that is enough; null is 0.95.
        sample: With --compare, number of vectors to read, at random if there are more; null is
            100,000.
    """
    from gsp_tf.search import Index, build_index, change_index, verify_index

    changes = _given(add, replace, delete or None)
    building, comparing = _given(kind, metric, rescore, dim), _given(recall, sample)
    if verify and (changes or building or comparing or _given(out, table) or compare):
        raise ValueError("--verify takes an index and no other option.")
    if compare and (changes or _given(kind, rescore, table)):
        raise ValueError(
            "--compare takes --out, --metric, --dim, --recall and --sample, and changes nothing."
        )
    if comparing and not compare:
        raise ValueError("--recall and --sample are for --compare; give it too.")
    folder = _folder_of(folder, "index" if verify or changes else "embeddings")
    if verify:
        count = verify_index(folder).count
        print(f"{folder}: {counted(count, 'image')}; the files have their checksums")
        return
    if compare:
        _compare(folder, out, recall, sample, metric, dim)
        return
    if not changes:
        options = {"rescore": rescore, "dim": dim, "table": table}
        index = build_index(folder, out, kind, metric, **options)
    else:
        if out is not None or building:
            raise ValueError(
                "--out, --kind, --metric, --rescore and --dim are for building an index, not for "
                "changing one."
            )
        if add is not None and replace is not None:
            raise ValueError("Give --add or --replace, not both; --replace adds new images too.")
        index = Index(folder)
        added = add if replace is None else replace
        if table is not None and added is None:
            raise ValueError("--table has metadata of added images; give --add or --replace too.")
        change_index(index, added, delete, replace_known=replace is not None, table=table)
    metadata = index.metadata
    vectors = sum(segment.vectors.bytes for segment in metadata.segments)
    what = f"{metadata.kind}, {metadata.metric}"
    if metadata.rescore is not None:
        what = f"{metadata.kind}, rescored by {metadata.rescore}, {metadata.metric}"
    if metadata.embedding_dim is not None:
        what += f", {metadata.dim} of {metadata.embedding_dim} dimensions"
    print(
        f"{index.path}: {counted(len(index), 'image')}, {what}; "
        f"{sum(file.bytes for file in metadata.files):,} bytes ({vectors:,} of vectors); "
        f"{metadata.recall}"
    )


def _folder_of(path, name):
    """A path, or of a run, and of what names a pretrained network, its folder of that name."""
    if Path(path).suffix in (".yaml", ".yml"):
        path = run_folder(path)
    elif not Path(path).exists() and (":" in path or Path(path).name == path):
        from gsp_tf import backbones

        if path.partition(":")[0] in backbones.names():
            path = run_folder(path)
    return str(Path(path, name)) if is_run(path) else path


def _given(*options):
    """The options that are not null."""
    return [option for option in options if option is not None]


def _compare(folder, out, recall, sample, metric, dim):
    """Print the comparison of the kinds, and write it to a folder if there is one."""
    from rich.console import Console
    from rich.table import Table

    from gsp_tf.search import compare_indexes
    from gsp_tf.visual import index_curve

    options = {"recall": recall, "most_vectors": sample, "metric": metric, "dim": dim}
    options = {name: value for name, value in options.items() if value is not None}
    found = compare_indexes(folder, **options)
    of = f"{found.vectors:,} vectors of {found.dim} dimensions"
    if found.is_sample:
        of += f", a random sample of {found.count:,}"
    title = f"{of}; {found.queries} other ones search"
    table = Table(title=title, caption="* on the Pareto curve of recall, memory and time")
    for heading in ("index", "R@1", "R@10", "bytes", "on disk", "ms", "build s", ""):
        table.add_column(heading, justify="left" if heading in ("index", "") else "right")
    for index in found.indexes:
        table.add_row(
            index.name,
            *(f"{100 * share:.1f}" for share in (index.recall_at_1, index.recall_at_10)),
            *(f"{size:,.0f}" for size in (index.memory_bytes, index.disk_bytes)),
            f"{index.milliseconds:.3f}",
            f"{index.build_seconds:.1f}",
            "*" if index.is_on_curve else "",
            style="bold" if index == found.recommended else None,
        )
    Console().print(table)
    best = found.recommended
    why = f"the least memory with Recall@10 of {100 * found.recall:g} % or more"
    if best.recall_at_10 < found.recall:  # only exact
        why = "which misses only vectors that are as near as those it finds"
    print(
        f"Recommended: {best.options}, {why}: {best.memory_bytes:,.0f} bytes per vector, "
        f"{100 * best.recall_at_10:.1f} %, {best.milliseconds:.3f} ms per query."
    )
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        table, picture = Path(out, "comparison.csv"), Path(out, "comparison.png")
        found.write(table)
        with replacing(picture) as temporary:
            index_curve(found.indexes, title).savefig(temporary, format="png", dpi=120)
        print(f"Written: {table}, {picture}")


_NUMBERS = {"rank", "cost", "distance"}


def search(
    run: str,
    images: list[str],
    *,
    index: str | None = None,
    k: Count = 10,
    html: str | bool = False,
    mapped: bool | None = None,
    thresholds: str | None = None,
    rerank: Reranking | None = None,
    whitening: str | None = None,
    why: bool = False,
    exclude_same: str | None = None,
    table: str | None = None,
    where: str | None = None,
    dim: Size | None = None,
    out: str | None = None,
):
    """Find the images of an index that are nearest to each given image.

    With thresholds of calibrate, each is a match, unsure or unknown. For folders, CSV files and
    embeddings, and with --out, the results of all images are written to a file, and those of the
    first three are printed.

    Args:
        run: Run folder, or a pretrained network as it is, such as efficientnet_lite0 or
            hub:dinov2_small; or the folder that index wrote, to search it by embeddings, without a
            model.
        images: Image files; folders and CSV files of images; or embeddings: a folder that embed
            wrote, an index, a Parquet file with the column embedding, or a .npz or .npy file.
        index: Folder that index wrote; null is the folder index in the run, which is built of the
            images that embed has embedded if there is none.
        k: Number of neighbours of each image.
        html: Write a page with the pictures, to this file or to search.html in the run.
        thresholds: File that calibrate wrote; null is thresholds.json in the index or the run, if
            there is one.
        mapped: Leave the vectors on disk; null does so if they exceed the available memory.
        rerank: transport compares the local features of the query with those of its first 100
            results, which embed --tokens keeps, and orders the results by it. The others order all
            images by the vectors of the index, as in evaluate.
        whitening: Learn the whitening of --rerank whitening from the matched pairs of these
            labelled embeddings, such as those of the training images; or a run, for those of its
            validation images.
        exclude_same: Column, such as camera or sequence; an image does not find images with its own
            value, and one without a value finds all.
        table: CSV or Parquet file with the columns path and that of --exclude-same, for the images
            in the index and the given ones; null takes the column that the index keeps, for given
            images that are in it.
        where: Condition on columns that the index keeps, such as "camera != 3 and year > 2020";
            only images that meet it are found.
        dim: Search by this many components of the embeddings, normalised again (MatryoshkaLoss).
        out: CSV or Parquet file for the results; null is neighbours.csv in the run or index if
            there are many images, and none for image files.
        why: With --html, show which places of the query and its first neighbours the model matches.
    """
    from gsp_tf import search

    is_index = search.is_index(run)
    run = run if is_index else run_folder(run)
    if why and html is False:
        raise ValueError("--why is for the page with pictures; give --html too.")
    if whitening is not None and rerank != "whitening":
        raise ValueError("--whitening is for --rerank whitening; give that too.")
    if table is not None and exclude_same is None:
        raise ValueError("--table has the column of --exclude-same; give that too.")
    if is_index and index is not None:
        raise ValueError(f"{run} is an index already; give it or --index, not both.")
    model = None if is_index else search.RunModel(run)
    opened = search.open_index(run, run if is_index else index, mapped, dim)
    decided = search.find_thresholds(thresholds, opened.metadata.model, run, opened)
    excluded = None
    if exclude_same is not None:
        excluded = search.excluded_by(exclude_same, table, opened)
    by_model = {"run": opened} if model is None else {"run": model, "index": opened}
    options = {"k": k, "rerank": rerank, "where": where, "whitening": whitening} | by_model
    if out is not None or any(map(_holds_many, images)):
        if html is not False:
            raise ValueError("--html is a page for image files; --out has the results of many.")
        out = Path(run) / "neighbours.csv" if out is None else out
        options |= {"thresholds": thresholds, "excluded": excluded}
        _report(search.search_many(queries=images, out=out, **options), decided, rerank)
        return
    ids = None if excluded is None else excluded(images)
    found = search.search(image=images, thresholds=decided, excluded=ids, **options)
    if k > len(opened):
        print(f"The index holds {counted(len(opened), 'image')}, fewer than --k {k:,}.")
    for image, neighbours in zip(images, found, strict=True):
        _show(neighbours, image, rerank)
    if decided is not None:
        print(decided.summary())
    if html is not False:
        page = html or Path(run) / "search.html"
        shown = images, found, opened, model if why else None, decided
        print(f"Page: {search.write_neighbours(page, *shown)}")


def _holds_many(source):
    """Whether a source is not one image file."""
    path = Path(source)
    return path.is_dir() or path.suffix.lower() in (".csv", ".npz", ".npy", ".parquet")


def _report(searches, thresholds, rerank):
    """Print the neighbours of the first queries, and what was written for all."""
    for query, neighbours in searches.first:
        _show(neighbours, query, rerank)
    found = f"{searches.path}: neighbours of {counted(searches.queries, 'query', 'queries')}"
    if searches.problems:
        found += f"; {searches.problems:,} of them have none (column problem)"
    print(found)
    if searches.decisions:
        shares = [f"{count:,} {decision}" for decision, count in sorted(searches.decisions.items())]
        print(f"First images: {', '.join(shares)}. {thresholds.summary()}")
    elif thresholds is not None and searches.first and not searches.first[0][1][0].decision:
        print(
            "note: Only one of queries and index says which model made its embeddings, so nothing "
            "is decided."
        )


def _show(neighbours, image, rerank):
    """Print the neighbours, one per line, under the folder that contains them all."""
    from rich.cells import cell_len, set_cell_size

    folders = {os.path.dirname(found.path) for found in neighbours}
    is_local = all(map(os.path.isabs, folders))  # not an address such as s3://...
    folder = os.path.commonpath(folders) if is_local else ""
    order = "Nearest to" if rerank is None else f"First by {rerank} for"
    decision = next((one.decision for one in neighbours if not one.is_query), None)
    said = "" if decision is None else f" ({decision})"
    place = f", in {printable(folder)}" if is_local else ""
    print(f"{order} {printable(image)}{said}{place}:")
    columns = {"rank": [], "cost": [], "distance": [], "decision": [], "label": [], "path": []}
    for found in neighbours:
        columns["rank"].append(str(found.rank))
        columns["cost"].append(None if found.cost is None else f"{found.cost:z.4f}")
        columns["distance"].append(f"{found.distance:.4f}")
        columns["decision"].append(found.decision)
        columns["label"].append("–" if found.label is None else printable(found.label))
        path = os.path.relpath(found.path, folder) if is_local else found.path
        columns["path"].append(printable(path) + " (the same file)" * found.is_query)
    columns = {name: cells for name, cells in columns.items() if None not in cells}
    widths = [max(map(cell_len, (name, *cells))) for name, cells in columns.items()]
    for row in (tuple(columns), *zip(*columns.values(), strict=True)):
        cells = [
            f"{text:>{width}}" if name in _NUMBERS else set_cell_size(text, width)
            for name, text, width in zip(columns, row, widths, strict=True)
        ]
        print("  ".join([*cells[:-1], row[-1]]))


_GALLERY = 10_000
_CLASSES_NAMED = 20


def calibrate(
    source: str,
    *,
    false_match_rate: OpenUnitInterval,
    base_rate: OpenUnitInterval | None = None,
    missed_match_rate: OpenUnitInterval = 0.05,
    metric: Literal["euclidean", "cosine"] | None = None,
    coverage: OpenUnitInterval | None = None,
    confidence: OpenUnitInterval = 0.95,
    seed: Seed = 0,
    out: str | None = None,
):
    """Find the distance up to which two images match.

    Writes thresholds at a false match rate; the interval of the rate is for other classes. search,
    explore and export then use them: near images are a match, far ones unknown, others unsure. A
    run is calibrated on its validation classes, never on its test classes.

    Args:
        source: Run folder, index, folder that embed wrote, Parquet files with the columns label and
            embedding, or .npz file.
        false_match_rate: Share of the pairs of different classes that may match, such as 1e-3.
        base_rate: Share of true matches among the pairs that will be compared, to report how many
            matches will be right.
        missed_match_rate: Share of the pairs of the same class that may be unknown.
        metric: Distance; null is that of the source, or euclidean.
        coverage: Probability with which a set of images should hold one of the query's class, to
            report how far the images of such a set are.
        confidence: Confidence of the intervals.
        seed: Seed of the samples of classes that give the intervals.
        out: File to write; null is thresholds.json in the source.
    """
    from gsp_tf.search import calibrate, read_labelled, thresholds_path

    read = read_labelled(source, seed=seed)
    for note in read.notes:
        print(f"note: {note}")
    found = calibrate(
        read,
        false_match_rate,
        base_rate,
        out,
        metric,
        missed_match_rate,
        confidence=confidence,
        seed=seed,
        coverage=coverage,
    )
    on = found.calibrated_on
    paired = np.count_nonzero(np.bincount(read.classes[1]) > 1)
    needed = evaluation.classes_for_interval(found.confidence)
    print(
        f"Calibrated on {counted(on.images, 'image')} of {counted(on.classes, 'class')}, "
        f"{on.source}: {counted(on.positive_pairs, 'pair')} of the same class and "
        f"{counted(on.negative_pairs, 'pair')} of different classes. In brackets: "
        f"{100 * found.confidence:g} % intervals from resampled classes."
    )
    if paired < needed:
        print(
            f"Intervals are unknown below {needed} classes, and those that pairs of the same class "
            f"take part in below {needed} with two images or more; there are {paired} of these."
        )
    has_unsure = found.unknown.distance.value > found.match.distance.value
    rows = [("match   at most  ", found.match)]
    rows += [("unknown more than", found.unknown)] if has_unsure else []
    for rule, threshold in rows:
        print(
            f"  {rule} {threshold.distance} away: accepts {threshold.false_match_rate} of the "
            f"pairs of different classes, {threshold.true_match_rate} of those of the same class"
        )
    if not has_unsure:
        print("  unknown otherwise; nothing is unsure")
    expected = _GALLERY * found.match.false_match_rate.value
    print(
        f"A search among {_GALLERY:,} images of other classes finds {expected:,.1f} false matches "
        "on average."
    )
    if found.precision is not None:
        print(
            f"If {100 * found.base_rate:g} % of the compared pairs are of the same class, "
            f"{found.precision} of the matches are right."
        )
    if found.retrieval_set is not None:
        print(
            f"All images up to {found.retrieval_set:.4f} away hold one of the query's class with a "
            f"probability of {100 * found.coverage:g} %, if there are any."
        )
    if found.classes_over:
        names = [f"{one.label} ({one.false_match_rate:.2g})" for one in found.classes_over]
        rest = " in the file" if len(names) > _CLASSES_NAMED else ""
        print(
            f"The rate {found.false_match_rate:g} does not hold for "
            f"{counted(len(names), 'class')}: {listed(names, _CLASSES_NAMED)}{rest}"
        )
    print(f"Thresholds: {thresholds_path(read) if out is None else out}")


def explore(
    run: str,
    *,
    index: str | None = None,
    host: str = "127.0.0.1",
    port: Port | None = None,
    k: Count = 10,
    max_upload_mb: Positive = 10.0,
    allowed_host: list[str] = (),
    thresholds: str | None = None,
):
    """Explore a model in the browser.

    Serves a page with the neighbours, pooling weights and prototypes of an image, and the strongest
    patches of prototypes. Ctrl-C stops the server.

    Args:
        run: Run folder, or a pretrained network as it is, such as efficientnet_lite0 or
            hub:dinov2_small.
        index: Folder that index wrote; null is the folder index in the run, which is built of the
            images that embed has embedded, or the test images of the run without such images.
        host: Address to listen on; any address but loopback lets others upload to the page.
        port: Port to listen on; null is 7860 or a free one.
        k: Number of neighbours.
        max_upload_mb: Largest accepted file, in MB.
        allowed_host: Further host names of the page, such as that of a proxy.
        thresholds: File that calibrate wrote; null is thresholds.json in the index or the run, if
            there is one.
    """
    run = run_folder(run)
    from gsp_tf.search import explore_run

    explore_run(run, index, host, port, k, max_upload_mb, allowed_host, thresholds)
