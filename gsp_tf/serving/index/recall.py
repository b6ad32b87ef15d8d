"""Recall: the share of the true nearest neighbours that an index finds."""

from collections.abc import Iterable
from dataclasses import dataclass

import faiss
import numpy as np

from gsp_tf.evaluation import all_but

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


def choose_probes(
    index: faiss.Index, queries: np.ndarray, excluded: np.ndarray, truth: np.ndarray
) -> float:
    """Sets how many lists an index searches, and measures its recall.

    The number is the smallest power of two with 99 % of the recall of searching all lists. If no
    power of two below the number of lists suffices, all lists are searched.

    Args:
        index: `faiss.IndexIVF`; its `nprobe` is set.
        queries: float32 `(Q, D)`.
        excluded: Integers `(Q,)`: for each query, the id to leave out.
        truth: ids `(Q, k)` from `exact_neighbours`.

    Returns:
        The recall, in [0, 1].

    Example:
        >>> index = faiss.index_factory(1, "IVF1,Flat")
        >>> index.train(np.float32([[1], [2], [9]]))
        >>> index.add_with_ids(np.float32([[1], [2], [9]]), np.array([5, 6, 7]))
        >>> choose_probes(index, np.float32([[2]]), np.array([6]), np.array([[5]]))
        1.0
    """
    index.nprobe = index.nlist
    best = _recall(index, queries, excluded, truth)
    for exponent in range((index.nlist - 1).bit_length()):
        index.nprobe = 1 << exponent
        reached = _recall(index, queries, excluded, truth)
        if reached >= _SHARE_OF_BEST * best:
            return reached
    index.nprobe = index.nlist
    return best


def _recall(index, queries, excluded, truth):
    k = truth.shape[1]
    _, found = index.search(queries, k + 1)
    found = found[all_but(found, excluded)].reshape(len(queries), k)
    hits = (found[:, :, None] == truth[:, None, :]).any(axis=2)
    return float(hits.mean())
