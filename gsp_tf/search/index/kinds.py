"""The kinds of faiss indexes."""

from pathlib import Path
from typing import Literal, get_args

import faiss
import numpy as np

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


def new_index(kind: Kind, dim: int, count: int, metric: int) -> faiss.Index:
    """Makes an empty faiss index that takes vectors with ids.

    - `exact` compares the query with every vector.
    - `sq8` does the same with codes of a byte for each dimension.
    - `hnsw` follows the links of a graph, 32 per vector and more for few of them, from neighbour to
      neighbour (Malkov, Yashunin, "Efficient and Robust Approximate Nearest Neighbor Search Using
      Hierarchical Navigable Small World Graphs", 2016). `hnsw_sq8` has the graph with codes.
    - `ivf_sq8` and `ivf_pq` assign the vectors to about 4 √N lists around k-means centres and
      compare the query with the vectors of the nearest lists (Jégou, Douze, Schmid, "Product
      Quantization for Nearest Neighbor Search", 2011). They store the difference between a vector
      and its centre: `ivf_sq8` as a byte for each dimension; `ivf_pq` as a byte for every four
      dimensions, which selects one of their 256 k-means centres.

    Args:
        kind: One of the kinds above.
        dim: Dimension D of the vectors.
        count: Number N of vectors that the index will hold.
        metric: A faiss metric.

    Returns:
        The index; all kinds except exact and hnsw need training.

    Raises:
        ValueError: For an unknown kind, or too few vectors to train a compressed index.

    Example:
        >>> new_index("ivf_sq8", 64, 10_000, faiss.METRIC_L2).nlist
        256
    """
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
    storage(index).sq.rangestat_arg = _SPARE_RANGE
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


def inner(index: faiss.Index) -> faiss.Index:
    """The index that an index with ids keeps; an index with lists is its own."""
    return faiss.downcast_index(index.index) if isinstance(index, faiss.IndexIDMap) else index


def storage(index: faiss.Index) -> faiss.Index:
    """The flat index of the vectors or codes, in the order of their ids; not of one with lists."""
    index = inner(index)
    return faiss.downcast_index(index.storage) if isinstance(index, faiss.IndexHNSW) else index


def read_index(path: Path, kind: Kind, metric: int, mapped: bool) -> faiss.Index:
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
    parts = [index, inner(index)]
    parts.append(faiss.downcast_index(index.quantizer) if kind in _IVF else storage(index))
    if {part.metric_type for part in parts} != {metric}:
        raise ValueError(f"{path} is damaged: its metric is not that in index.json.")
    if kind in _GRAPHS and not _is_graph(inner(index)):
        raise ValueError(f"{path} is damaged: its graph does not fit its vectors.")
    return index


def _is_graph(index):
    """Whether the links of a graph lead to its vectors."""
    graph, count = index.hnsw, index.ntotal
    levels, offsets, links, sizes = map(
        faiss.vector_to_array,
        (graph.levels, graph.offsets, graph.neighbors, graph.cum_nneighbor_per_level),
    )
    if len(levels) != count or len(offsets) != count + 1:
        return False
    if not count:
        return graph.entry_point == -1
    fit = levels.min() >= 1 and levels.max() < len(sizes) and graph.max_level < levels.max()
    fit = fit and 0 <= graph.entry_point < count and levels[graph.entry_point] > graph.max_level
    fit = fit and offsets[0] == 0 and np.array_equal(np.diff(offsets), sizes[levels])
    return bool(fit and offsets[-1] == len(links) and links.min() >= -1 and links.max() < count)


def _is_of_kind(index, kind, mapped):
    """Whether `new_index` makes such an index; a faiss file may point to another for vectors."""
    if kind not in _IVF:
        if type(index) is not faiss.IndexIDMap:
            return False
        kept, found = inner(index), storage(index)
        of_kind = type(kept) is _GRAPHS.get(kind, type(found))
        is_flat = faiss.IndexFlat if kind in KEEP_VECTORS else faiss.IndexScalarQuantizer
        same = (kept.ntotal, kept.d) == (found.ntotal, found.d) == (index.ntotal, index.d)
        if not (of_kind and isinstance(found, is_flat) and same):
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


def emptied(index: faiss.Index, kind: Kind) -> faiss.Index:
    """An empty index with the training of an index that was read with its vectors on disk."""
    if kind in _IVF:
        lists = faiss.ArrayInvertedLists(index.nlist, index.code_size)
        lists.this.disown()
        index.replace_invlists(lists, True)
        index.ntotal = 0
        return index
    old, new = inner(index), _without_lists(kind, index.d, index.metric_type)
    if kind in _GRAPHS:
        new.hnsw.efSearch = old.hnsw.efSearch
    if kind not in KEEP_VECTORS:
        faiss.copy_array_to_vector(
            faiss.vector_to_array(storage(old).sq.trained), storage(new).sq.trained
        )
        storage(new).is_trained = new.is_trained = True
    return faiss.IndexIDMap(new)


def without_ids(index: faiss.Index, kind: Kind, ids: np.ndarray) -> faiss.Index:
    """The index, which may change, without some ids; a graph is made again from what it keeps."""
    if kind not in _GRAPHS:
        index.remove_ids(ids)
        return index
    there = stored_ids(index)
    rows = np.flatnonzero(~np.isin(there, ids))
    kept = emptied(index, kind)
    if len(rows):
        kept.add_with_ids(storage(index).reconstruct_batch(rows), there[rows])
    return kept


def merged(first: faiss.Index, second: faiss.Index, kind: Kind) -> faiss.Index:
    """One index, the first one, with the vectors of both; the ids of the second are larger."""
    if kind in _GRAPHS:
        vectors = storage(second)
        if second.ntotal:
            first.add_with_ids(vectors.reconstruct_n(0, second.ntotal), stored_ids(second))
    else:
        first.merge_from(second, 0)
    return first


def row_ids(index: faiss.IndexIDMap) -> np.ndarray:
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


def stored_ids(index: faiss.Index) -> np.ndarray:
    """The ids of the vectors in an index, int64 `(N,)`, ascending."""
    if isinstance(index, faiss.IndexIDMap):
        return np.sort(row_ids(index))
    lists = index.invlists
    sizes = [(number, lists.list_size(number)) for number in range(index.nlist)]
    ids = [faiss.rev_swig_ptr(lists.get_ids(number), size) for number, size in sizes if size]
    return np.sort(np.concatenate([np.empty(0, np.int64), *ids]))
