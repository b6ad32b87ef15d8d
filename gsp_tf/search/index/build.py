"""Building, changing and verifying indexes."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gsp_tf._arguments import checked_seed
from gsp_tf._console import counted, listed
from gsp_tf._files import file_sha256, several
from gsp_tf._metadata import check_same_model, versions
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import SearchSpace, truncated
from gsp_tf.search._tables import (
    TOKEN_COLUMNS,
    as_text,
    located,
    vectors_of,
    warn_of_columns,
)
from gsp_tf.search.embeddings import Embeddings, metric_of
from gsp_tf.search.index._folder import (
    IndexFolder,
    IndexMetadata,
    Segment,
    Space,
    Tables,
    available_memory,
    joined_items,
)
from gsp_tf.search.index._vector_index import (
    NEIGHBOURS,
    Kind,
    Recall,
    Rescore,
    VectorIndex,
    choose_effort,
    choose_kind,
    exact_neighbours,
)
from gsp_tf.search.index.image_index import Index, PrefixIndex

_OWN = ("path", "label", "embedding", *TOKEN_COLUMNS)


def _opened_source(source: Embeddings | PathLike, table: PathLike | None) -> Embeddings:
    """Embeddings for an index with the columns of a table; warns of columns left out."""
    if not isinstance(source, Embeddings):
        folder = IndexFolder(source)
        if folder.metadata_path.is_file() and folder.metadata().embedding_dim is not None:
            raise ValueError(
                f"{folder.path} is an index of prefixes; take the embeddings that it was made of."
            )
        source = Embeddings.read(source, tokens=None)
    warn_of_columns(source.name, source.others)
    return source if table is None else source.with_columns(table)


_Block = tuple[np.ndarray, np.ndarray, pa.Table]


def _numbered(
    source: Embeddings, space: SearchSpace, first_id: int, dim: int | None
) -> Iterator[_Block]:
    """Blocks of a source, or of its prefixes: ids from `first_id`, vectors and items."""
    for block in source.blocks():
        if "id" in block.column_names:
            raise ValueError(
                f"{source.name}, or its table, has a column id, which an index has of its own; "
                "give it another name."
            )
        embeddings = vectors_of(block)
        if dim is not None:
            embeddings = truncated(embeddings, dim)
        ids = np.arange(first_id, first_id + len(block))
        first_id += len(block)
        paths = [located(name) for name in block["path"].to_pylist()]
        items = block.drop_columns([name for name in _OWN if name in block.column_names])
        items = items.add_column(0, "label", block["label"]).add_column(0, "path", [paths])
        yield ids, space.vectors(embeddings), items.add_column(0, "id", [ids])


def _added(
    vectors: VectorIndex, blocks: Iterable[_Block], items: list[pa.Table]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields ids and vectors of blocks, after adding them to an index and their items to a list."""
    for ids, added, of_block in blocks:
        vectors.add(ids, added)
        items.append(of_block)
        yield ids, added


def _distinct_items(tables: list[pa.Table], name: str) -> pa.Table:
    """Tables of items as one, which must name each image once."""
    items = joined_items(tables)
    if len(pc.unique(items["path"])) < len(items):
        names, counts = np.unique(items["path"], return_counts=True)
        raise ValueError(f"{name} holds an image twice: {listed(names[counts > 1], 3)}.")
    return items


def _embedded_tables(source: Embeddings, first_id: int) -> Tables | None:
    """Tables of embeddings, with ids from `first_id`; `None` if they have no tokens."""
    if not source.has_tokens:
        return None

    def tables():
        start = first_id
        for block in source.blocks():
            ids = pa.array(np.arange(start, start + len(block)))
            yield block.select(TOKEN_COLUMNS).add_column(0, "id", ids)
            start += len(block)

    return tables


NUM_QUERIES = 256
_TRAINING_POINTS = 65_536
_POINTS_PER_LIST = 64


