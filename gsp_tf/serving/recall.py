"""How many of the true nearest neighbours an index finds."""

import faiss

from gsp_tf.evaluation import all_but

NEIGHBOURS = 10
_SHARE_OF_BEST = 0.99


def exact_neighbours(blocks, queries, excluded, k, metric):
    """The true nearest neighbours of queries among vectors that come in blocks.

    Args:
        blocks: iterable of pairs of ids `(n,)` and float32 vectors `(n, D)`.
        queries: float32 `(Q, D)`.
        excluded: integers `(Q,)`, for each query the id that it must not find.
        k: number of neighbours.
        metric: a metric of faiss.

    Returns:
        ids `(Q, k)`.

    Example:
        >>> import numpy as np
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


def recall(index, queries, excluded, truth):
    """Share of the true nearest neighbours that an index finds.

    Args:
        index: `faiss.Index` with ids.
        queries: float32 `(Q, D)`.
        excluded: integers `(Q,)`, for each query the id that it must not find.
        truth: ids `(Q, k)` of `exact_neighbours`.

    Returns:
        float in [0, 1].

    Example:
        >>> import numpy as np
        >>> index = faiss.index_factory(1, "IDMap,Flat")
        >>> index.add_with_ids(np.float32([[1], [2], [9]]), np.array([5, 6, 7]))
        >>> recall(index, np.float32([[2]]), np.array([6]), np.array([[5]]))
        1.0
    """
    k = truth.shape[1]
    _, found = index.search(queries, k + 1)
    found = found[all_but(found, excluded)].reshape(len(queries), k)
    hits = (found[:, :, None] == truth[:, None, :]).any(axis=2)
    return float(hits.mean())


def choose_probes(index, queries, excluded, truth):
    """Set how many lists an index looks into, and measure its recall.

    It is the least power of two, or all lists, with 99 % of the recall of looking into all.

    Args:
        index: `faiss.IndexIVF`; its `nprobe` is set.
        queries: float32 `(Q, D)`.
        excluded: integers `(Q,)`, for each query the id that it must not find.
        truth: ids `(Q, k)` of `exact_neighbours`.

    Returns:
        float, the recall.
    """
    index.nprobe = index.nlist
    best = recall(index, queries, excluded, truth)
    for exponent in range((index.nlist - 1).bit_length()):
        index.nprobe = 1 << exponent
        reached = recall(index, queries, excluded, truth)
        if reached >= _SHARE_OF_BEST * best:
            return reached
    index.nprobe = index.nlist
    return best


def describe_recall(metadata):
    """What is known of the recall of an index, as a text.

    Args:
        metadata: dict of an `Index`.

    Returns:
        str.

    Example:
        >>> measured = {"share": 0.98, "neighbours": 10, "queries": 256, "images": 9000}
        >>> describe_recall({"kind": "ivf_sq8", "recall": measured})
        'it found 98.0 % of the 10 nearest of 256 queries among 9,000 images'
        >>> describe_recall({"kind": "exact"})
        'it finds all nearest'
    """
    if metadata["kind"] == "exact":
        return "it finds all nearest"
    recall = metadata["recall"]
    return (
        f"it found {100 * recall['share']:.1f} % of the {recall['neighbours']} nearest of "
        f"{recall['queries']} queries among {recall['images']:,} images"
    )
