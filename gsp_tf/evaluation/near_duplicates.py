"""Groups of near-duplicate embeddings."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gsp_tf._arguments import check_sizes
from gsp_tf.evaluation._cells import Cells
from gsp_tf.evaluation._vectors import checked_embeddings
from gsp_tf.evaluation.search_space import Metric

_EDGES = 1 << 22


class _DuplicateGroups(NamedTuple):
    groups: np.ndarray
    recall: float

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.groups.max(initial=-1)) + 1


def near_duplicate_groups(
    embeddings: ArrayLike,
    distance: float,
    metric: Metric = "euclidean",
    most_cells: int = 16,
    seed: int = 0,
) -> _DuplicateGroups:
    """Groups embeddings that are connected by pairs up to a distance.

    Two embeddings are in one group if a chain of pairs that are at most `distance` apart joins them
    (single linkage), so two of a group can be farther apart than that. The pairs are found in cells
    of k-means: each embedding is compared with those of the cells that can hold a near one, by the
    distance from the plane between two cells (Zezula, Amato, Dohnal, Batko, "Similarity Search",
    2006, generalized hyperplane partitioning). This is exact unless an embedding has more than
    `most_cells` such cells; then only the nearest are searched, and `recall` is measured with 256
    embeddings that search all others.

    Args:
        embeddings: floats `(N, D)`.
        distance: largest distance of a pair of near duplicates.
        metric: the distance; `"cosine"` is 1 - cosine similarity.
        most_cells: largest number of cells that an embedding searches, of about 2 √N.
        seed: seed of k-means and of the sample for the recall.

    Returns:
        `groups`, integers `(N,)`, the group of each embedding, from 0 in the order of their first
        embeddings, -1 for one without a near duplicate; their number `count`; and `recall`, the
        share of the pairs within the distance that the search found, 1 for an exact search.

    Example:
        >>> near_duplicate_groups([[0.0], [5.0], [1.0], [1.9], [9.0], [5.2]], 1.0).groups
        array([ 0,  1,  0,  0, -1,  1])
    """
    embeddings = checked_embeddings(embeddings, "embeddings")
    if not (distance >= 0 and math.isfinite(distance)):
        raise ValueError(f"distance must be finite and 0 or more; received {distance}.")
    check_sizes(most_cells=most_cells)
    count = len(embeddings)
    cells = Cells(embeddings, metric, most_cells, seed)
    labels, waiting, edges = np.arange(count), [], 0
    for pairs in cells.pairs_within(distance):
        waiting.append(pairs)
        edges += len(pairs[0])
        if edges > _EDGES:
            labels, waiting, edges = _joined(labels, waiting), [], 0
    labels = _joined(labels, waiting)
    return _DuplicateGroups(_numbered(labels), cells.recall(distance, seed))


def joined_groups(*groups: ArrayLike) -> np.ndarray:
    """Joins groups `(N,)`, negative for none, that share a member, from several divisions."""
    pairs = []
    for of in map(np.asarray, groups):
        rows = np.flatnonzero(of >= 0)
        _, first, places = np.unique(of[rows], return_index=True, return_inverse=True)
        pairs.append((rows[first[places]], rows))
    return _numbered(_joined(np.arange(len(groups[0])), pairs))


def _joined(labels, pairs):
    """The labels after joining those of the pairs."""
    if not pairs:
        return labels
    first, second = (labels[np.concatenate(rows)] for rows in zip(*pairs, strict=True))
    edges = coo_array((np.ones(len(first), bool), (first, second)), shape=(len(labels),) * 2)
    return connected_components(edges, directed=False)[1][labels]


def _numbered(labels):
    """Numbers of the groups of equal labels by their first members; -1 for a label alone."""
    _, first, places, sizes = np.unique(
        labels, return_index=True, return_inverse=True, return_counts=True
    )
    is_group = sizes > 1
    numbers = np.full(len(first), -1)
    numbers[np.flatnonzero(is_group)[np.argsort(first[is_group])]] = np.arange(is_group.sum())
    return numbers[places]
