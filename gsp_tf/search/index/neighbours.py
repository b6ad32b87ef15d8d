"""Search for the nearest neighbours of images, one or many."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gsp_tf._arguments import check_sizes, integers
from gsp_tf._console import command_line, listed, show_progress
from gsp_tf._files import several
from gsp_tf._metadata import check_same_model
from gsp_tf._typing import PathLike, Reranking
from gsp_tf.data import UnreadableImageError
from gsp_tf.evaluation import (
    RERANKINGS,
    LearnedWhitening,
    Reranker,
    TokenSets,
    checked_embeddings,
    distances_of_pairs,
    rerank_by_transport,
)
from gsp_tf.search._embedded import EmbeddingsFolder
from gsp_tf.search._tables import ImageTable, as_text, column_texts, vectors_of, writing_table
from gsp_tf.search.embed import list_images
from gsp_tf.search.embedder import RunModel
from gsp_tf.search.embeddings import Embeddings, holds_embeddings, is_index, read_labelled
from gsp_tf.search.index._where import ConditionError
from gsp_tf.search.index.build import build_index, check_metric
from gsp_tf.search.index.image_index import Index, PrefixIndex
from gsp_tf.search.thresholds import Decision, Thresholds, find_thresholds, given_thresholds


class _VectorReranking:
    """Searches the images of an index, or those with some ids, in the order of a method."""

    def __init__(self, index, method, matching, whitening=None):
        index.check_k(1)
        ids, vectors = map(np.concatenate, zip(*index.embeddings(), strict=True))
        if matching is not None:
            kept = np.isin(ids, matching)
            ids, vectors = ids[kept], vectors[kept]
        self._index, self._space = index, index.metadata.search_space()
        self._ids, self._vectors = ids, vectors
        learned = None if whitening is None else self._learned(whitening)
        self._search = Reranker(vectors, method, learned)

    def __call__(self, queries: np.ndarray, k: int, excluded: Sequence[Sequence[int]] | None):
        """Ids, distances of the embeddings and costs, which give the order, of each query."""
        queries = self._as_kept(checked_embeddings(queries, "queries"))
        without = [()] * len(queries) if excluded is None else excluded
        most = max(map(len, without), default=0)
        ranked = self._search(queries)
        rows, costs = ranked(np.arange(len(queries)), min(k + most, len(self._ids)))
        found = []
        for query, places, costs_of, ids in zip(queries, rows, costs, without, strict=True):
            kept = np.flatnonzero(~np.isin(self._ids[places], ids))[:k]
            places, costs_of = places[kept], costs_of[kept]
            both = np.concatenate([query[None], self._vectors[places]])
            ends = np.zeros(len(places), int), np.arange(1, 1 + len(places))
            distances = distances_of_pairs(both, *ends, self._space.metric)
            found.append((self._ids[places], distances, costs_of))
        return tuple(zip(*found, strict=True))

    def _as_kept(self, embeddings):
        """Embeddings as the index keeps its vectors: of length 1 for the cosine distance."""
        return self._space.embeddings(self._space.vectors(self._index.cut(embeddings)))

    def _learned(self, source):
        """The whitening learned from labelled embeddings of the model of the index."""
        found = read_labelled(source, most_images=None)
        made_by = self._index.metadata.model
        if None not in (found.model, made_by):
            check_same_model(found.model, made_by, f"{source} and the index {self._index.path}")
        return LearnedWhitening(self._as_kept(found.vectors), found.classes[1])


_DEPTH = 100


class Neighbour(NamedTuple):
    """An image found by a search.

    Attributes:
        rank: 1 for the nearest.
        distance: Distance of the embedding from that of the query.
        label: Class, `None` if unknown.
        path: Absolute path of the file.
        id: Id in the index.
        decision: "match", "unsure" or "unknown" by calibrated thresholds of the distance, `None`
            without any.
        cost: Cost that gives the order, if the results are re-ranked.
        is_query: Whether this is the file of the query itself, which is in the index.

    Example:
        >>> Neighbour(rank=1, distance=0.25, label="cat", path="/a.png", id=7).label
        'cat'
    """

    rank: int
    distance: float
    label: str | None
    path: str
    id: int
    decision: Decision | None = None
    cost: float | None = None
    is_query: bool = False


def search(
    run: RunModel | PathLike,
    image: PathLike | Sequence[PathLike],
    index: Index | PathLike | None = None,
    k: int = 10,
    thresholds: Thresholds | PathLike | None = None,
    rerank: Reranking | None = None,
    excluded: Sequence[Sequence[int]] | None = None,
    where: str | None = None,
    dim: int | None = None,
    whitening: PathLike | None = None,
) -> list[Neighbour] | list[list[Neighbour]]:
    """Finds the images of an index that are nearest to an image, or to each of several.

    Args:
        run: Run folder of the model that made the index, or its `RunModel`.
        image: Image file, or a list of image files.
        index: `Index` or its folder; `None` means the folder `index` in the run.
        k: Number of neighbours; an index with fewer images returns all of them.
        thresholds: `Thresholds` or their file, to decide which neighbours match; `None` means those
            that `calibrate` wrote for the index or the run, if there are any.
        rerank: `"transport"` puts the first 100 in the order of the partial transport between their
            local features and those of the query (`rerank_by_transport`). The index must keep local
            features. The other ways are those of `reranking_metrics`; all images that meet the
            condition are ranked, and the index must have the vectors, which are read into memory.
            With `"k_reciprocal"`, the answer for an image depends on the others that are given with
            it. `None` keeps the order.
        excluded: For each image, ids in the index that it must not find, such as those of the same
            camera or sequence; `None` excludes nothing.
        where: Condition on the columns of the images, such as `camera != 3 and year > 2020`; only
            images that meet it are found, and all of them are compared with the query. `None` finds
            all.
        dim: Search by the first components of the embeddings, normalised again; for a model trained
            with `MatryoshkaLoss`. The index must be one of them, or have the vectors.
        whitening: Labelled source, such as the embedded training images, from whose matched pairs
            the whitening of `rerank="whitening"` is learned (`LearnedWhitening`); `None` takes the
            principal components of the searched images.

    Returns:
        The neighbours, best first; for a list of images, a list of such lists. An image that is
        in the index finds itself (`is_query`).

    Raises:
        ValueError: If an image cannot be read, an argument does not fit, or all is excluded.

    Example:
        >>> search("no/such/run", "query.jpg")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    is_one = not isinstance(image, list | tuple)
    images = [str(file) for file in ([image] if is_one else image)]
    searched = _Searcher(run, index, k, thresholds, rerank, where, dim, whitening)
    if not images:
        return []
    embeddings, problems, sets = searched.embed(images, "Embedding")
    for file, problem in zip(images, problems, strict=True):
        if problem:
            raise UnreadableImageError(file, problem)
    neighbours = searched.neighbours(images, embeddings, sets, excluded)
    without = [file for file, found in zip(images, neighbours, strict=True) if not found]
    if without:
        raise ValueError(f"All {searched.num_images:,} images are excluded for {listed(without)}.")
    return neighbours[0] if is_one else neighbours


