"""Vectors for faiss that keep distances accurate in float32."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import faiss
import numpy as np

from gsp_tf._arguments import check_choice
from gsp_tf.evaluation._vectors import blocks, unit_vectors

Metric = Literal["euclidean", "cosine"]
_PAIRS = 1 << 14
_NEAR = 2.0**-10  # squared distance over squared norm


@dataclass(frozen=True)
class SearchSpace:
    """Maps embeddings to vectors of faiss, and scores of faiss to distances."""

    # Euclidean distances are measured from an origin, in units of a power of two `scale`. This
    # changes no distance, but avoids cancellation far from zero and overflow of squares in float32.
    # The cosine distance is 1 - cosine similarity; a zero vector has similarity 0 to everything.

    metric: Metric
    origin: np.ndarray
    scale: float

    def __post_init__(self):
        check_choice("metric", self.metric, Metric)

    @classmethod
    def around(cls, references: np.ndarray, metric: Metric = "euclidean") -> "SearchSpace":
        """The space for searching float32 references `(N, D)`; the first is its origin.

        The first reference and a row with the largest absolute value suffice.
        """
        scale = power_of_two_below(max(references.max(), -references.min()))
        return cls(metric, references[0] / scale, scale)

    @property
    def faiss_metric(self) -> int:
        """The faiss metric that gives the scores for `distances`."""
        return faiss.METRIC_L2 if self.metric == "euclidean" else faiss.METRIC_INNER_PRODUCT

    def vectors(self, embeddings: np.ndarray) -> np.ndarray:
        """The vectors `(N, D)` that represent float32 embeddings `(N, D)`."""
        if self.metric == "euclidean":
            return embeddings / self.scale - self.origin
        return unit_vectors(embeddings).astype(np.float32)

    def embeddings(self, vectors: np.ndarray) -> np.ndarray:
        """The embeddings of vectors `(N, D)`; of length 1 for the cosine distance."""
        return (vectors + self.origin) * self.scale if self.metric == "euclidean" else vectors

    def distances(self, scores: np.ndarray) -> np.ndarray:
        """The float32 distances for scores of faiss, exact or approximate."""
        if self.metric == "cosine":
            return np.maximum(1 - scores, 0)
        return np.sqrt(np.maximum(scores, 0)) * self.scale


class PointSpace:
    """Maps embeddings to vectors whose Euclidean distances give the distances of a metric."""

    # Vectors are differences from the first reference, for the cosine distance of `metric_points`:
    # products of vectors in float32 lose the small distances of directions that are almost equal.

    def __init__(self, references: np.ndarray, metric: Metric):
        self._metric = metric
        origin = metric_points(references[:1], metric)[0]
        self._space = (
            SearchSpace("euclidean", origin, np.float32(1))
            if metric == "cosine"
            else SearchSpace.around(references)
        )

    def vectors(self, embeddings: np.ndarray) -> np.ndarray:
        """The float32 vectors of float32 embeddings `(N, D)`."""
        points = metric_points(embeddings, self._metric)
        return self._space.vectors(points).astype(np.float32, copy=False)

    def distances(self, squares: np.ndarray) -> np.ndarray:
        """The float32 distances of the metric for squared distances of vectors."""
        if self._metric == "cosine":
            return np.maximum(squares, 0) / 2
        return self._space.distances(squares)

    def radius(self, distance: float) -> np.float64:
        """The distance of vectors that is a distance of the metric."""
        if self._metric == "cosine":
            return np.sqrt(2 * distance)
        return distance / np.float64(self._space.scale)


def corrected_scores(
    queries: np.ndarray,
    scores: np.ndarray,
    rows: np.ndarray,
    vectors_of: Callable[[np.ndarray], np.ndarray],
    metric: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores `(Q, k)` of faiss and their rows, computed again where float32 products cancel."""
    # So equal vectors have the best score that there is, and the distance 0. Vectors for the inner
    # product have length 1. `vectors_of` gives those of rows; a row is -1 where nothing was found.
    # Both come back best first, equal ones by row.
    is_l2 = metric == faiss.METRIC_L2
    is_near = _are_near(queries, scores, metric)
    if not is_near.any():
        return scores, rows
    of, places = np.nonzero(is_near & (rows >= 0))
    scores = scores.copy()
    for part in blocks(len(of), _PAIRS):
        near = of[part], places[part]
        difference = vectors_of(rows[near]).astype(np.float64) - queries[near[0]]
        squares = np.einsum("nd,nd->n", difference, difference)
        scores[near] = squares if is_l2 else 1 - squares / 2
    changed = np.unique(of)
    some = scores[changed], rows[changed]
    order = np.lexsort((some[1], some[0] if is_l2 else -some[0]))
    for all_of, of_changed in zip((scores, rows := rows.copy()), some, strict=True):
        all_of[changed] = np.take_along_axis(of_changed, order, axis=1)
    return scores, rows