def build_index(
    embeddings: Embeddings | PathLike,
    path: PathLike | None = None,
    kind: Kind | None = None,
    metric: str | None = None,
    seed: int = 0,
    rescore: Rescore | None = None,
    dim: int | None = None,
    table: PathLike | None = None,
) -> Index:
    """Builds an index of embeddings, those of images that were embedded or vectors from anywhere.

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

    The recall of an index that is not exact is measured with 256 of its images as queries, each
    searching the others: it is the share of their ten exact nearest neighbours that are among the
    ten that the index finds. The same queries determine how many lists to search, or how many steps
    to take in a graph. Embeddings are read once, or twice for an index that is not exact if they
    exceed half of the available memory. Those that `embed_images` did not write are read once more,
    for their largest value, unless the metric is cosine.

    Args:
        embeddings: `Embeddings`, or a path for `Embeddings.read`: a folder of `embed_images`, a
            Parquet file with the column embedding, a `.npz` or `.npy` file, or another index. Their
            further columns are kept for searches with a condition.
        path: Folder to write; `None` means the folder `index` in the run of the model.
        kind: One of the kinds above; `None` means exact up to 100,000 images, ivf_sq8 up to
            5,000,000, and ivf_pq above.
        metric: `"euclidean"` or `"cosine"`; `None` means that of the embeddings, `"euclidean"`.
        seed: Seed of the samples that train and measure an index that is not exact.
        rescore: Take more candidates from a compressed index and order them by `"sq8"`, codes of a
            byte for each dimension, or by the `"vectors"` themselves; both stay on disk. `None`
            trusts the order of the index.
        dim: Keep the first components of the embeddings only, normalised to length 1; for a model
            trained with `MatryoshkaLoss`. `None` keeps all.
        table: CSV or Parquet file with the column path and metadata of the images, for searches
            with a condition, beside the columns of the embeddings.

    Raises:
        BlockingIOError: If another process is writing the folder.
        FileExistsError: If the folder holds an index or other files.
        FileNotFoundError: If there are no embeddings, or `path` is `None` and the run is missing.
        ValueError: If the embeddings are damaged or too few, or an argument does not fit them.

    Example:
        >>> build_index("no/such/folder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder does not exist.
    """
    source = _opened_source(embeddings, table)
    folder = IndexFolder(_default_path(source) if path is None else path)
    folder.refuse_existing()
    with folder.changing():
        rng = np.random.default_rng(checked_seed(seed))
        folder.write(*_built(source, kind, metric, rng, rescore, dim))
    return Index(folder.path)


def _built(source, kind, metric, rng, rescore, dim):
    """The metadata and the segment of a new index."""
    count = source.count
    kind = choose_kind(count) if kind is None else kind
    space = _space(source, metric_of(source, metric), dim)
    index = VectorIndex.new(kind, len(space.origin), count, space.faiss_metric, rescore)
    blocks = functools.partial(_numbered, source, space, 0, dim)
    if kind != "exact" and 4 * count * index.dim < available_memory() // 2:
        kept = list(blocks())
        blocks = functools.partial(iter, kept)
    items: list[pa.Table] = []
    if kind == "exact" or count == 1:
        recall = Recall(1.0, min(NEIGHBOURS, count - 1), 0, count)
        for _ in _added(index, blocks(), items):
            pass
    else:
        recall = _train_and_add(index, blocks, items, count, rng)
    metadata = IndexMetadata(
        kind=kind,
        metric=space.metric,
        dim=index.dim,
        next_id=count,
        space=Space.pack(space),
        model=source.model,
        recall=recall,
        versions=versions("numpy", "faiss-cpu", "pyarrow"),
        segments=(),
        rescore=rescore,
        embedding_dim=None if dim is None else source.dim,
    )
    items = _distinct_items(items, source.name)
    return metadata, [Segment(index, items, _embedded_tables(source, 0))]


def _space(source, metric, dim):
    first = vectors_of(next(source.blocks()))[:1]
    if dim is not None:
        first, largest = truncated(first, dim), 1.0
    elif source.largest is not None:
        largest = source.largest
    elif metric == "cosine":
        largest = 1.0
    else:
        largest = max(np.abs(vectors_of(block)).max() for block in source.blocks())
    return SearchSpace.around(np.concatenate([first, np.full_like(first, largest)]), metric)


def _train_and_add(index, blocks, items, count, rng):
    """Trains and fills an index that is not exact; returns its recall."""
    trained = training_rows(index, count, rng)
    queried = np.sort(rng.choice(count, min(count, NUM_QUERIES), replace=False))
    sampled = np.union1d(trained, queried)
    sample = np.concatenate([vectors[np.isin(ids, sampled)] for ids, vectors, _ in blocks()])
    index.train(sample[np.isin(sampled, trained)])
    queries, k = sample[np.isin(sampled, queried)], min(NEIGHBOURS, count - 1)
    added = _added(index, blocks(), items)
    truth = exact_neighbours(added, queries, queried, k, index.metric)
    share = choose_effort(index, queries, queried, truth)
    return Recall(share, k, len(queries), count)


def training_rows(index: VectorIndex, count: int, rng: np.random.Generator) -> np.ndarray:
    """The rows of the vectors, of `count`, that an index is trained on, ascending."""
    lists = getattr(index.index, "nlist", 0)
    points = min(count, max(_TRAINING_POINTS, _POINTS_PER_LIST * lists))
    return np.sort(rng.choice(count, points, replace=False))


def verify_index(path: PathLike) -> IndexMetadata:
    """Checks the files of an index against the checksums in `index.json`, and opens them.

    All files are read in full, including those that stay on disk. A warning names files that a
    change left when it was stopped. Checksums detect damage but are not a signature: whoever can
    change the files can also change the checksums.

    Args:
        path: Folder written by `build_index`.

    Returns:
        The contents of `index.json`.

    Raises:
        FileNotFoundError: If the folder is not an index, or lacks a file.
        ValueError: If it is damaged.

    Example:
        >>> verify_index("no/such/index")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/index is not an index: it has no index.json. ...
    """
    return IndexFolder(path).verify()


