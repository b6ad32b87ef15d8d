"""A nearest-neighbour index of images, or of prefixes of their embeddings, and search in it."""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import faiss
import numpy as np
import pyarrow as pa

from gsp_tf._arguments import integers
from gsp_tf._console import listed
from gsp_tf._metadata import check_same_model
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import SearchSpace, TokenSets, checked_embeddings, truncated
from gsp_tf.search.index._folder import IndexFolder, Segment, Space, joined_items, read_sets
from gsp_tf.search.index._vector_index import (
    KEEP_VECTORS,
    NEIGHBOURS,
    Recall,
    VectorIndex,
    find_rows,
)
from gsp_tf.search.index._where import rows_where

if TYPE_CHECKING:
    from gsp_tf.search.embedder import RunModel


_BITS_PER_IMAGE = 1024


class Index:
    """A nearest-neighbour index of images, stored in a folder.

    Every image keeps its id, which is not reused after the image is deleted. `change_index`
    adds and removes images.

    Args:
        path: Folder written by `build_index`.
        mapped: Whether to leave the vectors on disk and read only those that a search needs; `None`
            does so if they exceed the available memory. The checksum of a file on disk is compared
            too, unless it is larger than the available memory; a warning then says so.

    Attributes:
        metadata: The contents of `index.json`.
        mapped: Whether the vectors are on disk.

    Example:
        >>> Index("no/such/index")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/index is not an index: it has no index.json. ...
    """

    def __init__(self, path: PathLike, mapped: bool | None = None):
        self._folder = IndexFolder(path)
        self.path = self._folder.path
        metadata, segments, self.mapped = self._folder.open(mapped)
        self._take(metadata, segments)

    def _take(self, metadata, segments):
        self.metadata, self._segments = metadata, segments
        self._space = metadata.search_space()
        self._items = joined_items([segment.items for segment in segments])
        self._ids = self._items["id"].to_numpy()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def ids(self) -> np.ndarray:
        """The ids of the images, int64 `(N,)`, ascending."""
        return self._ids

    @property
    def distance_name(self) -> str:
        """The name of the distances, such as "approximate Euclidean distance"."""
        metric = {"euclidean": "Euclidean", "cosine": "cosine"}[self.metadata.metric]
        return f"{'' if self.keeps_vectors else 'approximate '}{metric} distance"

    @property
    def keeps_vectors(self) -> bool:
        """Whether the index has the vectors themselves, so that its distances are exact."""
        return self.metadata.kind in KEEP_VECTORS or self.metadata.rescore == "vectors"

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """Names and types of the columns that a condition may name."""
        return {field.name: field.type for field in self._items.schema}

    def search(
        self,
        embeddings: np.ndarray,
        k: int,
        excluded: Sequence[int] = (),
        where: str | Sequence[int] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Finds the k nearest images of each embedding, nearest first.

        With a condition, every image that meets it is compared with the query, whatever the kind of
        the index. So the k nearest of them are found, up to what codes change.

        Args:
            embeddings: Float array-like `(Q, D)`. An index of prefixes takes whole embeddings and
                cuts them.
            k: Number of images, at most the size of the index without the excluded ones, and the
                number of images that meet the condition.
            excluded: Ids of images that are not found, such as those of the same camera.
            where: Condition on the columns of the images, as for `matching`, or the ids that it
                gave, for several searches with one condition.

        Returns:
            ids `(Q, k)` int64 and distances `(Q, k)` float32, equal ones by id; the distances of a
            compressed index are approximate unless it is rescored by vectors.
        """
        queries = self.cut(checked_embeddings(embeddings, "embeddings"))
        selector, left_out = self._selected(excluded, where)
        self.check_k(k, left_out)
        vectors = self._space.vectors(queries)
        scores, ids = self._nearest(vectors, k, selector, where is not None)
        if ids.min() < 0:  # what was searched holds fewer than k vectors
            short = (ids < 0).any(axis=1)
            scores[short], ids[short] = self._nearest(vectors[short], k, selector, True)
            if (ids < 0).any():
                raise ValueError("The embeddings lie too far from the index for float32 distances.")
        if self.mapped:  # the ids of lists on disk were not compared when the index was opened
            self._rows(ids)
        return ids, self._space.distances(scores)

    def _selected(self, excluded, where):
        """What selects the ids to search, `None` for all, and how many it leaves out."""
        if where is None and not np.size(excluded):
            return None, 0
        excluded = np.unique(integers(excluded, "excluded"))
        self._rows(excluded)
        if where is None:
            return faiss.IDSelectorNot(faiss.IDSelectorBatch(excluded)), len(excluded)
        where = self.matching(where) if isinstance(where, str) else integers(where, "where")
        self._rows(where)
        kept = np.setdiff1d(where, excluded)
        return _selector(kept, len(self)), len(self) - len(kept)

    def matching(self, where: str) -> np.ndarray:
        """The ids of the images that meet a condition on `columns`, int64 `(n,)`, ascending.

        Raises:
            ValueError: If it cannot be read, or names a column that the index does not have.
        """
        return self._ids[np.asarray(rows_where(self._items, where))]

    def cut(self, queries: np.ndarray) -> np.ndarray:
        """Queries of the dimension of the index, cut from whole embeddings if it has prefixes."""
        dim, whole = self.metadata.dim, self.metadata.embedding_dim
        if whole is not None and queries.shape[1] in (dim, whole):
            return truncated(queries, dim)
        if queries.shape[1] != dim:
            raise ValueError(
                f"The index {self.path} is of dimension {dim}; received embeddings of dimension "
                f"{queries.shape[1]}."
            )
        return queries

    def _nearest(self, vectors, k, selector, everything):
        """Scores and ids of the nearest vectors in all segments; id -1 marks a missing one."""
        parts = [segment.vectors for segment in self._segments if len(segment.items)]
        found = [part.search(vectors, k, selector, everything) for part in parts]
        if len(found) == 1 and (found[0][0][:, 1:] != found[0][0][:, :-1]).all():
            return found[0]  # no two are equally near
        scores, ids = (np.concatenate(of, axis=1) for of in zip(*found, strict=True))
        keep_max = self._space.faiss_metric == faiss.METRIC_INNER_PRODUCT
        order = np.lexsort((ids, -scores if keep_max else scores))[:, :k]
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(ids, order, axis=1)

    def embeddings(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields ids `(n,)` and embeddings float32 `(n, D)`; those of a cosine index have length 1.

        Raises:
            ValueError: If the index is compressed, and not rescored by vectors.
        """
        if not self.keeps_vectors:
            raise ValueError(
                f"The index {self.path} is compressed ({self.metadata.kind}) and does not hold its "
                "embeddings. Take those that it was made of, or build it of them with --rescore "
                "vectors."
            )
        for segment in self._segments:
            for ids, vectors in segment.vectors.vectors():
                yield ids, self._space.embeddings(vectors)

    def check_model(self, model: "RunModel") -> None:
        """Raises `ValueError` if the index was made with another model or preprocessing."""
        both = f"{model.folder.path} and the index {self.path}"
        check_same_model(model.info, self.metadata.model, both)

    def check_k(self, k: int, excluded: int = 0) -> None:
        """Raises `ValueError` unless k is from 1 to the number of images without excluded ones."""
        if not len(self):
            raise ValueError(f"The index {self.path} is empty.")
        available, less = len(self) - excluded, f" without {excluded} excluded" if excluded else ""
        if not available:
            raise ValueError(f"Conditions and exclusions leave no image in {self.path}.")
        if not 1 <= operator.index(k) <= available:
            raise ValueError(
                f"k must be between 1 and {available}, the images in {self.path}{less}; received "
                f"{k}."
            )

    def items(self, ids: Sequence[int]) -> pa.Table:
        """The rows of the images with these ids: id, path, label and metadata."""
        return self._items.take(pa.array(self._rows(ids)))

    def column(self, name: str, ids: Sequence[int]) -> pa.ChunkedArray:
        """The values of one of the `columns` for the images with these ids."""
        if name not in self.columns:
            there = listed(list(self.columns))
            raise ValueError(f"The index {self.path} has no column {name}; it has {there}.")
        return self._items[name].take(pa.array(self._rows(ids)))

    def paths(self, ids: Sequence[int]) -> list[str]:
        """The paths of the images with these ids."""
        return self.column("path", ids).to_pylist()

    def labels(self, ids: Sequence[int]) -> list[str | None]:
        """The labels of the images with these ids, `None` where unknown."""
        return self.column("label", ids).to_pylist()

    @property
    def has_tokens(self) -> bool:
        """Whether the index keeps the local features of its images."""
        return any(segment.tokens is not None for segment in self.metadata.segments)

    def token_sets(self, ids: Sequence[int]) -> TokenSets:
        """The local features of the images with these ids.

        Only their rows are read from the disk.

        Raises:
            ValueError: If the index keeps no local features, or has no such image.
        """
        if not self.has_tokens:
            raise ValueError(
                f"The index {self.path} keeps no local features; embed the images with --tokens "
                "and build an index of them."
            )
        self._rows(ids)
        with_tokens = [segment.tokens for segment in self._segments if segment.tokens is not None]
        tables = (table for tokens in with_tokens for table in tokens())
        return read_sets(tables, integers(ids, "ids"))

    def _rows(self, ids):
        ids = integers(ids, "ids")
        rows, known = find_rows(ids, self._ids)
        if not known.all():
            raise ValueError(f"The index {self.path} has no image of id {listed(ids[~known])}.")
        return rows


def _selector(ids, count):
    """The ids that a search finds, in memory in proportion to them or to the images."""
    size = int(ids.max(initial=0)) + 1
    if size > _BITS_PER_IMAGE * count:  # almost all ids are those of deleted images
        return faiss.IDSelectorBatch(ids)
    is_kept = np.zeros(size, bool)
    is_kept[ids] = True
    return faiss.IDSelectorBitmap(np.packbits(is_kept, bitorder="little"))


class PrefixIndex(Index):
    """The images of an index by prefixes of their embeddings, in memory, to be searched exactly.

    It has no files of its own and cannot be changed. `build_index(..., dim=...)` writes such an
    index.
    """

    def __init__(self, index: Index, dim: int):
        self._folder, self.path, self.mapped = index._folder, index.path, False
        metadata = index.metadata
        index.check_k(1)
        first = truncated(next(index.embeddings())[1][:1], dim)
        space = SearchSpace.around(np.concatenate([first, np.ones_like(first)]), metadata.metric)
        segments, count = [], len(index)
        for segment in index._segments:
            vectors = VectorIndex.new("exact", dim, len(segment.items), space.faiss_metric)
            for ids, kept in segment.vectors.vectors():
                vectors.add(ids, space.vectors(truncated(index._space.embeddings(kept), dim)))
            segments.append(Segment(vectors, segment.items, segment.tokens, segment.stored))
        metadata = replace(
            metadata,
            kind="exact",
            rescore=None,
            dim=dim,
            embedding_dim=metadata.embedding_dim or metadata.dim,
            space=Space.pack(space),
            recall=Recall(1.0, min(NEIGHBOURS, count - 1), 0, count),
        )
        self._take(metadata, segments)

    @classmethod
    def of(cls, index: Index, dim: int) -> Index:
        """The index itself if it has prefixes of this dimension, else those of its embeddings."""
        is_cut = index.metadata.embedding_dim is not None
        return index if is_cut and index.metadata.dim == dim else cls(index, dim)
