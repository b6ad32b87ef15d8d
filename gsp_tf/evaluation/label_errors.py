"""Labels that disagree with those of the nearest embeddings."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf.evaluation._cells import Cells
from gsp_tf.evaluation._vectors import blocks, checked_count, checked_embeddings, checked_labels
from gsp_tf.evaluation.exact_search import ExactSearch
from gsp_tf.evaluation.search_space import Metric

_MOST_EXACT = 50_000
_CELLS = 64
_BLOCK = 1024
_PAIRS = 2**24  # of neighbours compared at once


class LabelVotes(NamedTuple):
    """What the nearest neighbours of each embedding say about its label."""

    scores: np.ndarray
    suggested: np.ndarray
    given_shares: np.ndarray
    suggested_shares: np.ndarray

    def ranked(self) -> np.ndarray:
        """Rows whose neighbours disagree with the label, int64 `(n,)`, the clearest first."""
        order = np.argsort(-self.scores, kind="stable")
        return order[self.scores[order] > 0]


def label_votes(
    embeddings: ArrayLike, labels: ArrayLike, k: int = 10, metric: Metric = "euclidean"
) -> LabelVotes:
    """Lets the k nearest other embeddings of each embedding vote for its label.

    The neighbour j at the distance d_j votes with the weight 1 - d_j / d_{k+1}, where d_{k+1} is
    the distance of the next neighbour (Dudani, "The distance-weighted k-nearest-neighbor rule",
    1976), and weights sum to 1. The score is the normalized margin of confident learning with these
    shares as probabilities, and with the opposite sign: max_{c != y} v_c - v_y (Northcutt, Jiang,
    Chuang, "Confident Learning", JAIR 2021). Votes of neighbours find wrong labels without training
    a classifier (Zhu, Dong, Liu, "Detecting Corrupted Labels Without Training a Model to Predict",
    ICML 2022). The search is exact up to 50,000 embeddings; above, each looks into the 64 nearest
    of about 2 √N cells of k-means.

    Args:
        embeddings: floats `(N, D)`.
        labels: integers `(N,)` or `(N, 1)`, the given classes.
        k: number of neighbours that vote; at most N - 2.
        metric: the distance; `"cosine"` is 1 - cosine similarity.

    Returns:
        `scores`, floats `(N,)` in [-1, 1], the share of the votes for the suggested label minus
        that for the given one: above 0, the neighbours disagree with the label, and NaN for an
        embedding that is the only one of its class; `suggested`, integers `(N,)`, the label with
        most votes among the others; and `given_shares` and `suggested_shares`, floats `(N,)`, the
        shares of the votes for both. `ranked()` gives the rows with scores above 0, the clearest
        first.

    Raises:
        ValueError: if there is a single class.

    Example:
        >>> embeddings = [[0.0], [0.1], [0.2], [0.3], [5.0], [5.1], [5.3]]
        >>> votes = label_votes(embeddings, [0, 0, 1, 0, 1, 1, 1], k=2)
        >>> int(votes.suggested[2]), float(votes.scores[2])
        (0, 1.0)
    """
    embeddings = checked_embeddings(embeddings, "embeddings")
    labels = checked_labels(labels, len(embeddings), "labels")
    classes, numbers, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"Labels of two classes or more are needed; received {len(classes)}.")
    k = checked_count("k", k, len(embeddings) - 2, ", the number of embeddings less 2")
    parts = [
        _votes(numbers[rows], numbers[neighbours], distances)
        for rows, (neighbours, distances) in _neighbours(embeddings, k + 1, metric)
    ]
    suggested, given_shares, suggested_shares = map(np.concatenate, zip(*parts, strict=True))
    scores = np.round(suggested_shares - given_shares, 12)  # shares that tie are 0 apart
    scores[sizes[numbers] == 1] = np.nan
    return LabelVotes(scores, classes[suggested], given_shares, suggested_shares)


def _neighbours(embeddings, k, metric):
    """Rows, and the indices and distances of their nearest others, block by block."""
    parts = blocks(len(embeddings), _BLOCK)
    if len(embeddings) > _MOST_EXACT:
        return zip(parts, Cells(embeddings, metric, _CELLS, 0).nearest(k), strict=True)
    search, every = ExactSearch(embeddings, metric), np.arange(len(embeddings))
    return ((rows, search(embeddings[rows], k, every[rows])) for rows in parts)


def _votes(given, neighbours, distances):
    """The suggested class, and the shares of the given and the suggested one, of each row."""
    last = distances[:, -1:].astype(np.float64)
    weights = 1 - np.divide(distances, last, where=last > 0, out=np.ones(distances.shape))
    weights, neighbours = weights[:, :-1], neighbours[:, :-1]
    weights[weights.sum(axis=1) == 0] = 1  # all are equally far away
    weights /= weights.sum(axis=1, keepdims=True)
    # votes[r, j]: the weight of all neighbours of row r in the class of its neighbour j
    votes, size = np.empty_like(weights), max(1, _PAIRS // weights.shape[1] ** 2)
    for part in blocks(len(votes), size):
        is_same = neighbours[part, :, None] == neighbours[part, None, :]
        np.einsum("rjl,rl->rj", is_same, weights[part], out=votes[part])
    is_given = neighbours == given[:, None]
    given_shares = np.where(is_given, weights, 0).sum(axis=1)
    best = np.argmax(np.where(is_given, -1, votes), axis=1)[:, None]
    suggested = np.take_along_axis(neighbours, best, axis=1)[:, 0]
    shares = np.take_along_axis(votes, best, axis=1)[:, 0]
    return suggested, given_shares, np.where(suggested == given, 0, shares)