def _opened(run, index, dim):
    """The model and the index of a run, or no model and an index by itself."""
    if isinstance(run, Index) or (not isinstance(run, RunModel) and is_index(run)):
        if index is not None:
            path = run.path if isinstance(run, Index) else run
            raise ValueError(f"{path} is an index already; give it or another one, not both.")
        return None, open_index("", run, dim=dim)
    model = run if isinstance(run, RunModel) else RunModel(run)
    index = open_index(model.folder.path, index, dim=dim)
    index.check_model(model)
    return model, index


class _Searcher:
    """The index of `search`, or one without a run, and how it is searched, all checked."""

    def __init__(self, run, index, k, thresholds, rerank, where, dim, whitening):
        check_sizes(k=k)
        self.model, self.index = _opened(run, index, dim)
        self.k, self.rerank, self.matching, self.order = k, rerank, None, None
        whose = self.index.path if self.model is None else self.model.folder.path
        model = self.index.metadata.model
        self.thresholds = find_thresholds(thresholds, model, whose, self.index)
        if rerank not in (None, *RERANKINGS):
            known = ", ".join(RERANKINGS)
            raise ValueError(f"rerank must be None or one of {known}; received {rerank!r}.")
        if rerank == "transport" and k > _DEPTH:
            raise ValueError(f"Transport orders the first {_DEPTH} results; received k={k}.")
        if where is not None:
            self.matching = self.index.matching(where)  # the ids that meet the condition
            if not len(self.matching):
                raise ConditionError(
                    f"No image of the index {self.index.path} meets the condition {where!r}."
                )
        if whitening is not None and rerank != "whitening":
            raise ValueError(
                f"whitening is for the way to re-rank of that name; received rerank={rerank!r}."
            )
        if rerank not in (None, "transport"):
            self.order = _VectorReranking(self.index, rerank, self.matching, whitening)

    @property
    def belong_together(self) -> bool:
        """Whether the answer for a query depends on the other queries."""
        return self.rerank == "k_reciprocal"

    @property
    def num_images(self) -> int:
        return len(self.index) if self.matching is None else len(self.matching)

    def embed(self, images: Sequence[str], description: str):
        """Embeddings, problems and token sets of images; the sets are for transport alone."""
        if self.model is None:
            path, made_by = self.index.path, self.index.metadata.model
            if made_by is None:
                raise ValueError(
                    f"The index {path} holds vectors from elsewhere and has no model to embed "
                    f"{images[0]}; search it with vectors (.parquet, .npz, .npy)."
                )
            command = command_line("search", made_by.run, images[0], "--index", path)
            raise ValueError(
                f"The index {path} itself has no model to embed {images[0]}; name the run and the "
                f"index: {command}."
            )
        if self.rerank == "transport" and len(self.index):
            tokens = self.index.token_sets(self.index.ids[:1]).weights.shape[1]
            found, sets = self.model.embed_with_tokens(images, tokens, description)
            return *found, sets
        return *self.model.embed_images(images, description), None

    def neighbours(
        self,
        names: Sequence[str],
        embeddings: np.ndarray,
        sets: TokenSets | None = None,
        excluded: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Neighbour]]:
        """The neighbours of each embedding `(Q, D)`; none where all images are excluded."""
        if excluded is not None:
            if len(excluded) != len(names):
                raise ValueError(
                    f"excluded must hold ids for each of {len(names)} images; received "
                    f"{len(excluded)}."
                )
            excluded = [np.unique(integers(ids, "excluded")) for ids in excluded]
            for ids in excluded:
                self.index.items(ids)  # raises for an id that it does not have
        if self.order is not None:
            found = self.order(embeddings, self.k, excluded)
            return _neighbours(self.index, self.thresholds, names, *found)
        depth = self.k if sets is None else _DEPTH
        # Rows of queries, and the ids that they must not find.
        blocks = [(slice(None), np.empty(0, np.int64))]
        if excluded is not None:
            blocks = [(slice(row, row + 1), ids) for row, ids in enumerate(excluded)]
        neighbours = []
        for rows, ids in blocks:
            lost = ids if self.matching is None else ids[np.isin(ids, self.matching)]
            k = min(depth, self.num_images - len(lost))
            if not k and len(self.index):
                neighbours += [[] for _ in names[rows]]
                continue
            found = self.index.search(embeddings[rows], k, ids, self.matching)
            if sets is None:
                found = *found, None
            else:
                found = _reranked(self.index, sets.take(rows), *found, self.k)
            neighbours += _neighbours(self.index, self.thresholds, names[rows], *found)
        return neighbours


