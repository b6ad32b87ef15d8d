"""Re-ranking by k-reciprocal encoding, in blocks."""

import operator

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from gsp_tf._arguments import check_share
from gsp_tf._console import show_progress
from gsp_tf.evaluation._vectors import blocks, checked_count, checked_embeddings, distinct_rows
from gsp_tf.evaluation.exact_search import ExactSearch
from gsp_tf.evaluation.search_space import correct_squares

_BLOCK_ENTRIES = 1 << 24  # distances in memory at a time
_BLOCK_SETS = 256  # neighbourhoods in memory at a time


class KReciprocalSearch:
    """Search with distances that compare the reciprocal neighbourhoods of two images.

    "Re-ranking Person Re-identification with k-reciprocal Encoding" (Zhong, Zheng, Cao, Li, CVPR
    2017), as in the authors' program. Two images are reciprocal if each is among the `k1` nearest
    of the other. The set of an image holds its reciprocal neighbours, and the `k1 / 2` reciprocal
    neighbours of each of them if more than two thirds of these are in it already. A row of V holds
    the weights of the set, `exp(-d²)` scaled to sum to 1, and becomes the mean of the rows of the
    `k2` nearest. The distance is `(1 - weight) J + weight d²`, with the Jaccard distance J of two
    rows, `1 - Σ min / Σ max`, and squares d² of Euclidean distances over the largest from an image.

    Queries are part of the neighbourhoods, so that an answer depends on the other queries. V is
    sparse, and distances to all images exist only for a block of queries. Memory grows linearly
    with the number of images: 60,000 of dimension 128 take less than 1 GiB.

    Args:
        queries: floats `(Q, D)`.
        references: floats `(N, D)`; None searches the other queries.
        k1: number of neighbours that may be reciprocal, below the number of images.
        k2: number of neighbours to average over, at most k1; 1 does not average.
        weight: share of the original distance in [0, 1], λ in the paper.

    Example:
        >>> embeddings = [[0.0], [1.0], [2.5], [9.0], [9.5], [4.0]]
        >>> search = KReciprocalSearch(embeddings, k1=2, k2=1)
        >>> indices, distances = search([0], k=2)
        >>> indices
        array([[1, 2]])
        >>> distances.round(2)
        array([[0.35, 0.58]], dtype=float32)
    """

    def __init__(
        self,
        queries: ArrayLike,
        references: ArrayLike | None = None,
        k1: int = 20,
        k2: int = 6,
        weight: float = 0.3,
    ):
        images = checked_embeddings(queries, "queries")
        self._count, self._first = len(images), 0
        if references is not None:
            references = checked_embeddings(references, "references")
            if references.shape[1] != images.shape[1]:
                raise ValueError(
                    "queries and references must have the same dimension; "
                    f"received {images.shape[1]} and {references.shape[1]}."
                )
            self._first = len(images)
            images = np.concatenate([images, references])
        k1, k2 = operator.index(k1), operator.index(k2)
        if not 1 <= k2 <= k1 < len(images):
            raise ValueError(
                f"k1 and k2 must be 1 <= k2 <= k1 < {len(images)}, the number of images; received "
                f"k1={k1} and k2={k2}."
            )
        check_share(weight=weight)
        self._weight = weight
        # Distances from the mean, in units of the longest, do not cancel or overflow in float32.
        images = images - images.mean(axis=0, dtype=np.float64)
        longest = np.sqrt(np.einsum("nd,nd->n", images, images).max())
        self._images = (images / (longest or 1.0)).astype(np.float32)
        self._squares = np.einsum("nd,nd->n", self._images, self._images)
        nearest = _nearest(self._images, k1 + 1)
        self._farthest = self._largest_squares()
        encoding = self._encoded(nearest, k1)
        if k2 > 1:
            shares = np.full(len(nearest) * k2, np.float32(1 / k2))
            ends = np.arange(0, len(shares) + 1, k2)
            averaging = sparse.csr_matrix((shares, nearest[:, :k2].ravel(), ends), encoding.shape)
            encoding = averaging @ encoding
        first, numbers = distinct_rows(self._images)
        self._encoding = encoding = encoding[first[numbers]]  # equal images have equal ones
        self._totals = np.bincount(encoding.nonzero()[0], encoding.data, len(images))
        self._inverted = encoding[self._first :].tocsc()

    @property
    def size(self) -> int:
        """Number of images that a query can find."""
        return len(self._images) - max(self._first, 1)

    def __call__(self, rows: ArrayLike, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds the k nearest references of some queries, nearest first.

        Args:
            rows: integers `(q,)`, the queries.
            k: number of neighbours, at most `size`.

        Returns:
            indices `(q, k)` int64 into the references, and distances `(q, k)` float32 in [0, 1].
        """
        rows, k = np.asarray(rows, np.int64), checked_count("k", k, self.size)
        if len(rows) and not 0 <= rows.min() <= rows.max() < self._count:
            raise ValueError(f"rows must be between 0 and {self._count - 1}.")
        indices = np.empty((len(rows), k), np.int64)
        distances = np.empty((len(rows), k), np.float32)
        parts = _blocks(len(rows), len(self._images))
        for block in show_progress(parts, "Comparing neighbourhoods", len(parts)):
            found = self._distances(rows[block])
            indices[block] = np.argpartition(found, k - 1, axis=1)[:, :k]
            near = np.take_along_axis(found, indices[block], axis=1)
            order = np.lexsort((indices[block], near))
            indices[block] = np.take_along_axis(indices[block], order, axis=1)
            distances[block] = np.take_along_axis(near, order, axis=1)
        return indices, distances

    def _distances(self, rows):
        """Distances of queries to all references `(b, N)`; infinite to the query itself."""
        others = slice(self._first, None)
        squares = self._squares[rows, None] + self._squares[others]
        squares -= 2 * (self._images[rows] @ self._images[others].T)
        correct_squares(squares, self._images[rows], self._images[others])
        found = self._weight * (squares / self._farthest[rows, None])
        for position, row in enumerate(rows):
            shared = self._shared(row)
            either = self._totals[row] + self._totals[others] - shared
            found[position] += (1 - self._weight) * (1 - shared / either)
        if not self._first:
            found[np.arange(len(rows)), rows] = np.inf
        return found

    def _largest_squares(self):
        """The largest squared distance of each image."""
        largest = np.empty(len(self._images), np.float32)
        parts = _blocks(len(largest), len(largest))
        for block in show_progress(parts, "Largest distances", len(parts)):
            squares = self._squares - 2 * (self._images[block] @ self._images.T)
            largest[block] = squares.max(axis=1) + self._squares[block]
        return np.maximum(largest, np.finfo(np.float32).tiny)

    def _shared(self, row):
        """`Σ_j min(V_row,j, V_ij)` of one image with every reference `(N,)`."""
        start, stop = self._encoding.indptr[row : row + 2]
        columns, weights = self._encoding.indices[start:stop], self._encoding.data[start:stop]
        first, counts = self._inverted.indptr[columns], np.diff(self._inverted.indptr)[columns]
        ends = np.cumsum(counts)
        places = np.arange(ends[-1]) + np.repeat(first - ends + counts, counts)
        smaller = np.minimum(np.repeat(weights, counts), self._inverted.data[places])
        size = self._inverted.shape[0]
        return np.bincount(self._inverted.indices[places], smaller, minlength=size)

    def _encoded(self, nearest, k1):
        """V as a sparse matrix, from the neighbours `(N, k1 + 1)` of each image and itself."""
        half = nearest[:, : int(np.around(k1 / 2)) + 1]
        reciprocal, half_reciprocal = _reciprocal(nearest), _reciprocal(half)
        parts, of_sets = [], blocks(len(nearest), _BLOCK_SETS)
        for block in show_progress(of_sets, "Reciprocal neighbours", len(of_sets)):
            near, mutual = nearest[block], reciprocal[block]
            theirs = half[near]  # (b, k1 + 1, k1 / 2 + 1), the neighbours of neighbours
            are_theirs = half_reciprocal[near] & mutual[..., None]
            known = (theirs[..., None] == np.where(mutual, near, -1)[:, None, None]).any(axis=-1)
            overlap = np.count_nonzero(known & are_theirs, axis=-1)
            is_added = overlap > 2 / 3 * np.count_nonzero(are_theirs, axis=-1)
            added = are_theirs & is_added[..., None]
            rows = np.arange(block.start, block.stop)
            keys = np.concatenate(
                [
                    (rows[:, None] * len(nearest) + near)[mutual],
                    (rows[:, None, None] * len(nearest) + theirs)[added],
                ]
            )
            parts.append(self._weighted(np.unique(keys)))
        return sparse.vstack(parts, format="csr")

    def _weighted(self, keys):
        """Rows of V for pairs of images, `row * N + column`, in order."""
        rows, columns = np.divmod(keys, len(self._images))
        difference = self._images[rows] - self._images[columns]
        squares = np.einsum("nd,nd->n", difference, difference) / self._farthest[rows]
        first, inverse, counts = np.unique(rows, return_inverse=True, return_counts=True)[:3]
        weights = np.exp(-squares)
        weights /= np.bincount(inverse, weights)[inverse]
        bounds = np.concatenate([[0], np.cumsum(counts)])
        shape = len(first), len(self._images)
        return sparse.csr_matrix((weights.astype(np.float32), columns, bounds), shape=shape)


def _nearest(images, k):
    """The k nearest images of each image, itself the first even of many copies, `(N, k)`."""
    search, every = ExactSearch(images), np.arange(len(images))
    parts = blocks(len(images), 1 << 12)
    others = [
        search(images[rows], k - 1, every[rows])[0]
        for rows in show_progress(parts, "Nearest neighbours", len(parts))
    ]
    return np.column_stack([every, np.concatenate(others)])


def _reciprocal(nearest):
    """Whether an image is among the neighbours of each of its neighbours, `(N, k)`."""
    found = np.empty(nearest.shape, bool)
    for block in blocks(len(nearest), _BLOCK_SETS):
        rows = np.arange(len(nearest))[block, None, None]
        found[block] = (nearest[nearest[block]] == rows).any(axis=-1)
    return found


def _blocks(count, size):
    """Slices of `count` rows whose distances to `size` images fit in memory."""
    return blocks(count, max(1, _BLOCK_ENTRIES // size))
