"""Embeddings in blocks, for faiss, and the items of their images."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gsp_tf.evaluation import SearchSpace, checked_embeddings, truncated
from gsp_tf.serving.embedding import EmbeddingsFolder
from gsp_tf.serving.embedding._token_columns import TOKEN_COLUMNS
from gsp_tf.serving.embedding.folder import FILE_COLUMNS
from gsp_tf.serving.image_table import ImageTable, plain_columns
from gsp_tf.serving.index._segments import ITEM_COLUMNS, joined_items

_NOT_METADATA = {*ITEM_COLUMNS, *FILE_COLUMNS, *TOKEN_COLUMNS}


class EmbeddedBlocks:
    """Blocks of ids, from `first_id`, and vectors; each pass reads the folder, unless `keep`."""

    def __init__(
        self,
        folder: EmbeddingsFolder,
        space: SearchSpace,
        first_id: int = 0,
        keep: bool = False,
        dim: int | None = None,
        table: ImageTable | None = None,
    ):
        self._folder, self._space, self._first_id = folder, space, first_id
        self._keep, self._kept = keep, None
        self._dim, self._table = dim, table
        self._paths: list[str] = []
        self._items: list[pa.Table] = []

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if self._kept is not None:
            yield from self._kept
            return
        self._paths, self._items, kept = [], [], []
        for shard in self._folder.shards():
            if shard.paths:
                name = f"The embeddings of {self._folder.path}"
                embeddings = checked_embeddings(shard.embeddings, name)
                if self._dim is not None:
                    embeddings = truncated(embeddings, self._dim)
                vectors = self._space.vectors(embeddings)
                first_id = self._first_id + len(self._paths)
                block = np.arange(first_id, first_id + len(vectors)), vectors
                self._paths += shard.paths
                self._items.append(self._items_of(shard, block[0]))
                if self._keep:
                    kept.append(block)
                yield block
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
            raise ValueError(f"{self._folder.path} is damaged: it holds an image twice.")
        return joined_items(self._items)

    def _items_of(self, shard, ids):
        """Ids, paths, labels and metadata of the images of a shard."""
        schema = pa.schema(ITEM_COLUMNS)
        items = pa.table([pa.array(ids), pa.array(shard.paths), shard.labels], schema=schema)
        columns = {n: values for n, values in shard.columns.items() if n not in _NOT_METADATA}
        found = plain_columns(pa.table(columns), self._folder.path)
        metadata = {name: found[name] for name in found.column_names}
        if self._table is not None:
            metadata |= metadata_of(self._table, shard.paths)
        for name, values in metadata.items():
            items = items.append_column(name, values)
        return items


def metadata_of(table: ImageTable, paths: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """The columns of a table for some images; labels are those of the embeddings."""
    rows = table.rows(paths)
    if "id" in rows.column_names:
        raise ValueError(
            f"{table.path} has a column id, which an index has of its own; give it another name."
        )
    return {name: rows[name] for name in rows.column_names if name != "label"}
