"""Compares the kinds of indexes on a user's own vectors."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import faiss
import numpy as np

from gsp_tf._arguments import checked_seed
from gsp_tf._console import listed, show_progress
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import SearchSpace, truncated
from gsp_tf.search._tables import vectors_of, write_table
from gsp_tf.search.embeddings import Embeddings, metric_of
from gsp_tf.search.index._vector_index import (
    CODES,
    FEWEST_TO_COMPRESS,
    KEEP_VECTORS,
    NEIGHBOURS,
    Kind,
    Rescore,
    VectorIndex,
    check_rescore,
    choose_effort,
    exact_neighbours,
    recall_of,
)
from gsp_tf.search.index.build import NUM_QUERIES, training_rows

COMPARED: tuple[tuple[Kind, Rescore | None], ...] = (
    ("exact", None),
    ("sq8", None),
    ("sq8", "vectors"),
    ("hnsw", None),
    ("hnsw_sq8", None),
    ("hnsw_sq8", "vectors"),
    ("ivf_sq8", None),
    ("ivf_sq8", "vectors"),
    ("ivf_pq", None),
    ("ivf_pq", "sq8"),
    ("ivf_pq", "vectors"),
)
"""The kinds that are compared, and what they are rescored by."""
MOST_VECTORS = 100_000
_QUERIES = 500
_ID_BYTES = 8
_TEXTS = ("kind", "rescore")


class _MeasuredIndex(NamedTuple):
    """What an index costs and finds."""

    kind: Kind
    rescore: Rescore | None
    recall_at_1: float
    recall_at_10: float
    memory_bytes: float  # per vector, with the ids of what rescores it
    disk_bytes: float  # per vector, of what rescores it
    milliseconds: float  # median of queries one by one, one thread
    build_seconds: float
    is_on_curve: bool = False

    @property
    def name(self) -> str:
        return self.kind + (f", rescored by {self.rescore}" if self.rescore else "")

    @property
    def options(self) -> str:
        """The options of `gsp-tf index` that build it."""
        return f"--kind {self.kind}" + (f" --rescore {self.rescore}" if self.rescore else "")


class _IndexComparison(NamedTuple):
    """Indexes of `vectors` of the `count` vectors of a source, searched by `queries` others."""

    indexes: list[_MeasuredIndex]
    recommended: _MeasuredIndex
    recall: float  # the recall at 10 that is enough
    vectors: int
    queries: int
    count: int
    dim: int

    @property
    def is_sample(self) -> bool:
        return self.vectors + self.queries < self.count

    def write(self, path: PathLike) -> None:
        """Writes a table with a row for each index, as CSV or Parquet by the extension."""
        of_fields = zip(_MeasuredIndex._fields, zip(*self.indexes, strict=True), strict=True)
        columns = {name: list(of) if name in _TEXTS else np.array(of) for name, of in of_fields}
        columns["is_recommended"] = np.array([one == self.recommended for one in self.indexes])
        write_table(Path(path), columns)


def compare_indexes(
    embeddings: Embeddings | PathLike,
    recall: float = 0.95,
    most_vectors: int = MOST_VECTORS,
    metric: str | None = None,
    dim: int | None = None,
    compared: Sequence[tuple[Kind, Rescore | None]] = COMPARED,
    seed: int = 0,
) -> _IndexComparison:
    """Builds every kind of index of some embeddings in memory, one after the other, and measures.

    Up to 500 random embeddings are queries, a tenth of all at most, and the others are indexed. The
    truth is what `exact` finds. Each index chooses how far it looks as `build_index` does, with
    queries from the indexed vectors, not with those that measure it. The codes or vectors that
    rescore an index are in memory here, so its time is that of a file which the system has in its
    cache.

    The recommended index has the smallest number of bytes in memory among those with enough recall
    at 10 and exact, which misses only vectors that are as near as those it finds. If exact is not
    compared and none has enough, it is the one with the highest recall.

    Args:
        embeddings: `Embeddings`, or a path for `Embeddings.read`.
        recall: The recall at 10 that is enough, in (0, 1].
        most_vectors: Number of vectors to read; of more, a random sample is compared.
        metric: `"euclidean"` or `"cosine"`; `None` means that of the source, or Euclidean.
        dim: Compare prefixes of the embeddings, as in `build_index`.
        compared: Kinds, and what they are rescored by; those that need training are left out below
            256 vectors.
        seed: Seed of the samples.

    Returns:
        The comparison. Its `indexes` have a kind and what rescores it, recall at 1 and 10, bytes
        per vector in memory and on disk, median milliseconds of a query by one thread, seconds to
        build, and whether they are on the Pareto curve of recall, memory and time. One of them is
        `recommended`, and `write(path)` writes all as CSV or Parquet.

    Example:
        >>> source = Embeddings.from_arrays(np.random.default_rng(0).normal(size=(400, 8)))
        >>> [index.kind for index in compare_indexes(source, compared=COMPARED[:2]).indexes]
        ['exact', 'sq8']
    """
    if not 0 < recall <= 1:
        raise ValueError(f"recall must be above 0 and at most 1; received {recall}.")
    source = Embeddings.read(embeddings)
    if min(source.count, most_vectors) < 2:
        raise ValueError(
            f"A comparison needs at least 2 vectors; received {source.count} and "
            f"most_vectors={most_vectors}."
        )
    rng = np.random.default_rng(checked_seed(seed))
    sample = _sampled(source, most_vectors, rng)
    sample = sample if dim is None else truncated(sample, dim)
    space = SearchSpace.around(sample, metric_of(source, metric))
    sample = space.vectors(sample)
    is_query = np.zeros(len(sample), bool)
    num_queries = max(1, min(_QUERIES, len(sample) // 10))
    is_query[rng.choice(len(sample), num_queries, replace=False)] = True
    held, queries = sample[~is_query], sample[is_query]
    builder = _Builder(held, space.faiss_metric, seed)
    nobody = np.full(len(queries), -1)
    truth = builder.truth(queries, nobody, min(NEIGHBOURS, len(held)))
    can_train = len(held) >= FEWEST_TO_COMPRESS
    enough = [pair for pair in compared if can_train or pair[0] in KEEP_VECTORS]
    if not enough:
        raise ValueError(
            f"Nothing is left to compare: {listed([kind for kind, _ in compared])} need at least "
            f"{FEWEST_TO_COMPRESS} vectors; received {len(held)}."
        )
    measured = [
        _measured(kind, rescore, builder, queries, truth)
        for kind, rescore in show_progress(enough, "Comparing", len(enough))
    ]
    measured = [index._replace(is_on_curve=_is_on_curve(index, measured)) for index in measured]
    good = [index for index in measured if index.kind == "exact" or index.recall_at_10 >= recall]
    good = good or [max(measured, key=lambda index: index.recall_at_10)]
    recommended = min(good, key=lambda index: (index.memory_bytes, index.milliseconds))
    sizes = len(held), len(queries), source.count, sample.shape[1]
    return _IndexComparison(measured, recommended, recall, *sizes)


def _sampled(source, most, rng):
    """Some embeddings at random, or all, in the order of the source; reads it once."""
    if source.count > most:
        rows = np.sort(rng.choice(source.count, most, replace=False))
    else:
        rows = np.arange(source.count)
    sample, start = [], 0
    for block in show_progress(source.blocks(), "Reading", source.num_blocks):
        first, stop = np.searchsorted(rows, [start, start + len(block)])
        sample.append(vectors_of(block)[rows[first:stop] - start])
        start += len(block)
    return np.concatenate(sample)


class _Builder:
    """Builds indexes of some vectors; those of a kind share what is not rescoring."""

    def __init__(self, vectors: np.ndarray, metric: int, seed: int):
        self._vectors, self._metric, self._seed = vectors, metric, seed
        rng = np.random.default_rng(checked_seed(seed))
        num_queries = min(NUM_QUERIES, len(vectors))
        self._tuning = np.sort(rng.choice(len(vectors), num_queries, replace=False))
        k = min(NEIGHBOURS, len(vectors) - 1)
        self._truth = self.truth(vectors[self._tuning], self._tuning, k) if k else None
        self._base, self._seconds = None, 0.0

    def truth(self, queries, excluded, k):
        blocks = [(np.arange(len(self._vectors)), self._vectors)]
        return exact_neighbours(blocks, queries, excluded, k, self._metric)

    def built(self, kind: Kind, rescore: Rescore | None) -> tuple[VectorIndex, float]:
        """An index, and the seconds that it took."""
        if self._base is None or self._base.kind != kind:
            started = time.perf_counter()
            self._base = self._filled(kind)
            self._seconds = time.perf_counter() - started
        started, index = time.perf_counter(), self._base
        if rescore is not None:
            check_rescore(kind, rescore)
            index = VectorIndex(kind, index.index, self._filled(CODES[rescore]))
        if self._truth is not None:
            choose_effort(index, self._vectors[self._tuning], self._tuning, self._truth)
        return index, self._seconds + time.perf_counter() - started

    def _filled(self, kind):
        (count, dim), rng = self._vectors.shape, np.random.default_rng(self._seed)
        index = VectorIndex.new(kind, dim, count, self._metric)
        index.train(self._vectors[training_rows(index, count, rng)])
        index.add(np.arange(count), self._vectors)
        return index


def _measured(kind, rescore, builder, queries, truth):
    index, seconds = builder.built(kind, rescore)
    found, times = [], []
    index.search(queries[:3], truth.shape[1])
    for query in queries:  # alone, and so by one thread
        started = time.perf_counter()
        found.append(index.search(query[None], truth.shape[1])[1][0])
        times.append(time.perf_counter() - started)
    memory, disk = _bytes(index) / len(index), 0.0
    if index.codes is not None:
        memory, disk = memory + _ID_BYTES, _bytes(index.codes) / len(index)
    return _MeasuredIndex(
        kind,
        rescore,
        recall_of(np.array(found)[:, :1], truth[:, :1]),
        recall_of(np.array(found), truth),
        memory,
        disk,
        milliseconds=1e3 * float(np.median(times)),
        build_seconds=seconds,
    )


def _bytes(index):
    """Bytes of the file of an index, without that of its codes."""
    sizes = []
    faiss.write_index(index.index, faiss.PyCallbackIOWriter(lambda data: sizes.append(len(data))))
    return sum(sizes)


def _is_on_curve(index, others):
    """Whether no other index is as good in recall, memory and time, and better in one."""

    def costs(measured):
        return -measured.recall_at_10, measured.memory_bytes, measured.milliseconds

    ours = costs(index)
    return not any(
        all(a <= b for a, b in zip(theirs, ours, strict=True)) and theirs != ours
        for theirs in map(costs, others)
    )