def _reranked(index, sets, ids, distances, k):
    """The k first of the ids found for each query with their distances and costs, by transport."""
    known, places = np.unique(ids, return_inverse=True)
    places = places.reshape(ids.shape)
    order, costs = rerank_by_transport(places, sets, index.token_sets(known), _DEPTH)
    ranks = np.argsort(places, axis=1)
    moved = np.take_along_axis(ranks, np.argsort(np.argsort(order, axis=1), axis=1), axis=1)
    distances = np.take_along_axis(distances, moved, axis=1)
    return known[order][:, :k], distances[:, :k], costs[:, :k]


def _neighbours(index, thresholds, names, ids, distances, costs):
    neighbours = []
    for number, (name, of_query) in enumerate(zip(names, ids, strict=True)):
        own = name, os.path.abspath(name), os.path.realpath(name)
        described = index.labels(of_query), index.paths(of_query)
        of_costs = None if costs is None else costs[number].tolist()
        found = in_order(thresholds, of_query, distances[number], *described, of_costs)
        neighbours.append([one._replace(is_query=_is_of(own, one.path)) for one in found])
    return neighbours


def _is_of(names, path):
    """Whether a path is among the names of a file, or leads there through linked folders."""
    if path in names:
        return True
    of_same_name = os.path.basename(path) == os.path.basename(names[-1])
    return of_same_name and os.path.realpath(path) == names[-1]


