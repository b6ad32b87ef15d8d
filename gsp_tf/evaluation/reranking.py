"""Retrieval metrics of several ways to re-rank the same embeddings."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, get_args

from numpy.typing import ArrayLike

from gsp_tf._console import listed
from gsp_tf._typing import Reranking
from gsp_tf.evaluation._positives import Nearest
from gsp_tf.evaluation._vectors import checked_embeddings, checked_images
from gsp_tf.evaluation.exact_search import ExactSearch, exact_ranking
from gsp_tf.evaluation.expansion import PCAWhitening, augment_database, expand_queries
from gsp_tf.evaluation.k_reciprocal import KReciprocalSearch
from gsp_tf.evaluation.retrieval import RankingMetrics
from gsp_tf.evaluation.transport_matching import TokenSets, rerank_by_transport

RERANKINGS = get_args(Reranking)
"""The names of ways to re-rank that `reranking_metrics` knows."""

_NEIGHBOURS = 10
_K1, _K2 = 20, 6
_DEPTH = 100


class Reranker:
    """Searches images in the order of a way to re-rank that needs their embeddings alone.

    `"k_reciprocal"` is `KReciprocalSearch`, `"query_expansion"` is `expand_queries` and
    `"database_augmentation"` is `augment_database`, with their default arguments, or fewer
    neighbours where there are fewer images. `"whitening"` is `PCAWhitening`. All but the first
    search by cosine distances.

    Args:
        references: floats `(N, D)`, the images to search.
        method: one of `RERANKINGS` but `"transport"`.
        whitening: for `"whitening"`, such as `LearnedWhitening` of training images; None takes the
            principal components of the references.
        dim: for `"whitening"`, the number of components; None takes all.

    Example:
        >>> search = Reranker([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]], "query_expansion")
        >>> search([[0.0, 2.0]])([0], k=2)[0]
        array([[2, 3]])
    """

    def __init__(
        self,
        references: ArrayLike,
        method: Reranking,
        whitening: PCAWhitening | None = None,
        dim: int | None = None,
    ):
        if method not in RERANKINGS or method == "transport":
            known = [name for name in RERANKINGS if name != "transport"]
            raise ValueError(f"method must be one of {', '.join(known)}; received {method!r}.")
        self._references = searched = checked_embeddings(references, "references")
        self._method, self._dim = method, dim
        count = len(searched)
        if method == "whitening":
            self._whitening = whitening or PCAWhitening(searched)
            searched = self._whitening(searched, dim)
        elif method == "database_augmentation" and count > 1:
            searched = augment_database(searched, min(_NEIGHBOURS, count - 1))
        self._search = None if method == "k_reciprocal" else ExactSearch(searched, "cosine")

    def __call__(self, queries: ArrayLike | None = None) -> Nearest:
        """Prepares a search.

        Args:
            queries: floats `(Q, D)`; None searches the other references for each reference.

        Returns:
            function of rows of the queries `(q,)` and a number k, which returns indices and costs
            `(q, k)`, the smallest costs first.
        """
        others = self._references if queries is not None else None
        queries = self._references if queries is None else checked_embeddings(queries, "queries")
        size = len(self._references) - (others is None)
        if self._search is None:
            k1 = min(_K1, size)
            return KReciprocalSearch(queries, others, k1, min(_K2, k1))
        if self._method == "query_expansion":
            queries = expand_queries(queries, others, min(_NEIGHBOURS, size))
        elif self._method == "whitening":
            queries = self._whitening(queries, self._dim)
        return lambda rows, k: self._search(queries[rows], k, rows if others is None else None)


class Reranked(NamedTuple):
    """The results of one way to search."""

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

    `transport` is `rerank_by_transport` of the first 100 results; the others are those of
    `Reranker`, with `whitening` for the dimensions of its sweep. Labels are used for the metrics
    alone. Plain search is by Euclidean distances.

    Args:
        queries, query_labels, references, reference_labels, at: as in `ranking_metrics`.
        methods: names of `RERANKINGS`.
        query_tokens: token sets of the queries, for `transport`.
        reference_tokens: token sets of the references, for `transport` with references.
        query_sources, reference_sources: as in `ranking_metrics`; they are left out of the metrics,
            not of the neighbourhoods that re-ranking looks at.
        whitening: such as `LearnedWhitening` of training images; None takes the principal
            components of the searched embeddings.

    Returns:
        For "search" and for the names of the methods, with whitening as `whitening_DIM`, or
        `learned_whitening_DIM` for one that is given: `metrics`, the `RankingMetrics`; `seconds`
        for preparation and search; and `bytes_per_image`, what the search keeps of an image.

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
    queries, query_labels, references, reference_labels = checked_images(
        queries, query_labels, references, reference_labels
    )
    if references is None and reference_tokens is not None:
        raise ValueError("reference_tokens are those of references; received none.")
    tokens = query_tokens, query_tokens if references is None else reference_tokens
    if "transport" in methods:
        sizes = len(queries), len(queries if references is None else references)
        for sets, size, name in zip(tokens, sizes, ("query", "reference"), strict=True):
            received = None if sets is None else len(sets.tokens)
            if received != size:
                raise ValueError(
                    f"transport needs {name}_tokens of {size} images; received {received}."
                )
    labels = query_labels, reference_labels, at, query_sources, reference_sources
    found = {}
    for method in ("search", *dict.fromkeys(methods)):
        start = time.perf_counter()
        for name, nearest, size in _rankings(method, queries, references, tokens, whitening):
            metrics = RankingMetrics.of(nearest, *labels)
            found[name] = Reranked(metrics, time.perf_counter() - start, size)
            start = time.perf_counter()
    return found


def _rankings(method, queries, references, tokens, learned) -> Iterator[tuple[str, Nearest, int]]:
    """Names, rankings and bytes of an image of a method."""
    searched = queries if references is None else references
    size = 4 * searched.shape[1]
    if method == "search":
        yield method, exact_ranking(queries, references, "euclidean"), size
    elif method == "transport":
        nearest = _by_transport(queries, references, *tokens)
        yield method, nearest, size + tokens[1].bytes_per_image
    elif method == "whitening":
        whitening = learned or PCAWhitening(searched)
        for dim in whitening.sweep():
            search = Reranker(searched, method, whitening, dim)
            name = f"learned_{method}_{dim}" if learned else f"{method}_{dim}"
            yield name, search(None if references is None else queries), 4 * dim
    else:
        yield method, Reranker(searched, method)(None if references is None else queries), size


def _by_transport(queries, references, query_tokens, reference_tokens) -> Nearest:
    """The first results in the order of the transport between local features."""
    plain = exact_ranking(queries, references, "euclidean")
    size = len(queries) - 1 if references is None else len(references)

    def nearest(rows, k):
        found, _ = plain(rows, min(max(k, _DEPTH), size))
        indices, costs = rerank_by_transport(
            found, query_tokens.take(rows), reference_tokens, _DEPTH
        )
        return indices[:, :k], costs

    return nearest
