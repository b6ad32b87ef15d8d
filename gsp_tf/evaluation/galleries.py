"""Metrics of the same queries in several galleries."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf.evaluation._positives import Positives, check_labelled
from gsp_tf.evaluation.exact_search import exact_ranking
from gsp_tf.evaluation.ranking import RankingMetrics, measured
from gsp_tf.evaluation.search_space import Metric
from gsp_tf.evaluation.vectors import checked_embeddings, checked_labels, warn_of_own_images


def gallery_metrics(
    queries: ArrayLike,
    query_labels: ArrayLike,
    galleries: ArrayLike,
    references: ArrayLike | None = None,
    reference_labels: ArrayLike | None = None,
    at: Sequence[int] = (1, 5, 10),
    metric: Metric = "euclidean",
    query_sources: ArrayLike | None = None,
    reference_sources: ArrayLike | None = None,
) -> dict[Any, RankingMetrics]:
    """The metrics of `ranking_metrics` for the same queries in each of several galleries.

    A query that has no positive in a gallery is left out there, so the galleries can differ in
    their queries; `RankingMetrics.num_queries` counts them.

    Args:
        queries: floats `(Q, D)`.
        query_labels: integers `(Q,)` or `(Q, 1)`.
        galleries: `(N,)`, the gallery of each reference, such as its camera, shop or year.
        references: floats `(N, D)`; `None` means the queries, and a query ignores itself.
        reference_labels: integers `(N,)` or `(N, 1)`; `None` if and only if `references` is.
        at: the values of K.
        metric: the distance.
        query_sources: as in `ranking_metrics`.
        reference_sources: as in `ranking_metrics`.

    Returns:
        `RankingMetrics` by gallery, without galleries in which no query has a positive or all
        references are of one class.

    Raises:
        ValueError: as `ranking_metrics`, or if there is not one gallery per reference.
        TypeError: if labels, sources or K are not integers.

    Example:
        >>> references, labels = [[0.1], [0.9], [0.4], [1.2]], [0, 1, 1, 0]
        >>> shops = ["left", "left", "right", "right"]
        >>> found = gallery_metrics([[0.0], [1.0]], [0, 1], shops, references, labels, at=(1,))
        >>> {name: of.means()["recall_at_1"].value for name, of in found.items()}
        {'left': 1.0, 'right': 0.0}
    """
    check_labelled(references, reference_labels)
    queries = checked_embeddings(queries, "queries")
    query_labels = checked_labels(query_labels, len(queries), "query_labels")
    is_own = references is None
    if is_own:
        references, reference_labels, reference_sources = queries, query_labels, query_sources
    else:
        references = checked_embeddings(references, "references")
        warn_of_own_images(queries, references)
    reference_labels = checked_labels(reference_labels, len(references), "reference_labels")
    galleries = np.asarray(galleries)
    if galleries.shape != (len(references),):
        raise ValueError(
            f"galleries must be one per reference, {(len(references),)}; received "
            f"{galleries.shape}."
        )
    found, refused = {}, None
    for gallery in np.unique(galleries):
        rows = np.flatnonzero(galleries == gallery)
        own = None
        if is_own:
            own = np.full(len(queries), -1)
            own[rows] = np.arange(len(rows))
        sources = None if reference_sources is None else np.asarray(reference_sources)[rows]
        labels = query_labels, reference_labels[rows], query_sources, sources
        try:
            positives = Positives(*labels, own)
        except ValueError as error:
            refused = error
            continue
        nearest = exact_ranking(queries, references[rows], metric, exclude_own=False)
        found[gallery.item()] = measured(nearest, positives, at)
    if not found:
        raise refused
    return found
