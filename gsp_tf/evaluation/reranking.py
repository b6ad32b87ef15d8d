"""Retrieval metrics of several ways to re-rank the same embeddings."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from numpy.typing import ArrayLike

from gsp_tf._console import listed
from gsp_tf.evaluation._positives import Nearest, check_labelled
from gsp_tf.evaluation.exact_search import exact_ranking
from gsp_tf.evaluation.expansion import PCAWhitening, augment_database, expand_queries
from gsp_tf.evaluation.k_reciprocal import KReciprocalSearch
from gsp_tf.evaluation.retrieval import RankingMetrics
from gsp_tf.evaluation.transport_matching import TokenSets, rerank_by_transport
from gsp_tf.evaluation.vectors import checked_embeddings, checked_labels, warn_of_own_images

RERANKINGS = (
    "k_reciprocal",
    "query_expansion",
    "database_augmentation",
    "whitening",
    "transport",
)
"""The names of ways to re-rank that `reranking_metrics` knows."""

_NEIGHBOURS = 10
_K1, _K2 = 20, 6
_DEPTH = 100


class Reranked(NamedTuple):
    """The results of one way to search.

    Attributes:
        metrics: the metrics of each query.
        seconds: time for preparation and search.
        bytes_per_image: what the search keeps of an image.

    Example:
        >>> import numpy as np
        >>> found = RankingMetrics({"map_at_r": np.array([0.5, 0.7])}, np.arange(2))
        >>> print(Reranked(found, seconds=1.5, bytes_per_image=512).metrics.means()["map_at_r"])
        0.6 [0.5, 0.7]
    """

    metrics: RankingMetrics
    seconds: float
    bytes_per_image: int


def reranking_metrics(
    queries: ArrayLike,
    query_labels: ArrayLike,
    references: ArrayLike | None = None,
    reference_labels: ArrayLike | None = None,
    methods: Sequence[str] = RERANKINGS[:-1],
    at: Sequence[int] = (1, 5, 10),
    query_tokens: TokenSets | None = None,
    reference_tokens: TokenSets | None = None,
    query_sources: ArrayLike | None = None,
    reference_sources: ArrayLike | None = None,
    whitening: PCAWhitening | None = None,
) -> dict[str, Reranked]:
    """Ranking metrics of plain search and of ways to re-rank it, with their time and bytes.

    `k_reciprocal` is `KReciprocalSearch`, `query_expansion` is `expand_queries` and
    `database_augmentation` is `augment_database`, with their default arguments, or fewer neighbours
    where there are fewer images. `whitening` is `PCAWhitening` of the searched embeddings, or the
    given one, for the dimensions of its sweep. `transport` is `rerank_by_transport` of the first
    100 results. Labels are used for the metrics alone. All distances are those of embeddings as
    they are for plain search and k_reciprocal, and cosine distances for the others.

    Args:
        queries: floats `(Q, D)`.
        query_labels: integers `(Q,)` or `(Q, 1)`.
        references: floats `(N, D)`; None searches the other queries.
        reference_labels: integers `(N,)` or `(N, 1)`; None if and only if `references` is None.
        methods: names of `RERANKINGS`.
        at: the values of K, as in `ranking_metrics`.
        query_tokens: token sets of the queries, for `transport`.
        reference_tokens: token sets of the references, for `transport` with references.
        query_sources: as in `ranking_metrics`; they are left out of the metrics, not of the
            neighbourhoods that re-ranking looks at.
        reference_sources: as in `ranking_metrics`.
        whitening: such as `LearnedWhitening` of training images; None takes the principal
            components of the searched embeddings.

    Returns:
        `Reranked` for "search" and for the names of the methods, with whitening as `whitening_DIM`,
        or `learned_whitening_DIM` for one that is given.

    Raises:
        ValueError: as `ranking_metrics`, or for an unknown method, or transport without tokens.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(60) % 3
        >>> embeddings = np.eye(3)[labels] + rng.normal(size=(60, 3))
        >>> found = reranking_metrics(embeddings, labels, methods=["k_reciprocal"])
        >>> {name: round(of.metrics.means()["map_at_r"].value, 2) for name, of in found.items()}
        {'search': 0.16, 'k_reciprocal': 0.16}
    """
    unknown = [name for name in methods if name not in RERANKINGS]
    if unknown:
        raise ValueError(
            f"methods must be among {', '.join(RERANKINGS)}; received {listed(unknown)}."
        )
    check_labelled(references, reference_labels)
    images = _Images(queries, references, query_tokens, reference_tokens, whitening)
    query_labels = checked_labels(query_labels, len(images.queries), "query_labels")
    if reference_labels is not None:
        size = len(images.references)
        reference_labels = checked_labels(reference_labels, size, "reference_labels")
    if "transport" in methods:
        images.check_tokens()
    labels = query_labels, reference_labels, at, query_sources, reference_sources
    found = {}
    for method in ("search", *dict.fromkeys(methods)):
        start = time.perf_counter()
        for name, nearest, size in getattr(images, method)():
            metrics = RankingMetrics.of(nearest, *labels)
            found[name] = Reranked(metrics, time.perf_counter() - start, size)
            start = time.perf_counter()
    return found


_Rankings = Iterator[tuple[str, Nearest, int]]


class _Images:
    """Images to search; each method gives names, rankings and bytes of an image."""

    def __init__(self, queries, references, query_tokens, reference_tokens, learned):
        self.queries = checked_embeddings(queries, "queries")
        self.among_themselves = references is None
        self.references = self.queries
        if references is not None:
            self.references = checked_embeddings(references, "references")
            warn_of_own_images(self.queries, self.references)
        self.tokens = query_tokens, query_tokens if references is None else reference_tokens
        self.learned = learned
        self.size = len(self.references) - self.among_themselves
        self.bytes = 4 * self.references.shape[1]

    def check_tokens(self):
        """Refuse missing token sets, or those of other images."""
        sizes = len(self.queries), len(self.references)
        for tokens, size, name in zip(self.tokens, sizes, ("query", "reference"), strict=True):
            received = None if tokens is None else len(tokens.tokens)
            if received != size:
                raise ValueError(
                    f"transport needs {name}_tokens of {size} images; received {received}."
                )

    def _ranked(self, queries, references, metric="cosine"):
        return exact_ranking(queries, references, metric, self.among_themselves)

    def search(self) -> _Rankings:
        """Plain search."""
        yield "search", self._ranked(self.queries, self.references, "euclidean"), self.bytes

    def k_reciprocal(self) -> _Rankings:
        """Distances of reciprocal neighbourhoods."""
        references = None if self.among_themselves else self.references
        k1 = min(_K1, self.size)
        search = KReciprocalSearch(self.queries, references, k1, min(_K2, k1))
        yield "k_reciprocal", search, self.bytes

    def query_expansion(self) -> _Rankings:
        """Queries with their neighbours added."""
        references = None if self.among_themselves else self.references
        expanded = expand_queries(self.queries, references, min(_NEIGHBOURS, self.size))
        yield "query_expansion", self._ranked(expanded, self.references), self.bytes

    def database_augmentation(self) -> _Rankings:
        """References with their neighbours added."""
        count = min(_NEIGHBOURS, len(self.references) - 1)
        augmented = augment_database(self.references, count) if count else self.references
        yield "database_augmentation", self._ranked(self.queries, augmented), self.bytes

    def whitening(self) -> _Rankings:
        """Whitened embeddings, for each dimension of the sweep."""
        name = "whitening" if self.learned is None else "learned_whitening"
        whiten = self.learned or PCAWhitening(self.references)
        for dim in whiten.sweep():
            queries = references = whiten(self.references, dim)
            if not self.among_themselves:
                queries = whiten(self.queries, dim)
            yield f"{name}_{dim}", self._ranked(queries, references), 4 * dim

    def transport(self) -> _Rankings:
        """The first results in the order of the transport between local features."""
        plain = self._ranked(self.queries, self.references, "euclidean")
        queries, references = self.tokens

        def nearest(rows, k):
            found, _ = plain(rows, min(max(k, _DEPTH), self.size))
            indices, costs = rerank_by_transport(found, queries.take(rows), references, _DEPTH)
            return indices[:, :k], costs

        yield "transport", nearest, self.bytes + references.bytes_per_image
