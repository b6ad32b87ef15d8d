"""Embeddings in blocks, for faiss, and the items of their images."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gsp_tf._console import listed
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import SearchSpace, truncated
from gsp_tf.search.image_table import ImageTable, located
from gsp_tf.search.index._folder import IndexFolder
from gsp_tf.search.index._segments import ITEM_COLUMNS, joined_items
from gsp_tf.search.vector_sources import VectorSource, vector_source


def opened_source(embeddings: VectorSource | PathLike) -> VectorSource:
    """A source with its metadata columns; refuses an index of prefixes."""
    if isinstance(embeddings, VectorSource):
        return embeddings
    folder = IndexFolder(embeddings)
    if folder.metadata_path.is_file() and folder.metadata().embedding_dim is not None:
        raise ValueError(
            f"{folder.path} is an index of prefixes; take the embeddings that it was made of."
        )
    return vector_source(embeddings, None)


class EmbeddedBlocks:
    """Blocks of ids, from `first_id`, and vectors; each pass reads the source, unless `keep`."""

    def __init__(
        self,
        source: VectorSource,
        space: SearchSpace,
        first_id: int = 0,
        keep: bool = False,
        dim: int | None = None,
        table: ImageTable | None = None,
    ):
        self._source, self._space, self._first_id = source, space, first_id
        self._keep, self._kept = keep, None
        self._dim, self._table = dim, table
        self._paths: list[str] = []
        self._items: list[pa.Table] = []

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if self._kept is not None:
            yield from self._kept
            return
        self._paths, self._items, kept = [], [], []
        for block in self._source.blocks():
            embeddings = block.embeddings
            if self._dim is not None:
                embeddings = truncated(embeddings, self._dim)
            vectors = self._space.vectors(embeddings)
            first_id = self._first_id + len(self._paths)
            numbered = np.arange(first_id, first_id + len(vectors)), vectors
            paths = [located(name) for name in block.names]
            self._paths += paths
            self._items.append(self._items_of(block, numbered[0], paths))
            if self._keep:
                kept.append(numbered)
            yield numbered
        if self._keep:
            self._kept = kept

    def sample(self, ids: np.ndarray) -> np.ndarray:
        """The vectors of some ids, by ascending id."""
        ids = np.sort(ids)
        return np.concatenate(
            [vectors[np.isin(found, ids, assume_unique=True)] for found, vectors in self]
        )

    def items(self) -> pa.Table:
        """The table of the images; valid after a full pass."""
        if len(set(self._paths)) < len(self._paths):
            names, counts = np.unique(self._paths, return_counts=True)
            raise ValueError(
                f"{self._source.name} holds an image twice: {listed(names[counts > 1], 3)}."
            )
        return joined_items(self._items)

    def _items_of(self, block, ids, paths):
        """Ids, paths, labels and metadata of the images of a block."""
        schema = pa.schema(ITEM_COLUMNS)
        items = pa.table([pa.array(ids), pa.array(paths), block.labels], schema=schema)
        metadata = dict(block.columns)
        _refuse_ours(metadata, self._source.name)
        if self._table is not None:
            metadata |= metadata_of(self._table, paths)
        for name, values in metadata.items():
            items = items.append_column(name, values)
        return items


def metadata_of(table: ImageTable, paths: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """The columns of a table for some images; labels are those of the embeddings."""
    rows = table.rows(paths)
    metadata = {name: rows[name] for name in rows.column_names if name != "label"}
    _refuse_ours(metadata, table.path)
    return metadata


def _refuse_ours(metadata, whose):
    """Raises `ValueError` if metadata has a column that every index has."""
    for name in ITEM_COLUMNS:
        if name in metadata:
            raise ValueError(
                f"{whose} has a column {name}, which an index has of its own; give it another name."
            )
