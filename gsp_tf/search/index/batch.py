"""Search for many queries at once, with the results in a file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from gsp_tf._console import show_progress
from gsp_tf._metadata import check_same_model
from gsp_tf._typing import PathLike
from gsp_tf.search._tables import as_text, writing_table
from gsp_tf.search.embedding import RunModel
from gsp_tf.search.embedding._listing import list_images
from gsp_tf.search.index.image_index import Index
from gsp_tf.search.index.neighbours import Neighbour, Rerank, open_searched
from gsp_tf.search.thresholds import Thresholds
from gsp_tf.search.vector_sources import holds_embeddings, vector_source

_BLOCK = 1024
_SHOWN = 3
_SCHEMA = pa.schema(
    {
        "query": pa.string(),
        "rank": pa.int32(),
        "distance": pa.float32(),
        "decision": pa.string(),
        "label": pa.string(),
        "path": pa.string(),
        "id": pa.int64(),
        "cost": pa.float32(),
        "is_query": pa.bool_(),
        "problem": pa.string(),
    }
)


class Searches(NamedTuple):
    """What `search_many` wrote.

    Attributes:
        path: The file.
        queries: Number of queries.
        problems: Number of queries with a problem instead of neighbours.
        decisions: Number of queries by the decision about the first image found that is not the
            query itself; empty without thresholds.
        first: Names and neighbours of the first three queries that have some.

    Example:
        >>> Searches(Path("neighbours.csv"), 10, 0, {"match": 7, "unknown": 3}).queries
        10
    """

    path: Path
    queries: int
    problems: int
    decisions: dict[str, int]
    first: Sequence[tuple[str, list[Neighbour]]] = ()


def search_many(
    run: RunModel | Index | PathLike,
    queries: Sequence[PathLike],
    out: PathLike,
    index: Index | PathLike | None = None,
    k: int = 10,
    thresholds: Thresholds | PathLike | None = None,
    rerank: Rerank | None = None,
    where: str | None = None,
    dim: int | None = None,
    excluded: Callable[[Sequence[str]], Sequence[Sequence[int]]] | None = None,
    whitening: PathLike | None = None,
) -> Searches:
    """Finds the nearest images of many queries, and writes them as a table.

    The table has a row for each neighbour, with the columns query, rank, distance, decision, label,
    path, id, cost and is_query, which are those of `Neighbour`. A query that cannot be read, or for
    which all images are excluded, has one row, with its problem. Nothing is decided if only the
    queries or only the index say which model made their embeddings. The file appears when it is
    complete, so a killed search is repeated. To divide the work, embed the queries first:
    `embed_images` continues where it was stopped, and searching in its folder is fast.

    Args:
        run: As in `search`; or an `Index` or its folder, which embeddings search without a model.
        queries: Image files, folders and CSV files, as for `embed_images`; or one source of
            `vector_source`, such as a folder of `embed_images` or a Parquet file, of the dimension
            of the index.
        out: CSV or Parquet file to write.
        index, k, thresholds, rerank, where, dim, whitening: As in `search`; embeddings have no
            transport.
        excluded: Function from the names of some queries to the ids that each must not find.

    Returns:
        What was written.

    Raises:
        FileNotFoundError: If a query or a folder does not exist.
        ValueError: As in `search`, if `out` is not a CSV or Parquet file, or if thresholds are
            given and nothing can be decided.

    Example:
        >>> search_many("no/such/run", ["photos"], "neighbours.csv")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    out = Path(out)
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"Results are written as .csv or .parquet; received {out}.")
    searched = open_searched(run, index, k, thresholds, rerank, where, dim, whitening)
    counts = {"queries": 0, "problems": 0}
    all_excluded = f"All {searched.num_images:,} images are excluded."
    decisions: dict[str, int] = {}
    first: list[tuple[str, list[Neighbour]]] = []
    with writing_table(out, _SCHEMA) as write:
        for names, problems, found in _searches(searched, queries, excluded, thresholds):
            both = zip(problems, found, strict=True)
            problems = [problem or ("" if of else all_excluded) for problem, of in both]
            write(_table(names, problems, found))
            counts["queries"] += len(names)
            counts["problems"] += sum(map(bool, problems))
            some = [(name, of) for name, of in zip(names, found, strict=True) if of]
            first += some[: _SHOWN - len(first)]
            for _, of_query in some:
                decision = next((one.decision for one in of_query if not one.is_query), None)
                if decision is not None:
                    decisions[decision] = decisions.get(decision, 0) + 1
    return Searches(out, decisions=decisions, first=first, **counts)


def _searches(searched, queries, excluded, thresholds):
    """Yields names, problems and neighbours of queries, in blocks."""
    if len(queries) == 1 and holds_embeddings(Path(queries[0])):
        source = vector_source(queries[0])
        metadata = searched.index.metadata
        one_is_unknown = (source.model is None) != (metadata.model is None)
        if one_is_unknown and searched.thresholds is not None:
            if thresholds is not None:
                path = "given" if isinstance(thresholds, Thresholds) else thresholds
                described = source.model, metadata.metric, source.dim, source.name
                searched.thresholds.check(*described, path)
            searched = searched._replace(thresholds=None)
        yield from _of_embeddings(searched, source, excluded)
    else:
        yield from _of_images(searched, list_images(queries), excluded)


def _of_embeddings(searched, source, excluded):
    if searched.rerank == "transport":
        raise ValueError("Transport needs the images of the queries; received embeddings.")
    made_by = searched.index.metadata.model
    if None not in (source.model, made_by):
        check_same_model(
            source.model, made_by, f"{source.name} and the index {searched.index.path}"
        )
    for block in show_progress(source.blocks(), "Searching", source.num_blocks):
        names, _, embeddings, *_ = block
        ids = None if excluded is None else excluded(names)
        yield names, [""] * len(names), searched.neighbours(names, embeddings, None, ids)


def _of_images(searched, images, excluded):
    starts = range(0, len(images), _BLOCK)
    for number, start in enumerate(starts, start=1):
        names = [image.path for image in images[start : start + _BLOCK]]
        description = f"Searching, part {number} of {len(starts)}"
        embeddings, problems, sets = searched.embed(names, description)
        good = [row for row, problem in enumerate(problems) if not problem]
        found = iter([])
        if good:
            some = [names[row] for row in good]
            ids = None if excluded is None else excluded(some)
            tokens = None if sets is None else sets.take(good)
            found = iter(searched.neighbours(some, embeddings[good], tokens, ids))
        yield names, problems, [[] if problem else next(found) for problem in problems]


def _table(names, problems, found):
    """The rows of some queries."""
    rows = []
    for name, problem, of_query in zip(names, problems, found, strict=True):
        if problem:
            rows.append({"query": as_text(name), "problem": as_text(problem)})
        rows += [{"query": as_text(name), **neighbour._asdict()} for neighbour in of_query]
    return pa.Table.from_pylist(rows, _SCHEMA)
