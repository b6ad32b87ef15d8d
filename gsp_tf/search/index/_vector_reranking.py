"""Ways to re-rank a search by the vectors of its index."""

from collections.abc import Sequence

import numpy as np

from gsp_tf._metadata import check_same_model
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import (
    ExactSearch,
    KReciprocalSearch,
    LearnedWhitening,
    PCAWhitening,
    augment_database,
    checked_embeddings,
    distances_of_pairs,
    expand_queries,
)
from gsp_tf.search.index.image_index import Index
from gsp_tf.search.labelled import labelled_embeddings

METHODS = ("k_reciprocal", "query_expansion", "database_augmentation", "whitening")
_K1, _K2, _NEIGHBOURS = 20, 6, 10


class VectorReranking:
    """Searches the images of an index, or those with some ids, in the order of a method."""

    def __init__(
        self,
        index: Index,
        method: str,
        matching: np.ndarray | None,
        whitening: PathLike | None = None,
    ):
        index.check_k(1)
        if not index.keeps_vectors:
            raise ValueError(
                f"Re-ranking by {method} reads the vectors of the index, and {index.path} "
                f"({index.metadata.kind}) has none; build it with --rescore vectors."
            )
        ids, vectors = map(np.concatenate, zip(*index.embeddings(), strict=True))
        if matching is not None:
            kept = np.isin(ids, matching)
            ids, vectors = ids[kept], vectors[kept]
        self._index, self._space = index, index.metadata.search_space()
        self._ids, self._vectors = ids, vectors
        self._method, searched = method, vectors
        if method == "whitening":
            learned = whitening is not None
            self._whitening = self._learned(whitening) if learned else PCAWhitening(vectors)
            searched = self._whitening(vectors)
        elif method == "database_augmentation" and len(ids) > 1:
            searched = augment_database(vectors, min(_NEIGHBOURS, len(ids) - 1))
        self._search = ExactSearch(searched, "cosine")

    def __call__(self, queries: np.ndarray, k: int, excluded: Sequence[Sequence[int]] | None):
        """Ids, distances of the embeddings and costs, which give the order, of each query."""
        queries = self._as_kept(checked_embeddings(queries, "queries"))
        without = [()] * len(queries) if excluded is None else excluded
        most = max(map(len, without), default=0)
        rows, costs = self._ranked(queries, min(k + most, len(self._ids)))
        found = []
        for query, places, costs_of, ids in zip(queries, rows, costs, without, strict=True):
            kept = np.flatnonzero(~np.isin(self._ids[places], ids))[:k]
            places, costs_of = places[kept], costs_of[kept]
            both = np.concatenate([query[None], self._vectors[places]])
            ends = np.zeros(len(places), int), np.arange(1, 1 + len(places))
            distances = distances_of_pairs(both, *ends, self._space.metric)
            found.append((self._ids[places], distances, costs_of))
        return tuple(zip(*found, strict=True))

    def _as_kept(self, embeddings):
        """Embeddings as the index keeps its vectors: of length 1 for the cosine distance."""
        return self._space.embeddings(self._space.vectors(self._index.cut(embeddings)))

    def _learned(self, source):
        """The whitening learned from labelled embeddings of the model of the index."""
        found = labelled_embeddings(source, most_images=None)
        made_by = self._index.metadata.model
        if None not in (found.model, made_by):
            check_same_model(found.model, made_by, f"{source} and the index {self._index.path}")
        return LearnedWhitening(self._as_kept(found.embeddings), found.labels)

    def _ranked(self, queries, k):
        """Rows of the k first images for each query, and their costs."""
        if self._method == "k_reciprocal":
            k1 = min(_K1, len(self._ids))
            search = KReciprocalSearch(queries, self._vectors, k1, min(_K2, k1))
            return search(np.arange(len(queries)), k)
        if self._method == "query_expansion":
            queries = expand_queries(queries, self._vectors, min(_NEIGHBOURS, len(self._ids)))
        elif self._method == "whitening":
            queries = self._whitening(queries)
        return self._search(queries, k)
