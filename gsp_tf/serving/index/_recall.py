"""How many of the true nearest neighbours an index finds."""

from collections.abc import Iterable
from dataclasses import dataclass

import faiss
import numpy as np

from gsp_tf.evaluation import all_but

NEIGHBOURS = 10
_SHARE_OF_BEST = 0.99


@dataclass(frozen=True)
class Recall:
    """The share of the true nearest neighbours of some queries that an index found when built."""

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
    """Ids `(Q, k)` of the nearest in blocks of ids `(n,)` and vectors `(n, D)`, but one each."""
    heap = faiss.ResultHeap(len(queries), k + 1, keep_max=metric == faiss.METRIC_INNER_PRODUCT)
    for ids, vectors in blocks:
        scores, rows = faiss.knn(queries, vectors, min(k + 1, len(ids)), metric)
        heap.add_result(scores, ids[rows])
    heap.finalize()
    return heap.I[all_but(heap.I, excluded)].reshape(len(queries), k)


def choose_probes(
    index: faiss.Index, queries: np.ndarray, excluded: np.ndarray, truth: np.ndarray
) -> float:
    """Sets how many lists an index looks into, and gives its recall of `exact_neighbours`.

    It is the least power of two, or all lists, with 99 % of the recall of looking into all.
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
