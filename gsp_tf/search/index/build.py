"""Building and verifying indexes."""

from pathlib import Path

import numpy as np

from gsp_tf._files import file_sha256
from gsp_tf._integers import checked_seed
from gsp_tf._metadata import versions
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import SearchSpace, truncated
from gsp_tf.search.image_table import ImageTable
from gsp_tf.search.index._blocks import EmbeddedBlocks, opened_source
from gsp_tf.search.index._folder import (
    IndexFolder,
    IndexMetadata,
    Space,
)
from gsp_tf.search.index._segments import Segment, available_memory
from gsp_tf.search.index._tokens import embedded_tables
from gsp_tf.search.index.image_index import Index
from gsp_tf.search.index.kinds import Kind, Rescore, choose_kind
from gsp_tf.search.index.recall import NEIGHBOURS, Recall, choose_effort, exact_neighbours
from gsp_tf.search.index.vector_index import VectorIndex
from gsp_tf.search.vector_sources import VectorSource

NUM_QUERIES = 256
_TRAINING_POINTS = 65_536
_POINTS_PER_LIST = 64


def build_index(
    embeddings: VectorSource | PathLike,
    path: PathLike | None = None,
    kind: Kind | None = None,
    metric: str | None = None,
    seed: int = 0,
    rescore: Rescore | None = None,
    dim: int | None = None,
    table: PathLike | None = None,
) -> Index:
    """Builds an index of embeddings, those of images that were embedded or vectors from anywhere.

    The recall of an index that is not exact is measured with 256 of its images as queries, each
    searching the others: it is the share of their ten exact nearest neighbours that are among the
    ten that the index finds. The same queries determine how many lists to search, or how many steps
    to take in a graph. Embeddings are read once, or twice for an index that is not exact if they
    exceed half of the available memory. Those that `embed_images` did not write are read once more,
    for their largest value, unless the metric is cosine.

    Args:
        embeddings: A `VectorSource`, or a path for `vector_source`: a folder of `embed_images`, a
            Parquet file with the column embedding, a `.npz` or `.npy` file, or another index. The
            further columns of what is at the path are kept for searches with a condition.
        path: Folder to write; `None` means the folder `index` in the run of the model.
        kind: A kind of `new_index`; `None` means exact up to 100,000 images, ivf_sq8 up to
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

    Returns:
        The new index.

    Raises:
        BlockingIOError: If another process is writing the folder.
        FileExistsError: If the folder holds an index or other files.
        FileNotFoundError: If there are no embeddings, or `path` is `None` and the run is missing.
        ValueError: If the embeddings are incomplete, damaged or too few for the kind, the kind
            cannot be rescored so, `dim` exceeds their dimension, the table lacks an image, or
            `path` is `None` and the embeddings name no model.

    Example:
        >>> build_index("no/such/folder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder does not exist.
    """
    source = opened_source(embeddings)
    folder = IndexFolder(_default_path(source) if path is None else path)
    folder.refuse_existing()
    with folder.changing():
        columns = None if table is None else ImageTable(table)
        rng = np.random.default_rng(checked_seed(seed))
        folder.write(*_built(source, kind, metric, rng, rescore, dim, columns))
    return Index(folder.path)


def _built(source, kind, metric, rng, rescore, dim, table):
    """The metadata and the segment of a new index."""
    count = source.count
    kind = choose_kind(count) if kind is None else kind
    space = _space(source, metric or source.metric or "euclidean", dim)
    index = VectorIndex.new(kind, len(space.origin), count, space.faiss_metric, rescore)
    may_keep = kind != "exact" and 4 * count * index.dim < available_memory() // 2
    blocks = EmbeddedBlocks(source, space, keep=may_keep, dim=dim, table=table)
    recall = Recall(1.0, min(NEIGHBOURS, count - 1), 0, count)
    if kind == "exact" or count == 1:
        for ids, vectors in blocks:
            index.add(ids, vectors)
    else:
        recall = _train_and_add(index, blocks, count, rng)
    items = blocks.items()
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
    return metadata, [Segment(index, items, embedded_tables(source.folder, 0))]


def _space(source, metric, dim):
    """The `SearchSpace` around all embeddings."""
    first = next(source.blocks()).embeddings[:1]
    if dim is not None:
        first, largest = truncated(first, dim), 1.0
    elif source.folder is not None:  # no value exceeds the length of the longest
        largest = source.folder.metadata().outcome.lengths[1]
    elif metric == "cosine":
        largest = 1.0
    else:
        largest = max(np.abs(block.embeddings).max() for block in source.blocks())
    return SearchSpace.around(np.concatenate([first, np.full_like(first, largest)]), metric)


def _train_and_add(index, blocks, count, rng):
    """Trains and fills an index that is not exact; returns its recall."""
    trained = training_rows(index, count, rng)
    queried = np.sort(rng.choice(count, min(count, NUM_QUERIES), replace=False))
    sampled = np.union1d(trained, queried)
    sample = blocks.sample(sampled)
    index.train(sample[np.isin(sampled, trained)])
    queries, k = sample[np.isin(sampled, queried)], min(NEIGHBOURS, count - 1)

    def added():
        for ids, vectors in blocks:
            index.add(ids, vectors)
            yield ids, vectors

    truth = exact_neighbours(added(), queries, queried, k, index.metric)
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
    for run in (Path(source.name).absolute().parent, Path(model.run)):
        file = run / "model.keras"
        if file.is_file() and file_sha256(file) == model.sha256:
            return run / "index"
    raise FileNotFoundError(
        f"The run of {source.name}, {model.run}, is not there or has another model; say where to "
        "write the index (--out)."
    )
