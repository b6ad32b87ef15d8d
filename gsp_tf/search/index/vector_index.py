"""Vectors with ids that faiss searches, and the codes that rescore what it finds."""

from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np

from gsp_tf.evaluation import corrected_scores
from gsp_tf.search.index.kinds import (
    CODES,
    KEEP_VECTORS,
    Kind,
    Rescore,
    check_rescore,
    emptied,
    find_rows,
    inner,
    merged,
    new_index,
    read_index,
    row_ids,
    storage,
    stored_ids,
    without_ids,
)

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

    Args:
        kind: Kind of the index.
        index: `faiss.Index` of this kind.
        codes: `VectorIndex` of kind `"sq8"` or `"exact"` with the same ids; `None` for no
            rescoring.

    Example:
        >>> vectors = VectorIndex.new("exact", 2, 2, faiss.METRIC_L2)
        >>> vectors.add(np.array([5, 6]), np.float32([[0, 1], [3, 4]]))
        >>> vectors.search(np.float32([[3, 3]]), 1)
        (array([[1.]], dtype=float32), array([[6]]))
    """

    def __init__(self, kind: Kind, index: faiss.Index, codes: "VectorIndex | None" = None):
        self.kind, self.index, self.codes = kind, index, codes

    @classmethod
    def new(
        cls, kind: Kind, dim: int, count: int, metric: int, rescore: Rescore | None = None
    ) -> "VectorIndex":
        """An empty index; the arguments are those of `new_index`, and what to rescore by."""
        index = new_index(kind, dim, count, metric)
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
        index, read = read_index(path, kind, metric, mapped), None
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
        return stored_ids(self.index)

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
        index = inner(self.index)
        if isinstance(index, faiss.IndexHNSW):
            return index.hnsw.efSearch
        return index.nprobe if isinstance(index, faiss.IndexIVF) else None

    @effort.setter
    def effort(self, effort: int) -> None:
        index = inner(self.index)
        if isinstance(index, faiss.IndexHNSW):
            index.hnsw.efSearch = effort
        else:
            index.nprobe = effort

    def efforts(self) -> list[int]:
        """The values of `effort` to choose from, ascending; empty if it looks at all vectors."""
        index = inner(self.index)
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
        """Finds the k nearest vectors of each query.

        Args:
            queries: float32 `(Q, D)`.
            k: Number of vectors.
            selector: The ids to find; `None` finds all.
            everything: Whether to compare with all vectors that the selector leaves, whatever the
                kind of the index.

        Returns:
            scores of faiss and ids `(Q, k)`, best first; id -1 marks a missing one.
        """
        if self.codes is None or not len(self):
            found = self._found(queries, k, selector, everything)
            return self._corrected(queries, *found) if self.kind in KEEP_VECTORS else found
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

        def vectors_of(ids):
            rows, _ = find_rows(ids, row_ids(self.index))
            return storage(self.index).reconstruct_batch(rows)

        return corrected_scores(queries, scores, ids, vectors_of, self.metric)

    def _found(self, queries, k, selector, everything):
        """Scores and ids by the index alone."""
        index, kept = self.index, inner(self.index)
        if isinstance(kept, faiss.IndexIVF):
            lists = kept.nlist if everything else kept.nprobe
            return kept.search(
                queries, k, params=faiss.SearchParametersIVF(sel=selector, nprobe=lists)
            )
        if isinstance(kept, faiss.IndexHNSW) and not everything:
            steps = faiss.SearchParametersHNSW(sel=selector, efSearch=kept.hnsw.efSearch)
            return index.search(queries, k, params=steps)
        if not isinstance(kept, faiss.IndexHNSW):
            return index.search(queries, k, params=faiss.SearchParameters(sel=selector))
        of_rows = None if selector is None else faiss.IDSelectorTranslated(index.id_map, selector)
        parameters = faiss.SearchParameters(sel=of_rows)
        scores, rows = storage(index).search(queries, k, params=parameters)
        return scores, np.where(rows < 0, -1, row_ids(index)[rows])

    def _rescored(self, queries, ids, k):
        """The best of the ids found for queries, by the codes."""
        codes = self.codes.index
        rows, is_known = find_rows(ids, row_ids(codes))
        if not is_known[ids >= 0].all():
            raise ValueError("The codes of an index that rescore are not those of its vectors.")
        vectors = storage(codes).reconstruct_batch(rows.ravel())
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
        ids, kept = row_ids(index), storage(index)
        for start in range(0, len(ids), _ROWS):
            found = ids[start : start + _ROWS].copy()
            yield found, kept.reconstruct_n(start, len(found))

    def emptied(self) -> "VectorIndex":
        """An empty index with the training of this one, which was read with its vectors on disk."""
        codes = None if self.codes is None else self.codes.emptied()
        return VectorIndex(self.kind, emptied(self.index, self.kind), codes)

    def without(self, ids: np.ndarray) -> "VectorIndex":
        """The index without some ids; this one may change."""
        codes = None if self.codes is None else self.codes.without(ids)
        return VectorIndex(self.kind, without_ids(self.index, self.kind, ids), codes)

    def merged(self, other: "VectorIndex") -> "VectorIndex":
        """This index, with the vectors of another with larger ids; both may change."""
        codes = None if self.codes is None else self.codes.merged(other.codes)
        return VectorIndex(self.kind, merged(self.index, other.index, self.kind), codes)