def in_order(thresholds, ids, distances, labels, paths, costs=None) -> list[Neighbour]:
    """Neighbours, best first; decisions are about the distance of the embeddings."""
    decide = (lambda distance: None) if thresholds is None else thresholds.decide
    costs = [None] * len(ids) if costs is None else costs
    found = zip(distances, labels, paths, ids, costs, strict=True)
    return [
        Neighbour(rank, float(distance), label, path, int(id), decide(distance), cost)
        for rank, (distance, label, path, id, cost) in enumerate(found, start=1)
    ]


def open_index(
    run: PathLike,
    index: Index | PathLike | None = None,
    mapped: bool | None = None,
    dim: int | None = None,
) -> Index:
    """Opens an index, by default the one in a run folder.

    Args:
        run: Run folder.
        index: `Index` or its folder; `None` means the folder `index` in the run, which is built of
            the folder `embeddings` in the run if there is none.
        mapped: As in `Index`.
        dim: Give the first components of the embeddings alone, as for `search`; `None` gives all.

    Example:
        >>> open_index("runs/gsp")
        Traceback (most recent call last):
            ...
        FileNotFoundError: runs/gsp is not a run folder: it has no recipe.yaml.
    """
    if index is None:
        folder = RunModel(run).folder.path
        index, embeddings = folder / "index", EmbeddingsFolder(folder / "embeddings")
        if not is_index(index) and embeddings.metadata_path.is_file():
            build_index(embeddings, index)
    if not isinstance(index, Index):
        index = Index(index, mapped)
    return index if dim is None else PrefixIndex.of(index, dim)


def excluded_by(
    column: str, table: PathLike | None, index: Index
) -> Callable[[Sequence[str]], list[np.ndarray]]:
    """A function from images to the ids of those in an index with their own value of a column.

    The values are those of a table, or without one of the index, which must hold the images.
    """
    paths = index.paths(index.ids)

    def same_as(values):
        return [index.ids[(groups == own) & (own != "")] for own in values]  # "" is missing

    if table is not None:
        found = ImageTable(table, [column])
        groups = found.texts(paths, column)
        return lambda images: same_as(found.texts(images, column))
    how = f"Name a table with the columns path and {column} (--table FILE)."
    if column not in index.columns:
        raise ValueError(f"The index {index.path} has no column {column}. {how}")
    groups = column_texts(index.items(index.ids), column)
    group_of = dict(zip(paths, groups, strict=True))

    def excluded(images):
        paths = map(os.path.abspath, images)
        images = [path if path in group_of else os.path.realpath(path) for path in paths]
        missing = [image for image in images if image not in group_of]
        if missing:
            raise ValueError(f"The index {index.path} does not hold {listed(missing, 3)}. {how}")
        return same_as(group_of[image] for image in images)

    return excluded


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


class _Searches(NamedTuple):
    """What `search_many` wrote."""

    path: Path
    queries: int
    problems: int  # number of queries without neighbours
    decisions: dict[str, int]  # number of queries by the decision about the first other image
    first: Sequence[tuple[str, list[Neighbour]]]  # three queries that have neighbours


