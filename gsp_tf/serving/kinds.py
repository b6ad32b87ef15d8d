"""The kinds of indexes, and which to take for how many images."""

from typing import Literal, get_args

import faiss

Kind = Literal["exact", "ivf_sq8", "ivf_pq"]

MOST_FOR_EXACT = 100_000
MOST_FOR_SQ8 = 5_000_000
FEWEST_TO_COMPRESS = 256
_TYPES = {
    "exact": faiss.IndexIDMap,
    "ivf_sq8": faiss.IndexIVFScalarQuantizer,
    "ivf_pq": faiss.IndexIVFPQ,
}
_POINTS_PER_LIST = 39
_DIMS_PER_BYTE = 4
_SPARE_RANGE = 0.1  # on each side of the trained values, for images that are added


def choose_kind(count):
    """The kind of index for a number of images, if nobody says one.

    Args:
        count: number of images.

    Returns:
        `"exact"` up to 100,000, `"ivf_sq8"` up to 5,000,000, `"ivf_pq"` above.

    Example:
        >>> choose_kind(100_000), choose_kind(100_001), choose_kind(5_000_001)
        ('exact', 'ivf_sq8', 'ivf_pq')
    """
    if count <= MOST_FOR_EXACT:
        return "exact"
    return "ivf_sq8" if count <= MOST_FOR_SQ8 else "ivf_pq"


def new_index(kind, dim, count, metric):
    """An empty index of faiss that takes vectors with ids.

    `exact` compares the query with every vector. The others put the vectors into about 4 √N lists
    around k-means centres and compare the query with those of the nearest lists (Jégou, Douze,
    Schmid, "Product Quantization for Nearest Neighbor Search", 2011). What is stored of a vector
    is its difference from the centre: `ivf_sq8` a byte for each dimension, `ivf_pq` a byte for
    every four dimensions, which names one of 256 k-means centres of these.

    Args:
        kind: `"exact"`, `"ivf_sq8"` or `"ivf_pq"`.
        dim: D, dimension of the vectors.
        count: N, how many there will be.
        metric: a metric of faiss.

    Returns:
        `faiss.Index`; all but the exact one have to be trained.

    Raises:
        ValueError: for an unknown kind, or too few vectors to train a compressed one.

    Example:
        >>> new_index("ivf_sq8", 64, 10_000, faiss.METRIC_L2).nlist
        256
    """
    if kind not in get_args(Kind):
        raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}; received {kind!r}.")
    if kind == "exact":
        return faiss.index_factory(dim, "IDMap,Flat", metric)
    if count < FEWEST_TO_COMPRESS:
        raise ValueError(f"{kind} needs at least {FEWEST_TO_COMPRESS} images; received {count}.")
    lists = max(1, min(round(4 * count**0.5), count // _POINTS_PER_LIST))
    code = "SQ8" if kind == "ivf_sq8" else f"PQ{code_bytes(dim)}np"
    index = faiss.index_factory(dim, f"IVF{lists},{code}", metric)
    index.cp.min_points_per_centroid = 1
    if kind == "ivf_sq8":
        index.sq.rangestat_arg = _SPARE_RANGE
    else:
        index.pq.cp.min_points_per_centroid = 1
        index.use_precomputed_table = -1  # which takes more memory than the vectors
    return index


def is_of_kind(index, kind, mapped=False):
    """Whether an index that was read is one of `new_index`, and has its vectors to itself.

    A file of faiss may hold an index of any type, and name another file for its vectors.

    Args:
        index: `faiss.Index`.
        kind: `"exact"`, `"ivf_sq8"` or `"ivf_pq"`.
        mapped: whether it was read with its vectors left in its file.

    Returns:
        bool.

    Example:
        >>> index = new_index("exact", 8, 10, faiss.METRIC_L2)
        >>> is_of_kind(index, "exact"), is_of_kind(index, "ivf_pq")
        (True, False)
    """
    if kind not in _TYPES or type(index) is not _TYPES[kind]:
        return False
    if kind == "exact":
        return isinstance(faiss.downcast_index(index.index), faiss.IndexFlat)
    lists = faiss.downcast_InvertedLists(index.invlists)
    if mapped:  # lists in a file have its name, those that faiss leaves where it reads have none
        is_own = type(lists) is faiss.OnDiskInvertedLists and not lists.filename
    else:
        is_own = type(lists) is faiss.ArrayInvertedLists
    return is_own and isinstance(faiss.downcast_index(index.quantizer), faiss.IndexFlat)


def code_bytes(dim):
    """Bytes of a code of `ivf_pq`: the largest divisor of D that is at most D / 4, or 1.

    Example:
        >>> code_bytes(64), code_bytes(512), code_bytes(6)
        (16, 128, 1)
    """
    return next(m for m in range(max(1, dim // _DIMS_PER_BYTE), 0, -1) if dim % m == 0)