def _default_path(source):
    """The folder `index` in the run, which is the parent of the embeddings or named by them."""
    model = source.model
    if model is None:
        raise ValueError(
            f"{source.name} does not say which model made its embeddings, so there is no run for "
            "the index; say where to write it (--out)."
        )
    own = () if source.path is None else (source.path.absolute().parent,)
    for run in (*own, Path(model.run)):
        file = run / "model.keras"
        if file.is_file() and file_sha256(file) == model.sha256:
            return run / "index"
    raise FileNotFoundError(
        f"The run of {source.name}, {model.run}, is not there or has another model; say where to "
        "write the index (--out)."
    )


def change_index(
    index: Index,
    add: Embeddings | PathLike | None = None,
    delete: PathLike | Sequence[PathLike] = (),
    replace_known: bool = False,
    table: PathLike | None = None,
) -> None:
    """Removes images from an index and adds those of other embeddings, in one step.

    The change is atomic: even after a failure, the folder holds the index from before or after it.
    If two processes change an index at the same time, one of them is refused.

    Args:
        index: The index, which has the new images afterwards.
        add: Embeddings made with the model of this index, as for `build_index`.
        delete: Path of an image file to remove, or several.
        replace_known: Whether added images replace those of the same paths in the index; if not,
            they are refused.
        table: File with metadata of the added images, as for `build_index`.

    Raises:
        BlockingIOError: If another process is changing the index.
        FileNotFoundError: If there are no embeddings.
        ValueError: If embeddings or images are refused, or another process has changed the index.

    Example:
        >>> change_index(Index("no/such/index"), delete=["a.png"])
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/index is not an index: it has no index.json. ...
    """
    if isinstance(index, PrefixIndex):
        raise ValueError(f"These are prefixes of the index {index.path}; change the index itself.")
    paths = index._items["path"]
    delete = pa.array([as_text(located(path)) for path in several(delete)], pa.string())
    missing = delete.filter(pc.invert(pc.is_in(delete, paths)))
    if len(missing):
        raise ValueError(
            f"The index {index.path} does not hold {counted(len(missing), 'image')} to delete: "
            f"{listed(missing.to_pylist())}."
        )
    if len(pc.unique(delete)) < len(delete):
        raise ValueError("An image to delete is named twice.")
    metadata, dropped = index.metadata, np.asarray(pc.is_in(paths, delete))
    with index._folder.changing(metadata):
        new = []
        if add is not None:
            new = [_embedded(index, _opened_source(add, table))]
            metadata = replace(metadata, next_id=metadata.next_id + len(new[0].items))
            known = np.asarray(pc.is_in(paths, new[0].items["path"])) & ~dropped
            if known.any() and not replace_known:
                names = index._items.filter(pa.array(known))["path"].to_pylist()
                raise ValueError(
                    f"The index {index.path} holds {counted(len(names), 'image')} of these "
                    f"already; to replace them, use --replace: {listed(names)}."
                )
            dropped |= known
        kept = [_without(index, segment, index.ids[dropped]) for segment in index._segments]
        # The first segment stays even if empty: it holds the training of a compressed index.
        kept = [s for number, s in enumerate(kept) if not number or len(s.items)]
        joined_items([segment.items for segment in kept + new])  # raises if they do not fit
        index._take(*index._folder.write(metadata, _merged(index, kept + new)))


def check_metric(source: Embeddings, index: Index, both: str) -> None:
    """Raises `ValueError` for vectors without their lengths beside Euclidean distances."""
    if source.metric == "cosine" != index.metadata.metric:
        raise ValueError(
            f"{both} do not belong together: embeddings for cosine distances may have lost their "
            "lengths, which Euclidean distances need. Take those that they were made of."
        )


def _embedded(index, source):
    metadata, both = index.metadata, f"{source.name} and the index {index.path}"
    check_same_model(source.model, metadata.model, both)
    check_metric(source, index, both)
    dims = source.dim, metadata.embedding_dim or metadata.dim
    if dims[0] != dims[1]:
        raise ValueError(f"{both} do not belong together: the dimensions are {dims}.")
    vectors = index._folder.read(metadata, metadata.segments[0], mapped=True).vectors.emptied()
    dim = None if metadata.embedding_dim is None else metadata.dim
    items: list[pa.Table] = []
    for _ in _added(vectors, _numbered(source, index._space, metadata.next_id, dim), items):
        pass
    tokens = _embedded_tables(source, metadata.next_id)
    if index.has_tokens and tokens is None:
        raise ValueError(
            f"The index {index.path} keeps local features, and {source.name} has none; embed its "
            "images with --tokens."
        )
    items = _distinct_items(items, source.name)
    return Segment(vectors, items, tokens if index.has_tokens or not len(index) else None)


def _without(index, segment, ids):
    """The segment without some ids; the same object if it has none of them."""
    has_some = np.isin(segment.items["id"], ids).any()
    return _own(index, segment).without(ids) if has_some else segment


def _merged(index, segments):
    """Merges segments until each has at least twice as many images as the next."""
    while len(segments) > 1 and len(segments[-2].items) < 2 * len(segments[-1].items):
        *segments, first, second = segments
        segments.append(_own(index, first).merged(_own(index, second)))
    return segments


def _own(index, segment):
    if segment.stored is None:
        return segment
    read = index._folder.read(index.metadata, segment.stored, False, codes_mapped=False)
    return replace(read, stored=None)
