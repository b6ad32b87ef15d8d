"""Distances of all pairs of embeddings on a scale of integer steps, block by block."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.spatial.distance import pdist, squareform

from gsp_tf._console import show_progress
from gsp_tf.evaluation.search_space import Metric, metric_distances, metric_points
from gsp_tf.evaluation.vectors import distinct_rows

SIDE = 2048
_MOST_DISTINCT = 1448  # embeddings whose pairs all have a step of their own
_STEPS = 1 << 20
_ROWS = 1 << 13
_SHOWN = 8192
_SAMPLE = 4096
_FINER = 16
_SMALLEST = 2.0**-62
_ROUNDING = 4e-15  # of the distance of two points of length 1
_FLOAT32 = 2.0**-22  # relative rounding of lengths
_NEAR = 2.0**-30  # squared distance over norms, and dimensions, where products cancel
_PAIRS = 1 << 14
_UNLIKELY = 1.7
_SLACK = 1 << 12  # bits
_ONE = np.float64(1).view(np.int64)


def pair_scale(embeddings: np.ndarray, metric: Metric, order: np.ndarray) -> "PairScale":
    """The scale of all pairs of embeddings `(N, D)` in an order, exact if few are different."""
    first, numbers = distinct_rows(embeddings)
    scale = ExactScale if len(first) <= _MOST_DISTINCT else SteppedScale
    return scale(embeddings, metric, order, first, numbers)


class PairScale:
    """Integer steps for the distances of all pairs, from 0; the last is `size - 1`."""

    # Equal embeddings have the distance 0, and its step holds no other distance. `_numbers` (N,)
    # says which of the different embeddings each row is.

    size: int

    def __init__(self, numbers):
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def distances(self, steps: np.ndarray) -> np.ndarray:
        """The largest distances of steps, in float64."""
        raise NotImplementedError

    def steps_at(self, distances: np.ndarray) -> np.ndarray:
        """The last steps up to the given distances; -1 if there are none."""
        raise NotImplementedError

    def blocks(
        self, ends: Sequence[int], description: str
    ) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Yields rows, columns and the steps of their pairs; each pair of parts occurs once."""
        parts = [slice(*pair) for pair in itertools.pairwise([0, *ends])]
        pairs = itertools.combinations_with_replacement(parts, 2)
        if len(self) >= _SHOWN:
            pairs = show_progress(pairs, description, len(parts) * (len(parts) + 1) // 2)
        for rows, columns in pairs:
            yield rows, columns, self._steps(rows, columns)

    def _steps(self, rows, columns):
        """The steps `(r, c)` of a block of pairs, int64."""
        raise NotImplementedError


class ExactScale(PairScale):
    """One step for each distance that occurs."""

    # Cosine distances that differ by no more than the rounding of unit vectors are the same.

    def __init__(self, embeddings, metric, order, first, numbers):
        super().__init__(numbers[order])
        lengths = pdist(metric_points(embeddings[first], metric))
        ranked = np.unique(np.append(lengths, 0.0))
        rounding = _ROUNDING if metric == "cosine" else 0.0
        is_new = np.diff(ranked, prepend=-1.0) > rounding
        ranks = (np.cumsum(is_new) - 1)[np.searchsorted(ranked, lengths)]
        self._of_pairs = squareform(ranks.astype(np.int32), checks=False)
        self._metric, self._lengths, self._rounding = metric, ranked[is_new], rounding
        self.size = len(self._lengths)
        halves = np.diff(self._lengths, append=np.inf) / 2
        self._ends = self._lengths + np.minimum(halves, self._lengths * _FLOAT32)

    def distances(self, steps: np.ndarray) -> np.ndarray:
        """The distances of steps in float64, rounded up so that float32 keeps them."""
        ends = self._ends[steps]
        return ends if self._metric == "euclidean" else np.square(ends) / 2

    def steps_at(self, distances: np.ndarray) -> np.ndarray:
        """The last steps up to the given distances; -1 if there are none."""
        lengths = distances = np.asarray(distances, np.float64)
        if self._metric == "cosine":
            lengths = np.sqrt(2 * np.abs(distances)) + self._rounding
        steps = np.searchsorted(self._lengths, lengths, "right") - 1
        return np.where(distances < 0, -1, steps)

    def _steps(self, rows, columns):
        return self._of_pairs[self._numbers[rows, None], self._numbers[columns]]


class SteppedScale(PairScale):
    """Steps that are equally wide up to a unit and grow with the distance beyond it."""

    # With the squared distance x of two points, in units, step 0 is x = 0, and each other step is a
    # range of the first bits of the float64 number 1 + x: one long vector takes no steps from the
    # others. The unit makes it unlikely that a step ends at a distance that many pairs have, where
    # rounding would divide them. The origin is the median of the points, which keeps the products
    # accurate; where those of a pair cancel, x is computed from the difference of its points.

    def __init__(self, embeddings, metric, order, first, numbers):
        super().__init__(numbers[order])
        self._metric, self.size = metric, _STEPS + 1
        self._has_copies = len(first) < len(order)
        sample = order[:: -(-len(order) // _SAMPLE)]
        origin = np.median(metric_points(embeddings[sample], metric).astype(np.float64), axis=0)
        self._right = np.ones((len(order), len(origin) + 2))
        for start in range(0, len(order), _ROWS):
            rows = slice(start, start + _ROWS)
            points = metric_points(embeddings[order[rows]], metric)
            np.subtract(points, origin, out=self._right[rows, :-2])
        norms = np.einsum("nd,nd->n", self._right[:, :-2], self._right[:, :-2])
        largest = 4 * float(norms.max())
        smallest = float(norms.min(where=norms > 0, initial=largest))
        self._unit = max(smallest / _FINER, largest * _SMALLEST) / _UNLIKELY
        self._right[:, :-2] /= np.sqrt(self._unit)
        self._right[:, -1] = norms / self._unit
        self._top = 1 + largest / self._unit
        self._shift = int(np.float64(self._top).view(np.int64) - _ONE).bit_length() - (
            _STEPS.bit_length() - 1
        )
        self._near = _NEAR * len(origin)

    def distances(self, steps: np.ndarray) -> np.ndarray:
        """The largest distances of steps, in float64, but for rounding."""
        steps = np.asarray(steps, np.int64)
        ends = (np.maximum((steps << self._shift) - _SLACK, 0) + _ONE).view(np.float64)
        return metric_distances((np.minimum(ends, self._top) - 1) * self._unit, self._metric)

    def steps_at(self, distances: np.ndarray) -> np.ndarray:
        """The steps that hold the given distances; -1 for negative ones."""
        distances = np.asarray(distances, np.float64)
        squares = np.square(distances) if self._metric == "euclidean" else 2 * np.abs(distances)
        values = np.array(1 + squares / self._unit)
        return np.where(distances < 0, -1, self._steps_of(values))

    def _steps_of(self, values):
        """The steps of float64 numbers 1 + x, in their memory."""
        steps = np.minimum(values, self._top, out=values).view(np.int64)
        steps -= _ONE - ((1 << self._shift) - 1)
        steps >>= self._shift
        return steps

    def _steps(self, rows, columns):
        left = self._right[rows] * -2.0
        left[:, -2], left[:, -1] = 1 + self._right[rows, -1], 1
        values = left @ self._right[columns].T
        norms = self._right[rows, -1, None], self._right[columns, -1]
        if values.min() < 1 + self._near * (norms[0].max() + norms[1].max()):
            self._correct(values, rows, columns, self._near * (norms[0] + norms[1]))
        return self._steps_of(values)

    def _correct(self, values, rows, columns, near):
        """Computes 1 + x again where products cancel."""
        is_near = values < 1 + near
        if self._has_copies:
            is_copy = self._numbers[rows, None] == self._numbers[columns]
            values[is_copy] = 1
            is_near &= ~is_copy
        first, second = np.nonzero(is_near)
        rounding = _ROUNDING**2 / self._unit if self._metric == "cosine" else 0.0
        for start in range(0, len(first), _PAIRS):
            i, j = first[start : start + _PAIRS], second[start : start + _PAIRS]
            difference = self._right[rows, :-2][i] - self._right[columns, :-2][j]
            squares = np.einsum("nd,nd->n", difference, difference)
            values[i, j] = 1 + np.where(squares > rounding, squares, 0)