def _are_near(queries, scores, metric):
    """Which scores `(Q, k)` of faiss are so near that products in float32 cancel."""
    if metric == faiss.METRIC_L2:
        return scores < _NEAR * np.vecdot(queries, queries)[:, None]
    return scores > 1 - _NEAR


def flat_search(
    index: faiss.IndexFlat, queries: np.ndarray, k: int, selector: faiss.IDSelector | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Corrected scores `(Q, k)` of the nearest vectors of an index, and their rows, -1 for none."""
    metric = index.metric_type
    scores, rows = index.search(queries, k, params=faiss.SearchParameters(sel=selector))
    unsure = np.flatnonzero(_are_near(queries, scores[:, -1:], metric)[:, 0])
    if k < index.ntotal and len(unsure):
        # Products may have chosen these k at random. With a selector, faiss takes differences.
        some, found = queries[unsure], rows[unsure]
        squares = np.empty_like(found, np.float32)
        faiss.knn_L2sqr(
            faiss.swig_ptr(some),
            index.get_xb(),
            index.d,
            len(some),
            index.ntotal,
            k,
            faiss.swig_ptr(squares),
            faiss.swig_ptr(found),
            None,
            selector or faiss.IDSelectorAll(),
        )
        scores[unsure] = squares if metric == faiss.METRIC_L2 else 1 - squares / 2
        rows[unsure] = found
    return corrected_scores(queries, scores, rows, index.reconstruct_batch, metric)


def correct_squares(squares: np.ndarray, queries: np.ndarray, references: np.ndarray) -> None:
    """Computes float32 squares `(Q, N)` again, in place, where products of vectors cancel."""
    # So equal vectors have the distance 0, and no square is negative.
    is_near = squares < _NEAR * np.einsum("nd,nd->n", queries, queries)[:, None]
    of, columns = true_entries(is_near)
    for part in blocks(len(of), _PAIRS):
        near = of[part], columns[part]
        difference = queries[near[0]] - references[near[1]]
        squares[near] = np.einsum("nd,nd->n", difference, difference)


def true_entries(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the few true entries of a large matrix, sooner than by `np.nonzero`."""
    return np.divmod(np.flatnonzero(matrix), matrix.shape[1])


def metric_points(embeddings: np.ndarray, metric: Metric) -> np.ndarray:
    """Points whose Euclidean distances give the distances of embeddings `(N, D)`."""
    # For the cosine distance they are the directions in float64, and |u - v|² / 2 = 1 - uᵀv keeps
    # the digits of small distances. One dimension more holds the zero vectors, which have
    # similarity 0 to every other vector.
    check_choice("metric", metric, Metric)
    if metric == "euclidean":
        return embeddings
    points = np.zeros((len(embeddings), embeddings.shape[1] + 1))
    points[:, :-1] = unit_vectors(embeddings)
    points[:, -1] = ~embeddings.any(axis=1)
    return points


def metric_distances(squares: np.ndarray, metric: Metric) -> np.ndarray:
    """The distances of a metric for squared distances of `metric_points`."""
    return np.sqrt(squares) if metric == "euclidean" else squares / 2


def distances_of_pairs(
    embeddings: np.ndarray, first: np.ndarray, second: np.ndarray, metric: Metric = "euclidean"
) -> np.ndarray:
    """The distances of pairs of embeddings, computed in double precision; 0 for equal ones.

    Args:
        embeddings: floats `(N, D)`.
        first: integers `(n,)`, rows of embeddings.
        second: integers `(n,)`, rows of embeddings.
        metric: the distance.

    Returns:
        float64 `(n,)`.

    Example:
        >>> distances_of_pairs(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0]), np.array([1]))
        array([5.])
    """
    found = np.empty(len(first))
    for part in blocks(len(first), _PAIRS):
        a, b = (
            metric_points(embeddings[rows[part]].astype(np.float64), metric)
            for rows in (first, second)
        )
        found[part] = metric_distances(np.square(a - b).sum(axis=1), metric)
    return found


def power_of_two_below(value: np.float32) -> np.float32:
    """The largest power of two that is at most `value`, or 1 for 0."""
    return np.ldexp(np.float32(1), np.frexp(value)[1] - 1) if value else np.float32(1)
