"""A nearest-neighbour index of images that can grow and shrink."""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gsp_tf._console import counted, listed
from gsp_tf._integers import integers
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import TokenSets, checked_embeddings, truncated
from gsp_tf.serving._metadata import check_same_model
from gsp_tf.serving.image_table import ImageTable, located
from gsp_tf.serving.index._blocks import EmbeddedBlocks, opened_source
from gsp_tf.serving.index._folder import IndexFolder
from gsp_tf.serving.index._segments import Segment, joined_items
from gsp_tf.serving.index._tokens import embedded_tables, read_sets
from gsp_tf.serving.index.kinds import KEEP_VECTORS, find_rows
from gsp_tf.serving.index.where import rows_where
from gsp_tf.serving.vector_sources import VectorSource

if TYPE_CHECKING:  # importing it loads TensorFlow
    from gsp_tf.serving.embedding import RunModel

_BITS_PER_IMAGE = 1024


class Index:
    """A nearest-neighbour index of images, stored in a folder.

    Every image keeps its id, which is not reused after the image is deleted. `change` is atomic:
    even after a failure, the folder holds the index from before or after the change. If two
    processes change an index at the same time, one of them is refused.

    Args:
        path: Folder written by `build_index`.
        mapped: Whether to leave the vectors on disk and read only those that a search needs; `None`
            does so if they exceed the available memory. The checksum of a file on disk is compared
            too, unless it is larger than the available memory; a warning then says so.

    Attributes:
        metadata: The contents of `index.json`.
        mapped: Whether the vectors are on disk.

    Raises:
        FileNotFoundError: If the folder is not an index.
        ValueError: If it is damaged.

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
            ids `(Q, k)` int64 and distances `(Q, k)` float32; the distances of a compressed index
            are approximate unless it is rescored by vectors.

        Raises:
            ValueError: If `k` is out of range, the embeddings have another dimension, an excluded
                image or one of `where` is not in the index, or the condition cannot be used.
        """
        queries = self.cut(checked_embeddings(embeddings, "embeddings"))
        excluded = np.unique(integers(excluded, "excluded"))
        self._rows(excluded)
        selector, left_out = None, len(excluded)
        if where is not None:
            where = self.matching(where) if isinstance(where, str) else integers(where, "where")
            self._rows(where)
            kept = np.setdiff1d(where, excluded)
            selector, left_out = _selector(kept, len(self)), len(self) - len(kept)
        elif left_out:
            selector = faiss.IDSelectorNot(faiss.IDSelectorBatch(excluded))
        self.check_k(k, left_out)
        vectors = self._space.vectors(queries)
        scores, ids = self._nearest(vectors, k, selector, where is not None)
        short = (ids < 0).any(axis=1)
        if short.any():  # what was searched holds fewer than k vectors
            scores[short], ids[short] = self._nearest(vectors[short], k, selector, True)
        if (ids < 0).any():
            raise ValueError("The embeddings lie too far from the index for float32 distances.")
        self._rows(ids)
        return ids, self._space.distances(scores)

    def matching(self, where: str) -> np.ndarray:
        """The ids of the images that meet a condition, int64 `(n,)`, ascending.

        Args:
            where: Condition such as `camera != 3 and year > 2020`, on `columns`.

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
        found = [s.vectors.search(vectors, k, selector, everything) for s in self._segments]
        if len(found) == 1:
            return found[0]
        keep_max = self._space.faiss_metric == faiss.METRIC_INNER_PRODUCT
        return faiss.merge_knn_results(*map(np.stack, zip(*found, strict=True)), keep_max)

    def embeddings(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields ids `(n,)` and embeddings float32 `(n, D)`; those of a cosine index have length 1.

        Raises:
            ValueError: If the index is compressed, and not rescored by vectors.
        """
        if not self.keeps_vectors:
            raise ValueError(
                f"The index {self.path} is compressed ({self.metadata.kind}) and does not hold its "
                "embeddings. Take the folder that it was made of."
            )
        for segment in self._segments:
            for ids, vectors in segment.vectors.vectors():
                yield ids, self._space.embeddings(vectors)

    def check_model(self, model: "RunModel") -> None:
        """Raises `ValueError` if the index was made with another model or preprocessing."""
        both = f"{model.folder.path} and the index {self.path}"
        check_same_model(model.info, self.metadata.model, both)

    def check_k(self, k: int, excluded: int = 0) -> None:
        """Raises `ValueError` unless the index has images and `k` is between 1 and their number.

        Args:
            k: Number of images to find.
            excluded: Number of images that are left out.
        """
        if not len(self):
            raise ValueError(f"The index {self.path} is empty.")
        available, less = len(self) - excluded, f" without {excluded} excluded" if excluded else ""
        if not 1 <= operator.index(k) <= available:
            raise ValueError(
                f"k must be between 1 and {available}, the images in {self.path}{less}; received "
                f"{k}."
            )

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

    def change(
        self,
        add: VectorSource | PathLike | None = None,
        delete: Sequence[PathLike] = (),
        replace_known: bool = False,
        table: PathLike | None = None,
    ) -> None:
        """Removes images and adds those of other embeddings, in one step.

        Args:
            add: Embeddings made with the model of this index, as for `build_index`.
            delete: Paths of image files to remove.
            replace_known: Whether added images replace those of the same paths in the index; if
                not, they are refused.
            table: File with metadata of the added images, as for `build_index`.

        Raises:
            BlockingIOError: If another process is changing the index.
            FileNotFoundError: If there are no embeddings.
            ValueError: If the embeddings have another model or preprocessing, an image to add is
                refused, an image to delete is not in the index or is named twice, or another
                process has changed the index since it was opened.
        """
        paths = self._items["path"]
        delete = pa.array([located(path) for path in delete], pa.string())
        missing = delete.filter(pc.invert(pc.is_in(delete, paths)))
        if len(missing):
            raise ValueError(
                f"The index {self.path} does not hold {counted(len(missing), 'image')} to delete: "
                f"{listed(missing.to_pylist())}."
            )
        if len(pc.unique(delete)) < len(delete):
            raise ValueError("An image to delete is named twice.")
        metadata, dropped = self.metadata, np.asarray(pc.is_in(paths, delete))
        with self._folder.changing(metadata):
            new = []
            if add is not None:
                columns = None if table is None else ImageTable(table)
                new = [self._embedded(opened_source(add), columns)]
                metadata = replace(metadata, next_id=metadata.next_id + len(new[0].items))
                known = np.asarray(pc.is_in(paths, new[0].items["path"])) & ~dropped
                if known.any() and not replace_known:
                    names = self._items.filter(pa.array(known))["path"].to_pylist()
                    raise ValueError(
                        f"The index {self.path} holds {counted(len(names), 'image')} of these "
                        f"already; to replace them, use --replace: {listed(names)}."
                    )
                dropped |= known
            kept = [self._without(segment, self._ids[dropped]) for segment in self._segments]
            # The first segment stays even if empty: it holds the training of a compressed index.
            kept = [s for number, s in enumerate(kept) if not number or len(s.items)]
            joined_items([segment.items for segment in kept + new])  # raises if they do not fit
            self._take(*self._folder.write(metadata, self._merged(kept + new)))

    def _embedded(self, source, table):
        """A new segment with the images of a source."""
        metadata, both = self.metadata, f"{source.name} and the index {self.path}"
        check_same_model(source.model, metadata.model, both)
        dims = source.dim, metadata.embedding_dim or metadata.dim
        if dims[0] != dims[1]:
            raise ValueError(f"{both} do not belong together: the dimensions are {dims}.")
        index = self._folder.read(metadata, metadata.segments[0], mapped=True).vectors.emptied()
        dim = None if metadata.embedding_dim is None else metadata.dim
        blocks = EmbeddedBlocks(source, self._space, metadata.next_id, dim=dim, table=table)
        for ids, vectors in blocks:
            index.add(ids, vectors)
        tokens = embedded_tables(source.folder, metadata.next_id)
        if self.has_tokens and tokens is None:
            raise ValueError(
                f"The index {self.path} keeps local features, and {source.name} has none; embed "
                "its images with --tokens."
            )
        return Segment(index, blocks.items(), tokens if self.has_tokens else None)

    def _without(self, segment, ids):
        """The segment without some ids; the same object if it has none of them."""
        has_some = np.isin(segment.items["id"], ids).any()
        return self._own(segment).without(ids) if has_some else segment

    def _merged(self, segments):
        """Merges segments until each has at least twice as many images as the next."""
        while len(segments) > 1 and len(segments[-2].items) < 2 * len(segments[-1].items):
            *segments, first, second = segments
            segments.append(self._own(first).merged(self._own(second)))
        return segments

    def _own(self, segment):
        """The segment in memory, where it may be changed."""
        if segment.stored is None:
            return segment
        read = self._folder.read(self.metadata, segment.stored, False, codes_mapped=False)
        return replace(read, stored=None)

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
