"""An index of prefixes of the embeddings of another index."""

from dataclasses import replace

import numpy as np

from gsp_tf.evaluation import SearchSpace, truncated
from gsp_tf.search.index._folder import Space
from gsp_tf.search.index._segments import Segment
from gsp_tf.search.index.image_index import Index
from gsp_tf.search.index.recall import NEIGHBOURS, Recall
from gsp_tf.search.index.vector_index import VectorIndex


class PrefixIndex(Index):
    """The images of an index by prefixes of their embeddings, in memory, to be searched exactly.

    It has no files of its own and cannot be changed. `build_index(..., dim=...)` writes such an
    index.

    Args:
        index: Index that keeps the vectors.
        dim: Number of components of the prefixes, which are normalised to length 1.

    Raises:
        ValueError: If the index is compressed, or its embeddings have fewer dimensions.

    Example:
        >>> PrefixIndex(Index("no/such/index"), 64)
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/index is not an index: it has no index.json. ...
    """

    def __init__(self, index: Index, dim: int):
        self._folder, self.path, self.mapped = index._folder, index.path, False
        metadata = index.metadata
        if not index.keeps_vectors:
            raise ValueError(
                f"The index {self.path} is compressed ({metadata.kind}) and has no prefixes of its "
                f"embeddings; build one of them with gsp-tf index --dim {dim}."
            )
        whole = metadata.embedding_dim or metadata.dim
        space, segments = None, []
        for segment in index._segments:
            vectors = None
            for ids, embeddings in segment.vectors.vectors():
                cut = truncated(index._space.embeddings(embeddings), dim)
                if space is None:
                    extent = np.concatenate([cut[:1], np.ones_like(cut[:1])])
                    space = SearchSpace.around(extent, metadata.metric)
                if vectors is None:
                    vectors = VectorIndex.new("exact", dim, len(segment.items), space.faiss_metric)
                vectors.add(ids, space.vectors(cut))
            if vectors is not None:
                segments.append(Segment(vectors, segment.items, segment.tokens, segment.stored))
        if space is None:
            raise ValueError(f"The index {self.path} is empty.")
        count = len(index)
        metadata = replace(
            metadata,
            kind="exact",
            rescore=None,
            dim=dim,
            embedding_dim=whole,
            space=Space.pack(space),
            recall=Recall(1.0, min(NEIGHBOURS, count - 1), 0, count),
        )
        self._take(metadata, segments)

    @classmethod
    def of(cls, index: Index, dim: int) -> Index:
        """The index itself if it has prefixes of this dimension, else those of its embeddings."""
        is_cut = index.metadata.embedding_dim is not None
        return index if is_cut and index.metadata.dim == dim else cls(index, dim)
