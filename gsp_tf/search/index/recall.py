"""Recall: the share of the true nearest neighbours that an index finds."""

from collections.abc import Iterable
from dataclasses import dataclass

import faiss
import numpy as np

from gsp_tf.evaluation import all_but
from gsp_tf.search.index.vector_index import VectorIndex

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
    """Finds the true nearest neighbours of queries among blocks of vectors.

    Args:
        blocks: Pairs of ids `(n,)` and float32 vectors `(n, D)`.
        queries: float32 `(Q, D)`.
        excluded: Integers `(Q,)`: for each query, the id to leave out.
        k: Number of neighbours.
        metric: A faiss metric.

    Returns:
        ids `(Q, k)`.

    Example:
        >>> blocks = [(np.array([5]), np.float32([[1]])), (np.array([6]), np.float32([[3]]))]
        >>> exact_neighbours(blocks, np.float32([[2.5]]), np.array([6]), 1, faiss.METRIC_L2)
        array([[5]])
    """
    heap = faiss.ResultHeap(len(queries), k + 1, keep_max=metric == faiss.METRIC_INNER_PRODUCT)
    for ids, vectors in blocks:
        scores, rows = faiss.knn(queries, vectors, min(k + 1, len(ids)), metric)
        heap.add_result(scores, ids[rows])
    heap.finalize()
    return heap.I[all_but(heap.I, excluded)].reshape(len(queries), k)


def choose_effort(
    vectors: VectorIndex, queries: np.ndarray, excluded: np.ndarray, truth: np.ndarray
) -> float:
    """Sets how many lists, or steps in its graph, an index searches, and measures its recall.

    The number is the smallest power of two with 99 % of the recall of the largest number: all lists
    or 1,024 steps. With codes to rescore by, the recall is that of the rescored neighbours. An
    index that compares with all vectors has no such number.

    Args:
        vectors: The index; its `effort` is set.
        queries: float32 `(Q, D)`.
        excluded: Integers `(Q,)`: for each query, the id to leave out.
        truth: ids `(Q, k)` from `exact_neighbours`.

    Returns:
        The recall, in [0, 1].

    Example:
        >>> vectors = VectorIndex.new("hnsw", 1, 3, faiss.METRIC_L2)
        >>> vectors.add(np.array([5, 6, 7]), np.float32([[1], [2], [9]]))
        >>> choose_effort(vectors, np.float32([[2]]), np.array([6]), np.array([[5]]))
        1.0
    """

    def reached(effort):
        vectors.effort = effort
        return _recall(vectors, queries, excluded, truth)

    efforts = vectors.efforts()
    if not efforts:
        return _recall(vectors, queries, excluded, truth)
    *efforts, largest = efforts
    best = reached(largest)
    for effort in efforts:
        share = reached(effort)
        if share >= _SHARE_OF_BEST * best:
            return share
    return reached(largest)


def _recall(vectors, queries, excluded, truth):
    k = truth.shape[1]
    _, found = vectors.search(queries, k + 1)
    return recall_of(found[all_but(found, excluded)].reshape(len(queries), k), truth)


def recall_of(found: np.ndarray, truth: np.ndarray) -> float:
    """The share of true ids `(Q, k)` that are among the ids found `(Q, K)`."""
    return float((truth[:, :, None] == found[:, None, :]).any(axis=2).mean())
