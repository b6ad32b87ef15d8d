"""Embeddings in blocks, for faiss."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from gsp_tf.evaluation import SearchSpace, checked_embeddings
from gsp_tf.serving.embedding import EmbeddingsFolder
from gsp_tf.serving.index._folder import ITEM_COLUMNS


class EmbeddedBlocks:
    """Blocks of ids, from `first_id`, and vectors; each pass reads the folder, unless `keep`."""

    def __init__(
        self, folder: EmbeddingsFolder, space: SearchSpace, first_id: int = 0, keep: bool = False
    ):
        self._folder, self._space, self._first_id = folder, space, first_id
        self._keep, self._kept = keep, None
        self._paths: list[str] = []
        self._labels: list[str | None] = []

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if self._kept is not None:
            yield from self._kept
            return
        self._paths, self._labels, kept = [], [], []
        for shard in self._folder.shards():
            if shard.paths:
                name = f"The embeddings of {self._folder.path}"
                vectors = self._space.vectors(checked_embeddings(shard.embeddings, name))
                first_id = self._first_id + len(self._paths)
                block = np.arange(first_id, first_id + len(vectors)), vectors
                self._paths += shard.paths
                self._labels += shard.labels
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
        ids = range(self._first_id, self._first_id + len(self._paths))
        columns = [pa.array(ids), pa.array(self._paths), self._labels]
        return pa.table(columns, schema=pa.schema(ITEM_COLUMNS))
