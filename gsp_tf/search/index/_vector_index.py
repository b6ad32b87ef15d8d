"""Vectors with ids that faiss searches, the codes that rescore what it finds, and its recall."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import faiss
import numpy as np

from gsp_tf.evaluation import all_but, corrected_scores, flat_search

Kind = Literal["exact", "sq8", "hnsw", "hnsw_sq8", "ivf_sq8", "ivf_pq"]
Rescore = Literal["sq8", "vectors"]
KEEP_VECTORS = ("exact", "hnsw")
"""The kinds that store the vectors as they are."""
CODES: dict[Rescore, Kind] = {"sq8": "sq8", "vectors": "exact"}
"""The kinds of the indexes that rescore what another one finds."""
FEWEST_TO_COMPRESS = 256
"""Number of vectors that the other kinds need at least."""

_MOST_FOR_EXACT = 100_000
_MOST_FOR_SQ8 = 5_000_000
_RESCORES: dict[str, tuple[str, ...]] = {
    "sq8": ("vectors",),
    "hnsw_sq8": ("vectors",),
    "ivf_sq8": ("vectors",),
    "ivf_pq": ("sq8", "vectors"),
}
_IVF = {"ivf_sq8": faiss.IndexIVFScalarQuantizer, "ivf_pq": faiss.IndexIVFPQ}
_GRAPHS = {"hnsw": faiss.IndexHNSWFlat, "hnsw_sq8": faiss.IndexHNSWSQ}
_FLAT = {faiss.METRIC_L2: faiss.IndexFlatL2, faiss.METRIC_INNER_PRODUCT: faiss.IndexFlatIP}
_CODE = faiss.ScalarQuantizer.QT_8bit
_POINTS_PER_LIST = 39
_DIMS_PER_BYTE = 4
_SPARE_RANGE = 0.1  # added on each side of the trained range, for later images
_LINKS = 32


def choose_kind(count: int) -> Kind:
    """The default kind of index for a number of images."""
    if count <= _MOST_FOR_EXACT:
        return "exact"
    return "ivf_sq8" if count <= _MOST_FOR_SQ8 else "ivf_pq"


def _new_index(kind: Kind, dim: int, count: int, metric: int) -> faiss.Index:
    """An empty faiss index that takes vectors with ids; `count` is how many it will hold."""
    if kind not in get_args(Kind):
        raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}; received {kind!r}.")
    if kind not in KEEP_VECTORS and count < FEWEST_TO_COMPRESS:
        raise ValueError(f"{kind} needs at least {FEWEST_TO_COMPRESS} images; received {count}.")
    if kind not in _IVF:
        return faiss.IndexIDMap(_without_lists(kind, dim, metric))
    lists = max(1, min(round(4 * count**0.5), count // _POINTS_PER_LIST))
    code = "SQ8" if kind == "ivf_sq8" else f"PQ{_code_bytes(dim)}np"
    index = faiss.index_factory(dim, f"IVF{lists},{code}", metric)
    index.cp.min_points_per_centroid = 1
    if kind == "ivf_sq8":
        index.sq.rangestat_arg = _SPARE_RANGE
    else:
        index.pq.cp.min_points_per_centroid = 1
        index.use_precomputed_table = -1  # a table would exceed the vectors
    return index


def _without_lists(kind, dim, metric):
    """An empty index of a kind that compares with all vectors, or follows a graph."""
    if kind == "hnsw":
        return faiss.IndexHNSWFlat(dim, _LINKS, metric)
    if kind == "exact":
        return _FLAT[metric](dim)  # same type as a file's, so they merge
    if kind == "sq8":
        index = faiss.IndexScalarQuantizer(dim, _CODE, metric)
    else:
        index = faiss.IndexHNSWSQ(dim, _CODE, _LINKS, metric)
    _storage(index).sq.rangestat_arg = _SPARE_RANGE
    return index


def _code_bytes(dim: int) -> int:
    """Bytes per code of `ivf_pq`: the largest divisor of D that is at most D / 4, or 1."""
    return next(m for m in range(max(1, dim // _DIMS_PER_BYTE), 0, -1) if dim % m == 0)


def check_rescore(kind: Kind, rescore: Rescore | None) -> None:
    """Raises `ValueError` unless an index of a kind can be rescored so."""
    accepted = _RESCORES.get(kind, ())
    if rescore is not None and rescore not in accepted:
        rule = f"can be rescored by {' or '.join(accepted)}"
        if not accepted:
            rule = "has the vectors themselves and is not rescored"
        raise ValueError(f"An index of kind {kind} {rule}; received rescore={rescore!r}.")


def _inner(index: faiss.Index) -> faiss.Index:
    """The index that an index with ids keeps; an index with lists is its own."""
    return faiss.downcast_index(index.index) if isinstance(index, faiss.IndexIDMap) else index


def _storage(index: faiss.Index) -> faiss.Index:
    """The flat index of the vectors or codes, in the order of their ids; not of one with lists."""
    index = _inner(index)
    return faiss.downcast_index(index.storage) if isinstance(index, faiss.IndexHNSW) else index


def _read_index(path: Path, kind: Kind, metric: int, mapped: bool) -> faiss.Index:
    """Reads a faiss index made by `new_index`; its vectors stay in the file if `mapped`."""
    mapping = faiss.IO_FLAG_MMAP if kind in _IVF else faiss.IO_FLAG_MMAP_IFC
    flags = (mapping if mapped else 0) | faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE
    limit = faiss.get_deserialization_vector_byte_limit()
    # faiss makes room for what a file announces before it reads it.
    faiss.set_deserialization_vector_byte_limit(path.stat().st_size)
    try:
        index = faiss.read_index(str(path), flags)
    except (RuntimeError, MemoryError) as error:
        raise ValueError(f"{path} is not an index of faiss, or damaged: {error}") from error
    finally:
        faiss.set_deserialization_vector_byte_limit(limit)
    if not _is_of_kind(index, kind, mapped):
        raise ValueError(f"{path} is not an index of kind {kind!r}, but another one of faiss.")
    parts = [index, _inner(index)]
    parts.append(faiss.downcast_index(index.quantizer) if kind in _IVF else _storage(index))
    if {part.metric_type for part in parts} != {metric}:
        raise ValueError(f"{path} is damaged: its metric is not that in index.json.")
    if kind in _GRAPHS and not _is_entered(_inner(index).hnsw):
        raise ValueError(f"{path} is damaged: its graph does not fit its vectors.")
    return index


def _is_entered(graph):
    """Whether a graph is entered at its top level; faiss checks its links when it reads them."""
    entry = graph.entry_point
    return graph.levels.at(entry) > graph.max_level if entry >= 0 else not graph.levels.size()


def _is_of_kind(index, kind, mapped):
    """Whether `new_index` makes such an index; a faiss file may point to another for vectors."""
    if kind not in _IVF:
        if type(index) is not faiss.IndexIDMap:
            return False
        kept, found = _inner(index), _storage(index)
        of_kind = type(kept) is _GRAPHS.get(kind, type(found))
        flat = faiss.IndexFlat if kind in KEEP_VECTORS else faiss.IndexScalarQuantizer
        if not (of_kind and isinstance(found, flat) and kept.d == index.d):
            return False
        return kind in KEEP_VECTORS or found.sq.qtype == _CODE
    if type(index) is not _IVF[kind]:
        return False
    lists = faiss.downcast_InvertedLists(index.invlists)
    if mapped:  # lists in another file have its name; lists that stay in this file have none
        is_own = type(lists) is faiss.OnDiskInvertedLists and not lists.filename
    else:
        is_own = type(lists) is faiss.ArrayInvertedLists
    return is_own and isinstance(faiss.downcast_index(index.quantizer), faiss.IndexFlat)


def _row_ids(index: faiss.IndexIDMap) -> np.ndarray:
    """The ids of the rows of an index, int64 `(N,)`, in its memory and until it changes."""
    if not index.ntotal:
        return np.empty(0, np.int64)
    return faiss.rev_swig_ptr(index.id_map.data(), index.ntotal)


def find_rows(ids: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of ids among ascending known ones, and for each whether it is one of them."""
    rows = np.searchsorted(known, ids)
    is_known = rows < len(known)
    is_known[is_known] = known[rows[is_known]] == ids[is_known]
    return rows, is_known