def search_many(
    run: RunModel | Index | PathLike,
    queries: PathLike | Sequence[PathLike],
    out: PathLike,
    index: Index | PathLike | None = None,
    k: int = 10,
    thresholds: Thresholds | PathLike | None = None,
    rerank: Reranking | None = None,
    where: str | None = None,
    dim: int | None = None,
    excluded: Callable[[Sequence[str]], Sequence[Sequence[int]]] | None = None,
    whitening: PathLike | None = None,
) -> _Searches:
    """Finds the nearest images of many queries, and writes them as a table.

    The table has a row for each neighbour, with the columns query, rank, distance, decision, label,
    path, id, cost and is_query, which are those of `Neighbour`. A query that cannot be read, or for
    which all images are excluded, has one row, with its problem. Nothing is decided if only the
    queries or only the index say which model made their embeddings. The file appears when it is
    complete, so a killed search is repeated. To divide the work, embed the queries first:
    `embed_images` continues where it was stopped, and searching in its folder is fast.

    Args:
        run: As in `search`; or an `Index` or its folder, which embeddings search without a model.
        queries: Image files, folders and CSV files, as for `embed_images`; or one path of
            `Embeddings.read`, such as a folder of `embed_images`, of the dimension of the index.
        out: CSV or Parquet file to write.
        index, k, thresholds, rerank, where, dim, whitening: As in `search`; embeddings have no
            transport.
        excluded: Function from the names of some queries to the ids that each must not find.

    Returns:
        `path`, the numbers of `queries` and of those with `problems`, `decisions`, how many queries
        have each decision about their first other image, and `first`, three queries and their
        neighbours.

    Raises:
        ValueError: As in `search`, or if thresholds are given and nothing can be decided.

    Example:
        >>> search_many("no/such/run", ["photos"], "neighbours.csv")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    out = Path(out)
    searched = _Searcher(run, index, k, thresholds, rerank, where, dim, whitening)
    counts = {"queries": 0, "problems": 0}
    decisions = Counter()
    all_excluded = f"All {searched.num_images:,} images are excluded."
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
            others = (next((one for one in of if not one.is_query), None) for _, of in some)
            decisions.update(one.decision for one in others if one and one.decision)
    return _Searches(out, decisions=dict(decisions), first=first, **counts)


def _searches(searched, queries, excluded, thresholds):
    """Yields names, problems and neighbours of queries, in blocks."""
    queries = several(queries)
    if len(queries) == 1 and holds_embeddings(Path(queries[0])):
        source = Embeddings.read(queries[0])
        metadata = searched.index.metadata
        if (source.model is None) != (metadata.model is None):  # nothing can be decided
            if thresholds is not None:
                described = source.model, metadata.metric, source.dim, source.name
                given_thresholds(thresholds, *described)
            searched.thresholds = None
        yield from _of_embeddings(searched, source, excluded)
    else:
        yield from _of_images(searched, list_images(queries), excluded)


def _of_embeddings(searched, source, excluded):
    if searched.rerank == "transport":
        raise ValueError("Transport needs the images of the queries; received embeddings.")
    made_by = searched.index.metadata.model
    both = f"{source.name} and the index {searched.index.path}"
    if None not in (source.model, made_by):
        check_same_model(source.model, made_by, both)
    check_metric(source, searched.index, both)
    blocks = [source.table] if searched.belong_together else source.blocks()
    for block in show_progress(blocks, "Searching", source.num_blocks):
        names = block["path"].to_pylist()
        ids = None if excluded is None else excluded(names)
        yield names, [""] * len(names), searched.neighbours(names, vectors_of(block), None, ids)


def _of_images(searched, images, excluded):
    size = max(len(images), 1) if searched.belong_together else _BLOCK
    starts = range(0, len(images), size)
    for number, start in enumerate(starts, start=1):
        names = [image.path for image in images[start : start + size]]
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
    rows = []
    for name, problem, of_query in zip(names, problems, found, strict=True):
        if problem:
            rows.append({"query": as_text(name), "problem": as_text(problem)})
        rows += [{"query": as_text(name), **neighbour._asdict()} for neighbour in of_query]
    return pa.Table.from_pylist(rows, _SCHEMA)
