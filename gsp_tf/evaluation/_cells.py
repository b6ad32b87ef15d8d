"""Search of embeddings among themselves, through cells of k-means."""

from collections.abc import Iterator

import faiss
import numpy as np
from scipy.spatial.distance import cdist

from gsp_tf._arguments import checked_seed
from gsp_tf._console import show_progress
from gsp_tf.evaluation._vectors import blocks
from gsp_tf.evaluation.exact_search import all_but
from gsp_tf.evaluation.search_space import (
    Metric,
    PointSpace,
    corrected_scores,
    distances_of_pairs,
)

_FEWEST = 4096  # embeddings that are worth cells
_TRAINED = 64  # embeddings per cell that k-means sees
_BLOCK = 1024
_ROUNDING = 1e-5
_TINY = 1e-12
_SAMPLE = 256
_MOST_COMPARED = 1 << 23


class Cells:
    """Embeddings in about 2 √N cells of k-means, each held by the cell with the nearest centre."""

    def __init__(self, embeddings: np.ndarray, metric: Metric, most_cells: int, seed: int):
        self._embeddings, self.metric = embeddings, metric
        self._space = PointSpace(embeddings, metric)
        count, dim = len(embeddings), self._vectors([0]).shape[1]
        num_cells = 1 if count < _FEWEST else round(2 * count**0.5)
        self._most = min(most_cells, num_cells)
        sample = np.random.default_rng(checked_seed(seed)).permutation(count)[
            : _TRAINED * num_cells
        ]
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dim), dim, num_cells)
        index.cp.seed, index.cp.min_points_per_centroid = seed % (2**31 - 1) + 1, 1
        index.train(self._vectors(np.sort(sample)))
        centres = index.quantizer.reconstruct_n(0, num_cells)
        self._apart = cdist(centres, centres)
        self._index = index
        self._cells = np.empty(count, np.int64)
        for rows in self._blocks("Sorting embeddings into cells"):
            vectors = self._vectors(rows)
            self._cells[rows] = index.quantizer.assign(vectors, 1)[:, 0]
            index.add_core(
                len(vectors),
                faiss.swig_ptr(vectors),
                None,
                faiss.swig_ptr(self._cells[rows]),
            )
        self._sizes = np.bincount(self._cells, minlength=num_cells)

    def _blocks(self, description):
        parts = blocks(len(self._embeddings), _BLOCK)
        return show_progress(parts, description, len(parts))

    def pairs_within(self, distance: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the pairs of rows up to a distance of the metric; a pair can occur twice."""
        for rows in self._blocks("Searching near duplicates"):
            rows = np.arange(rows.start, rows.stop)
            cells, _ = self._near_cells(self._vectors(rows), distance)
            yield from self._pairs(rows, cells, distance)

    def recall(self, distance: float, seed: int) -> float:
        """The share of the pairs up to a distance that `pairs_within` yields, from 256 rows."""
        count, num_cells = len(self._embeddings), self._index.nlist
        rows = np.random.default_rng(checked_seed(seed)).choice(
            count, min(count, _SAMPLE), replace=False
        )
        if self._near_cells(self._vectors(rows), distance)[1].all():
            return 1.0
        every = np.tile(np.arange(num_cells), (len(rows), 1))
        found = pairs = 0
        for first, second in self._pairs(rows, every, distance):
            is_found = self._looks_at(first, second, distance)
            is_found |= self._looks_at(second, first, distance)
            found, pairs = found + np.count_nonzero(is_found), pairs + len(is_found)
        return found / pairs if pairs else 1.0

    def _looks_at(self, rows, others, distance):
        """Whether the search for each row looks into the cell of another."""
        unique, places = np.unique(rows, return_inverse=True)
        is_near = np.empty(len(rows), bool)
        order = np.argsort(places, kind="stable")
        for part in blocks(len(unique), _BLOCK):
            cells, _ = self._near_cells(self._vectors(unique[part]), distance)
            of = order[slice(*np.searchsorted(places[order], [part.start, part.stop]))]
            found = cells[places[of] - part.start]
            is_near[of] = (found == self._cells[others[of]][:, None]).any(axis=1)
        return is_near

    def _pairs(self, rows, cells, distance):
        """Yields the pairs of rows with those in their cells, the lower row first."""
        self._index.nprobe = cells.shape[1]
        wider = np.square(self._space.radius(distance)) * (1 + _ROUNDING) + _TINY
        wider = min(wider, np.finfo(np.float32).max)
        compared = np.cumsum(np.where(cells < 0, 0, self._sizes[cells]).sum(axis=1))
        while len(rows):
            size = max(1, np.searchsorted(compared, _MOST_COMPARED, "right"))
            vectors = self._vectors(rows[:size])
            ends, _, found = self._index.range_search_preassigned(
                vectors, wider, cells[:size], np.zeros_like(cells[:size], "float32")
            )
            own = np.repeat(rows[:size], np.diff(ends.astype(np.int64)))
            own, found = own[own != found], found[own != found]
            first, second = np.minimum(own, found), np.maximum(own, found)
            near = distances_of_pairs(self._embeddings, first, second, self.metric) <= distance
            yield first[near], second[near]
            rows, cells = rows[size:], cells[size:]
            compared = compared[size:] - compared[size - 1]

    def _vectors(self, rows):
        return self._space.vectors(self._embeddings[rows])

    def _near_cells(self, vectors, distance):
        """Cells `(n, P)` to search, -1 for none, and whether a row needs no others `(n,)`."""
        # The plane halfway between two centres a and b separates their cells. A vector of cell a is
        # h = (d_b² - d_a²) / (2 |a - b|) away from it. Two vectors on its two sides are at least
        # as far apart as the sum of both, so one of two with a distance up to r has h <= r / 2.
        # From |a - b| <= d_a + d_b follows d_b <= d_a + r for the cells that it looks into.
        radius = self._space.radius(distance)
        squares, cells = self._index.quantizer.search(vectors, self._most)
        squares = np.maximum(squares, 0)
        apart = self._apart[cells[:, :1], cells]
        slack = _ROUNDING * squares[:, -1:]
        cells[squares - squares[:, :1] > radius * apart + slack] = -1
        if self._most == self._index.nlist:
            return cells, np.ones(len(cells), bool)
        return cells, np.sqrt(squares[:, -1]) > np.sqrt(squares[:, 0] + slack[:, 0]) + radius

    def nearest(self, k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields, for blocks of rows, the k nearest others and their distances, both `(n, k)`."""
        index, num_cells = self._index, self._index.nlist
        for rows in self._blocks("Searching neighbours"):
            vectors = self._vectors(rows)
            index.nprobe = self._most
            squares, found = index.search(vectors, k + 1)
            short = (found < 0).any(axis=1)
            if short.any():  # their cells hold too few
                index.nprobe = num_cells
                squares[short], found[short] = index.search(vectors[short], k + 1)
            squares, found = corrected_scores(
                vectors, squares, found, self._vectors, faiss.METRIC_L2
            )
            kept = all_but(found, np.arange(rows.start, rows.stop))
            squares, found = (values[kept].reshape(len(kept), k) for values in (squares, found))
            yield found, self._space.distances(squares)
