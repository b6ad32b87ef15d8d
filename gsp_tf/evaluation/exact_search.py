"""Exact nearest-neighbour search."""

import faiss
import numpy as np
from numpy.typing import ArrayLike

from gsp_tf.evaluation._positives import Nearest
from gsp_tf.evaluation._vectors import blocks, checked_count, checked_embeddings
from gsp_tf.evaluation.search_space import Metric, PointSpace, flat_search

_BLOCK_ROWS = 1 << 13


class ExactSearch:
    """Exhaustive nearest-neighbour search among a fixed set of references.

    The cosine distance is 1 - cosine similarity, and that of a zero vector to all but its
    copies is 1.

    Args:
        references: floats `(N, D)`.
        metric: the distance.

    Example:
        >>> search = ExactSearch([[0.0], [1.0], [5.0]])
        >>> indices, distances = search([[4.0]], k=2)
        >>> indices, distances
        (array([[2, 1]]), array([[1., 3.]], dtype=float32))
    """

    def __init__(self, references: ArrayLike, metric: Metric = "euclidean"):
        references = checked_embeddings(references, "references")
        self.metric = metric
        self.size, self.dim = references.shape
        self._space = PointSpace(references, metric)
        self._index = faiss.IndexFlatL2(self._space.vectors(references[:1]).shape[1])
        self._index.codes.resize(self.size * self._index.code_size)
        self._index.codes.resize(0)  # the room stays, so that the blocks are copied only once
        for rows in blocks(self.size, _BLOCK_ROWS):
            self._index.add(self._space.vectors(references[rows]))

    def __call__(
        self, queries: ArrayLike, k: int, exclude: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Finds the k nearest references of each query, nearest first.

        Args:
            queries: floats `(Q, D)`.
            k: number of neighbours, at most the number of references that a query may return.
            exclude: integers `(Q,)`, the one reference that each query must not return. This is the
                query itself if queries and references are the same set.

        Returns:
            indices `(Q, k)` int64 into the references, and distances `(Q, k)` float32.
        """
        queries = checked_embeddings(queries, "queries")
        if queries.shape[1] != self.dim:
            raise ValueError(
                f"queries and references must have the same dimension; "
                f"received {queries.shape[1]} and {self.dim}."
            )
        k = checked_count("k", k, self.size - (exclude is not None))
        found = k + (exclude is not None)
        parts = [
            flat_search(self._index, self._space.vectors(queries[rows]), found)
            for rows in blocks(len(queries), _BLOCK_ROWS)
        ]
        squares, indices = map(np.concatenate, zip(*parts, strict=True))
        if (indices < 0).any():
            raise ValueError("queries lie too far from the references for float32 distances.")
        if exclude is not None:
            kept = all_but(indices, np.asarray(exclude))
            squares, indices = (a[kept].reshape(len(queries), k) for a in (squares, indices))
        return indices, self._space.distances(squares)


def exact_ranking(queries: np.ndarray, references: np.ndarray | None, metric: Metric) -> Nearest:
    """Exact search for rows of queries, among references, or among the other queries."""
    search = ExactSearch(queries if references is None else references, metric)
    return lambda rows, k: search(queries[rows], k, rows if references is None else None)


def nearest_neighbours(
    queries: ArrayLike,
    references: ArrayLike | None = None,
    k: int = 1,
    metric: Metric = "euclidean",
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the k nearest references of each query by exact search.

    Args:
        queries: floats `(Q, D)`.
        references: floats `(N, D)`; None searches the other queries. A query is excluded by its
            index, so a duplicate of it is found.
        k: number of neighbours, at most N, or Q - 1 without references.
        metric: the distance; `"cosine"` is 1 - cosine similarity.

    Returns:
        indices `(Q, k)` int64 into the references, nearest first, and distances `(Q, k)` float32.

    Example:
        >>> indices, distances = nearest_neighbours([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], k=2)
        >>> indices
        array([[2, 1],
               [2, 0],
               [0, 1]])
        >>> distances[0]
        array([1., 5.], dtype=float32)
    """
    if references is None:
        queries = checked_embeddings(queries, "queries")
        return ExactSearch(queries, metric)(queries, k, exclude=np.arange(len(queries)))
    return ExactSearch(references, metric)(queries, k)


def all_but(indices: np.ndarray, excluded: np.ndarray) -> np.ndarray:
    """Mask `(Q, k)` that drops the excluded index of each row, or the last entry without it."""
    drop = indices == excluded[:, None]
    drop[~drop.any(axis=1), -1] = True
    return ~drop
