"""`gsp-tf search`: the neighbours of images."""

import os
from pathlib import Path

from gsp_tf._numbers import Count, Size
from gsp_tf._typing import Reranking
from gsp_tf.runs import run_folder

_NUMBERS = {"rank", "cost", "distance"}


def command(
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
    from gsp_tf._console import counted

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
    from gsp_tf._console import counted

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

    from gsp_tf._console import printable

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