_CANDIDATES_PER_NEIGHBOUR = 10
_FEWEST_CANDIDATES = 100
_FEWEST_STEPS, _MOST_STEPS = 16, 1024
_FLOATS = 2**22  # held at once while rescoring
_ROWS = 8192


class VectorIndex:
    """An index of faiss in memory or in a file, with codes that rescore what it finds.

    Without codes, the scores are those of the index. With them, a search takes ten candidates for
    each neighbour, 100 at least, from the index and orders them by the codes: a byte for each
    dimension, or the vectors themselves.
    """

    def __init__(self, kind: Kind, index: faiss.Index, codes: "VectorIndex | None" = None):
        self.kind, self.index, self.codes = kind, index, codes

    @classmethod
    def new(
        cls, kind: Kind, dim: int, count: int, metric: int, rescore: Rescore | None = None
    ) -> "VectorIndex":
        """An empty index of D = `dim` for `count` vectors; raises `ValueError` if it cannot be."""
        index = _new_index(kind, dim, count, metric)
        check_rescore(kind, rescore)
        return cls(kind, index, rescore and cls.new(CODES[rescore], dim, count, metric))

    @classmethod
    def read(
        cls,
        kind: Kind,
        path: Path,
        metric: int,
        mapped: bool,
        rescore: Rescore | None = None,
        codes: Path | None = None,
        codes_mapped: bool = True,
    ) -> "VectorIndex":
        """Reads the files of an index; vectors, or codes, stay there if mapped."""
        index, read = _read_index(path, kind, metric, mapped), None
        if codes is not None:
            read = cls.read(CODES[rescore], codes, metric, codes_mapped)
            if (len(read), read.dim) != (index.ntotal, index.d):
                raise ValueError(f"{codes} is damaged: it has not the vectors of {path}.")
        vectors = cls(kind, index, read)
        if vectors.effort is not None and not 1 <= vectors.effort <= vectors.efforts()[-1]:
            raise ValueError(
                f"{path} is damaged: a search takes {vectors.effort} lists or steps; expected 1 to "
                f"{vectors.efforts()[-1]}."
            )
        return vectors

    def __len__(self) -> int:
        return self.index.ntotal

    @property
    def dim(self) -> int:
        """Dimension D of the vectors."""
        return self.index.d

    @property
    def metric(self) -> int:
        """The metric of faiss."""
        return self.index.metric_type

    @property
    def ids(self) -> np.ndarray:
        """The ids, int64 `(N,)`, ascending."""
        if isinstance(self.index, faiss.IndexIDMap):
            return np.sort(_row_ids(self.index))
        lists = self.index.invlists
        sizes = [(number, lists.list_size(number)) for number in range(self.index.nlist)]
        ids = [faiss.rev_swig_ptr(lists.get_ids(number), size) for number, size in sizes if size]
        return np.sort(np.concatenate([np.empty(0, np.int64), *ids]))

    def train(self, vectors: np.ndarray) -> None:
        """Trains centres and codes on float32 vectors `(n, D)`, where the kind has any."""
        self.index.train(vectors)
        if self.codes is not None:
            self.codes.train(vectors)

    def add(self, ids: np.ndarray, vectors: np.ndarray) -> None:
        """Adds float32 vectors `(n, D)` with ascending ids `(n,)`, larger than those it has."""
        self.index.add_with_ids(vectors, ids)
        if self.codes is not None:
            self.codes.add(ids, vectors)

    @property
    def effort(self) -> int | None:
        """How far a search looks: lists, or steps in a graph; `None` if it looks at all vectors."""
        index = _inner(self.index)
        if isinstance(index, faiss.IndexHNSW):
            return index.hnsw.efSearch
        return index.nprobe if isinstance(index, faiss.IndexIVF) else None

    @effort.setter
    def effort(self, effort: int) -> None:
        index = _inner(self.index)
        if isinstance(index, faiss.IndexHNSW):
            index.hnsw.efSearch = effort
        else:
            index.nprobe = effort

    def efforts(self) -> list[int]:
        """The values of `effort` to choose from, ascending; empty if it looks at all vectors."""
        index = _inner(self.index)
        if isinstance(index, faiss.IndexHNSW):
            smallest, largest = _FEWEST_STEPS, _MOST_STEPS
        elif isinstance(index, faiss.IndexIVF):
            smallest, largest = 1, index.nlist
        else:
            return []
        found = []
        while smallest < largest:
            found.append(smallest)
            smallest *= 2
        return [*found, largest]

    def search(
        self,
        queries: np.ndarray,
        k: int,
        selector: faiss.IDSelector | None = None,
        everything: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores and ids `(Q, k)` of the vectors nearest to queries `(Q, D)`; id -1 if missing.

        With `everything`, all vectors that the selector leaves are compared, whatever the kind.
        """
        threads = faiss.omp_get_max_threads()
        # faiss divides queries among threads, and waits for those that have none.
        faiss.omp_set_num_threads(min(len(queries), threads))
        try:
            return self._nearest(queries, k, selector, everything)
        finally:
            faiss.omp_set_num_threads(threads)

    def _nearest(self, queries, k, selector, everything):
        """As `search`, with the threads of faiss as they are."""
        if self.codes is None:
            found = self._found(queries, k, selector, everything)
            return self._corrected(queries, *found) if self.kind == "hnsw" else found
        depth = min(len(self), max(_CANDIDATES_PER_NEIGHBOUR * k, _FEWEST_CANDIDATES))
        rows = max(1, _FLOATS // (max(depth, 1) * self.dim))
        parts = []
        for start in range(0, len(queries), rows):
            some = queries[start : start + rows]
            _, ids = self._found(some, max(depth, k), selector, everything)
            found = self._rescored(some, ids, k)
            if self.codes.kind in KEEP_VECTORS:
                found = self.codes._corrected(some, *found)
            parts.append(found)
        return tuple(map(np.concatenate, zip(*parts, strict=True)))

    def _corrected(self, queries, scores, ids):
        """Scores and ids found for queries, with those of near vectors exact."""
        if self.metric == faiss.METRIC_L2:  # a sum of squared differences, which do not cancel
            return scores, ids

        def vectors_of(ids):
            rows, _ = find_rows(ids, _row_ids(self.index))
            return _storage(self.index).reconstruct_batch(rows)

        return corrected_scores(queries, scores, ids, vectors_of, self.metric)

    def _found(self, queries, k, selector, everything):
        """Scores and ids by the index alone."""
        index, kept = self.index, _inner(self.index)
        everything |= self.kind == "exact"
        if selector is None and not everything:
            return index.search(queries, k)
        if isinstance(kept, faiss.IndexIVF):
            lists = kept.nlist if everything else kept.nprobe
            return kept.search(
                queries, k, params=faiss.SearchParametersIVF(sel=selector, nprobe=lists)
            )
        if isinstance(kept, faiss.IndexHNSW) and not everything:
            steps = faiss.SearchParametersHNSW(sel=selector, efSearch=kept.hnsw.efSearch)
            return index.search(queries, k, params=steps)
        of_rows = None if selector is None else faiss.IDSelectorTranslated(index.id_map, selector)
        if self.kind in KEEP_VECTORS:
            scores, rows = flat_search(_storage(index), queries, k, of_rows)
        else:
            parameters = faiss.SearchParameters(sel=of_rows)
            scores, rows = _storage(index).search(queries, k, params=parameters)
        return scores, np.where(rows < 0, -1, _row_ids(index)[rows])

    def _rescored(self, queries, ids, k):
        """The best of the ids found for queries, by the codes."""
        codes = self.codes.index
        rows, is_known = find_rows(ids, _row_ids(codes))
        if not is_known[ids >= 0].all():
            raise ValueError("The codes of an index that rescore are not those of its vectors.")
        vectors = _storage(codes).reconstruct_batch(rows.ravel())
        vectors = vectors.reshape(*rows.shape, self.dim)
        if self.metric == faiss.METRIC_L2:
            vectors -= queries[:, None]
            scores = np.einsum("qcd,qcd->qc", vectors, vectors)
        else:
            scores = -np.einsum("qcd,qd->qc", vectors, queries)
        scores[ids < 0] = np.inf
        order = np.argsort(scores, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(scores, order, axis=1)
        sign = 1 if self.metric == faiss.METRIC_L2 else -1
        return sign * scores, np.take_along_axis(ids, order, axis=1)

    def vectors(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields ids `(n,)` and vectors float32 `(n, D)`, of an index or codes that keep them."""
        index = self.index if self.kind in KEEP_VECTORS else self.codes.index
        ids, kept = _row_ids(index), _storage(index)
        for start in range(0, len(ids), _ROWS):
            found = ids[start : start + _ROWS].copy()
            yield found, kept.reconstruct_n(start, len(found))

    def emptied(self) -> "VectorIndex":
        """An empty index with the training of this one, which was read with its vectors on disk."""
        codes, index = None if self.codes is None else self.codes.emptied(), self.index
        if self.kind in _IVF:
            lists = faiss.ArrayInvertedLists(index.nlist, index.code_size)
            lists.this.disown()
            index.replace_invlists(lists, True)
            index.ntotal = 0
            return VectorIndex(self.kind, index, codes)
        old, new = _inner(index), _without_lists(self.kind, index.d, index.metric_type)
        if self.kind in _GRAPHS:
            new.hnsw.efSearch = old.hnsw.efSearch
        if self.kind not in KEEP_VECTORS:
            trained = faiss.vector_to_array(_storage(old).sq.trained)
            faiss.copy_array_to_vector(trained, _storage(new).sq.trained)
            _storage(new).is_trained = new.is_trained = True
        return VectorIndex(self.kind, faiss.IndexIDMap(new), codes)

    def without(self, ids: np.ndarray) -> "VectorIndex":
        """The index without some ids; this one may change. A graph is made again."""
        codes = None if self.codes is None else self.codes.without(ids)
        if self.kind not in _GRAPHS:
            self.index.remove_ids(ids)
            return VectorIndex(self.kind, self.index, codes)
        there = self.ids
        rows = np.flatnonzero(~np.isin(there, ids))
        kept = VectorIndex(self.kind, self.index).emptied().index
        if len(rows):
            kept.add_with_ids(_storage(self.index).reconstruct_batch(rows), there[rows])
        return VectorIndex(self.kind, kept, codes)

    def merged(self, other: "VectorIndex") -> "VectorIndex":
        """This index, with the vectors of another with larger ids; both may change."""
        if self.kind not in _GRAPHS:
            self.index.merge_from(other.index, 0)
        elif len(other):
            vectors = _storage(other.index).reconstruct_n(0, len(other))
            self.index.add_with_ids(vectors, other.ids)
        if self.codes is not None:
            self.codes.merged(other.codes)
        return self


NEIGHBOURS = 10
_SHARE_OF_BEST = 0.99


@dataclass(frozen=True)
class Recall:
    """Recall of an index, measured with some queries when it was built."""

    share: float
    neighbours: int
    queries: int
    images: int

    def __str__(self) -> str:
        if not self.queries:
            return "it finds all nearest"
        return (
            f"it found {100 * self.share:.1f} % of the {self.neighbours} nearest of "
            f"{self.queries} queries among {self.images:,} images"
        )


def exact_neighbours(
    blocks: Iterable[tuple[np.ndarray, np.ndarray]],
    queries: np.ndarray,
    excluded: np.ndarray,
    k: int,
    metric: int,
) -> np.ndarray:
    """Ids `(Q, k)` of the nearest in blocks of ids and vectors; each query leaves one id out."""
    heap = faiss.ResultHeap(len(queries), k + 1, keep_max=metric == faiss.METRIC_INNER_PRODUCT)
    for ids, vectors in blocks:
        index = _FLAT[metric](vectors.shape[1])
        index.add(vectors)
        scores, rows = flat_search(index, queries, min(k + 1, len(ids)))
        heap.add_result(scores, ids[rows])
    heap.finalize()
    return heap.I[all_but(heap.I, excluded)].reshape(len(queries), k)


def choose_effort(
    vectors: VectorIndex, queries: np.ndarray, excluded: np.ndarray, truth: np.ndarray
) -> float:
    """Sets the `effort` of an index, and measures its recall of the ids of `exact_neighbours`.

    It is the smallest power of two with 99 % of the recall of the largest effort: all lists or
    1,024 steps.
    """

    def reached(effort):
        vectors.effort = effort
        return _recall(vectors, queries, excluded, truth)

    efforts = vectors.efforts()
    if not efforts:
        return _recall(vectors, queries, excluded, truth)
    enough = _SHARE_OF_BEST * reached(efforts[-1])
    # The index keeps the effort at which this ends.
    return next(share for share in map(reached, efforts) if share >= enough)


def _recall(vectors, queries, excluded, truth):
    k = truth.shape[1]
    _, found = vectors.search(queries, k + 1)
    return recall_of(found[all_but(found, excluded)].reshape(len(queries), k), truth)


def recall_of(found: np.ndarray, truth: np.ndarray) -> float:
    """The share of true ids `(Q, k)` that are among the ids found `(Q, K)`."""
    return float((truth[:, :, None] == found[:, None, :]).any(axis=2).mean())
