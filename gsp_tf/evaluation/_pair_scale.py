"""Distances of all pairs of embeddings on a scale of integer steps, block by block."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from gsp_tf._console import show_progress
from gsp_tf.evaluation.search_space import Metric, SearchSpace

STEPS = 1 << 20
SIDE = 2048
_ROWS = 1 << 13
_SHOWN = 8192
_SAMPLE = 4096
_FINER = 16
_SMALLEST = 2.0**-62
_ONE = np.float32(1).view(np.int32)


class PairScale:
    """Integer steps for the distances of all pairs; those of a block come from one product."""

    # With x, the squared Euclidean distance or the cosine distance, a step is a range of the first
    # bits of the float32 number 1 + x / unit. So steps are equally wide up to the unit, and grow
    # with the distance beyond it: one long vector takes no steps from the others. The Euclidean
    # origin is the median of the embeddings, which keeps most norms small and thus the products
    # accurate in float32.

    def __init__(self, embeddings: np.ndarray, metric: Metric, order: np.ndarray):
        space = SearchSpace.around(embeddings, metric)
        if metric == "euclidean":
            some = embeddings[order[:: -(-len(order) // _SAMPLE)]]
            space = dataclasses.replace(space, origin=np.median(some / space.scale, axis=0))
        self._metric, self._scale = metric, float(space.scale)
        self._right = np.ones((len(embeddings), embeddings.shape[1] + 2), np.float32)
        for start in range(0, len(order), _ROWS):
            vectors = space.vectors(embeddings[order[start : start + _ROWS]])
            rows = self._right[start : start + _ROWS]
            rows[:, :-2] = vectors
            rows[:, -1] = np.einsum("nd,nd->n", vectors, vectors)
        limit, smallest = 2.0, 1.0
        if metric == "euclidean":
            norms = self._right[:, -1]
            limit = 4 * float(norms.max()) or 1.0
            smallest = float(norms.min(where=norms > 0, initial=limit))
        self._unit = max(smallest / _FINER, limit * _SMALLEST)
        self._top = np.float32(1 + limit / self._unit)
        self._shift = max(int(_bits(self._top)).bit_length() - int(math.log2(STEPS)), 0)

    def __len__(self) -> int:
        return len(self._right)

    def distances(self, steps: np.ndarray) -> np.ndarray:
        """The largest distances of steps, in float64."""
        ends = _of_bits((np.asarray(steps, np.int64) + 1) << self._shift)
        largest = (np.minimum(ends, self._top) - 1) * self._unit
        return np.sqrt(largest) * self._scale if self._metric == "euclidean" else largest

    def steps_below(self, distances: np.ndarray) -> np.ndarray:
        """The last steps whose distances are at most the given ones; -1 if there are none."""
        values = np.asarray(distances, np.float64)
        if self._metric == "euclidean":
            values = np.sign(values) * np.square(values / self._scale)
        values = np.clip(1 + values / self._unit, 1, self._top).astype(np.float32)
        steps = (_bits(values) >> self._shift) - 1
        return np.where(values == self._top, STEPS - 1, steps).astype(np.int64)

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
        """The steps `(r, c)` of a block of pairs, int32."""
        left = self._right[rows] * np.float32(1 / self._unit)
        if self._metric == "euclidean":
            left[:, :-2] *= -2
            left[:, [-2, -1]] = left[:, [-1, -2]]
        else:
            left[:, :-2] *= -1
            left[:, -1] = 0
        left[:, -2] += 1
        values = left @ self._right[columns].T
        np.clip(values, 1, self._top, out=values)
        steps = _bits(values)
        return np.right_shift(steps, self._shift, out=steps)


def _bits(values):
    """The bits of float32 numbers from 1 on, less those of 1, in order of the numbers."""
    return np.asarray(values, np.float32).view(np.int32) - _ONE


def _of_bits(bits):
    """The float32 numbers of bits, in float64."""
    return (bits + _ONE).astype(np.int32).view(np.float32).astype(np.float64)
