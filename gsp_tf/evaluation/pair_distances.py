"""Distances of all pairs of embeddings, counted on a fine scale, and measures of their curves."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._arguments import checked_seed
from gsp_tf._console import show_progress
from gsp_tf.evaluation import _pair_curves as curves
from gsp_tf.evaluation._vectors import (
    blocks,
    checked_embeddings,
    checked_labels,
    distinct_rows,
)
from gsp_tf.evaluation.estimates import class_copies
from gsp_tf.evaluation.search_space import (
    Metric,
    metric_distances,
    metric_points,
    true_entries,
)

_SIDE = 2048
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


class _PairScale:
    """Integer steps for the distances of all pairs, from 0; the last is `size - 1`."""

    # Equal embeddings have the distance 0, and its step holds no other distance. `_numbers` (N,)
    # says which of the different embeddings each row is. `_steps` gives the steps `(r, c)` of a
    # block of pairs, int64.

    size: int

    def __init__(self, numbers):
        self._numbers = numbers

    def blocks(
        self, ends: Sequence[int], description: str
    ) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Yields rows, columns and the steps of their pairs; each pair of parts occurs once."""
        parts = [slice(*pair) for pair in itertools.pairwise([0, *ends])]
        pairs = itertools.combinations_with_replacement(parts, 2)
        if len(self._numbers) >= _SHOWN:
            pairs = show_progress(pairs, description, len(parts) * (len(parts) + 1) // 2)
        for rows, columns in pairs:
            yield rows, columns, self._steps(rows, columns)


class _ExactScale(_PairScale):
    """One step for each distance that occurs."""

    # Cosine distances that differ by no more than the rounding of unit vectors are the same.

    def __init__(self, embeddings, metric, order, first, numbers):
        from scipy.spatial.distance import pdist, squareform

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


class _SteppedScale(_PairScale):
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
        for rows in blocks(len(order), _ROWS):
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
        first, second = true_entries(is_near)
        rounding = _ROUNDING**2 / self._unit if self._metric == "cosine" else 0.0
        for part in blocks(len(first), _PAIRS):
            i, j = first[part], second[part]
            difference = self._right[rows, :-2][i] - self._right[columns, :-2][j]
            squares = np.einsum("nd,nd->n", difference, difference)
            values[i, j] = 1 + np.where(squares > rounding, squares, 0)


class _ClassPairs:
    """Cumulative counts of pairs up to each of S steps."""

    # `positives` (C, S) are the pairs within each class, `negatives` (C, S) those of its images
    # with other classes, and `image_negatives` (N, T) those of each image up to T of the steps.

    def __init__(self, scale: _PairScale, classes, ends, groups, steps, image_steps=()):
        # Rows are sorted by class. `classes` (N,) numbers the class of each row, `ends` (C,) are
        # the rows after each class, and `groups` (C,) ascends.
        widths = np.diff(steps, prepend=-1, append=scale.size - 1)
        self._lookup = np.repeat(np.arange(len(widths)), widths)
        self._limits = np.searchsorted(steps, image_steps)
        self._classes, self._groups, self._size = classes, groups, len(steps) + 1
        kind = np.uint32 if len(classes) ** 2 < 1 << 32 else np.int64
        self.positives, self.negatives = np.zeros((2, len(ends), self._size), kind)
        self.image_negatives = np.zeros((len(classes), len(image_steps)), np.int64)
        num_groups = groups[-1] + 1
        self._between = np.zeros((num_groups, num_groups, self._size), np.int64)
        last = ends[np.append(np.flatnonzero(np.diff(groups)), -1)]
        parts = np.union1d(last, np.arange(_SIDE, last[-1], _SIDE))
        for block in scale.blocks(parts, "Counting pairs by class"):
            self._count(*block)
        for counts in (self.positives, self.negatives, self._between):
            np.cumsum(counts, axis=-1, out=counts)
        starts = np.searchsorted(groups, np.arange(num_groups))
        self._within = np.add.reduceat(self.positives, starts, axis=0, dtype=np.int64)

    def _count(self, rows, columns, steps):
        steps = self._lookup[steps]
        of_rows, of_columns = self._classes[rows], self._classes[columns]
        if rows == columns or of_rows[-1] == of_columns[0]:
            is_pair = np.less.outer(np.r_[rows], np.r_[columns])
            is_same = is_pair & (of_rows[:, None] == of_columns)
            self._add(self.positives, of_rows, of_rows[np.nonzero(is_same)[0]], steps[is_same])
            steps = np.where(is_pair & ~is_same, steps, self._size)  # others are not counted
        for t, limit in enumerate(self._limits):
            is_below = steps <= limit
            self.image_negatives[rows, t] += np.count_nonzero(is_below, axis=1)
            self.image_negatives[columns, t] += np.count_nonzero(is_below, axis=0)
        for classes, of_pairs in ((of_rows, of_rows[:, None]), (of_columns, of_columns)):
            counts = self._add(self.negatives, classes, of_pairs, steps)
        self._between[self._groups[of_rows[0]], self._groups[of_columns[0]]] += counts.sum(axis=0)

    def _add(self, histograms, classes, of_pairs, steps):
        """Adds pairs to the histograms of some consecutive classes; returns what it added."""
        first, count, size = classes[0], classes[-1] - classes[0] + 1, self._size + 1
        keys = ((of_pairs - first) * size + steps).ravel()
        counts = np.bincount(keys, minlength=count * size).reshape(count, size)[:, :-1]
        histograms[first : first + count] += counts.astype(histograms.dtype)
        return counts

    def resampled(self, num_resamples: int, seed: int):
        """Yields counts `(b, S)` of positive and negative pairs among resampled classes."""
        # With w copies of each group, a pair of groups g and h occurs w_g w_h times. Pairs of two
        # copies of one group are left out, for they compare classes with themselves.
        num_groups = len(self._within)
        first, second = np.triu_indices(num_groups, 1)
        apart = self._between[first, second].astype(float)
        own = self._between[np.arange(num_groups), np.arange(num_groups)].astype(float)
        for copies in class_copies(num_groups, num_resamples, seed):
            copies = copies.astype(float)
            negatives = copies @ own + (copies[:, first] * copies[:, second]) @ apart
            yield copies @ self._within.astype(float), negatives


_GROUPS = 128
_POSITIVE_SHARES = np.linspace(0, 1, 129)
_NEGATIVE_SHARES = np.r_[np.geomspace(1e-9, 1, 145), np.linspace(0, 1, 65)]


class _RocCurve(NamedTuple):
    false_match_rates: np.ndarray
    true_match_rates: np.ndarray
    distances: np.ndarray


class _OperatingPoint(NamedTuple):
    threshold: float
    false_match_rate: float
    true_match_rate: float


class _PairsOfClasses(NamedTuple):
    positives: np.ndarray
    negatives: np.ndarray
    num_positive: np.ndarray
    num_negative: np.ndarray
    image_negatives: np.ndarray | None


class PairDistances:
    """The distances of all pairs of embeddings, with pairs of the same class told apart.

    The pairs are counted block by block: memory grows with the number of embeddings, not of pairs.
    Distances are computed in float64, and equal embeddings have the distance 0. With up to 1,448
    different embeddings, every distance is exact. With more, distances above 0 are rounded up to
    one of 2^20 steps, which are wider for larger distances; the counts at a step are exact.

    Args:
        embeddings: floats `(N, D)`.
        labels: integers `(N,)` or `(N, 1)`, the classes.
        metric: the distance; "cosine" is 1 - cosine similarity.
        seed: seed of the groups of classes that are resampled together, if there are more than 128.

    Attributes:
        labels: integers `(N,)`.
        classes: integers `(C,)`, the labels that occur, ascending.
        num_positive: number of pairs of the same class.
        num_negative: number of pairs of different classes.
        num_positive_classes: number of classes with two embeddings or more.

    Raises:
        ValueError: if there is a single class, or no class has two embeddings.

    Example:
        >>> pairs = PairDistances([[0.0], [1.0], [3.0], [5.0]], [0, 0, 1, 1])
        >>> pairs.num_positive, pairs.num_negative, pairs.auc()
        (2, 4, 0.9375)
    """

    def __init__(
        self, embeddings: ArrayLike, labels: ArrayLike, metric: Metric = "euclidean", seed: int = 0
    ):
        embeddings = checked_embeddings(embeddings, "embeddings", wide=True)
        labels = checked_labels(labels, len(embeddings), "labels")
        self.labels = labels
        self.classes, numbers, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        sizes = sizes.astype(np.int64)
        self.num_positive_classes = int(np.count_nonzero(sizes > 1))
        self.num_positive = int((sizes * (sizes - 1) // 2).sum())
        self.num_negative = len(labels) * (len(labels) - 1) // 2 - self.num_positive
        if not self.num_positive or not self.num_negative:
            raise ValueError(
                "Pairs of the same class and of different classes are needed; received "
                f"{len(labels)} embeddings of {len(self.classes)} classes."
            )
        shuffled = np.random.default_rng(checked_seed(seed)).permutation(len(self.classes))
        self._place = np.argsort(shuffled)  # of each class in the shuffled order
        self._order = np.argsort(self._place[numbers], kind="stable")
        self._ends = np.cumsum(sizes[shuffled])
        first, numbers = distinct_rows(embeddings)
        scale = _ExactScale if len(first) <= _MOST_DISTINCT else _SteppedScale
        self._scale = scale(embeddings, metric, self._order, first, numbers)
        self._positives, self._negatives = self._counted()

    def _counted(self):
        """Cumulative counts `(S,)` of positive and negative pairs."""
        classes = self._sorted_classes()
        ends = np.append(np.arange(_SIDE, len(classes), _SIDE), len(classes))
        every, same = np.zeros((2, self._scale.size), np.int64)
        for rows, columns, steps in self._scale.blocks(ends, "Counting pairs"):
            of_rows, of_columns = classes[rows], classes[columns]
            if rows == columns or of_rows[-1] == of_columns[0]:
                is_same = of_rows[:, None] == of_columns
                if rows == columns:
                    is_same = np.triu(is_same, 1)
                same += np.bincount(steps[is_same], minlength=self._scale.size)
            if rows == columns:
                steps = steps[np.triu_indices(len(steps), 1)]
            every += np.bincount(steps.ravel(), minlength=self._scale.size)
        return np.cumsum(same), np.cumsum(every - same)

    def _sorted_classes(self):
        """Numbers of the classes in shuffled order, as the rows of the scale have them."""
        return np.repeat(np.arange(len(self._ends)), np.diff(self._ends, prepend=0))

    def roc(self) -> _RocCurve:
        """The ROC curve: one point for each step that has pairs.

        Returns:
            `false_match_rates`, `true_match_rates` and `distances`, floats `(S,)`, ascending.
        """
        both = self._positives + self._negatives
        steps = np.flatnonzero(np.diff(both, prepend=0))
        shares = (curves.rates(c)[steps] for c in (self._negatives, self._positives))
        return _RocCurve(*shares, self._scale.distances(steps))

    def auc(self) -> float:
        """Area under the ROC curve: how often a positive pair is nearer than a negative one."""
        return float(curves.auc(self._positives, self._negatives))

    def eer(self) -> float:
        """The rate at which false matches and false non-matches are equal, interpolated."""
        return float(curves.eer(self._positives, self._negatives))

    def average_precision(self) -> float:
        """The mean precision over the pairs of the same class in order of distance."""
        return float(curves.average_precision(self._positives, self._negatives))

    def accuracy(self) -> float:
        """The largest share of the pairs that one threshold classifies rightly."""
        return float(curves.accuracy(self._positives, self._negatives))

    def f1(self) -> float:
        """The largest harmonic mean of precision and recall of one threshold."""
        return float(curves.f1(self._positives, self._negatives))

    def at_false_match_rate(self, rate: float) -> _OperatingPoint:
        """The largest distance that occurs with at most this share of false matches.

        Args:
            rate: accepted share of the pairs of different classes that match, in [0, 1].

        Returns:
            `threshold`, the distance up to which pairs match, negative if no pair may;
            `false_match_rate` (FMR, FAR) and `true_match_rate` (TAR, 1 - FNMR), the shares of the
            pairs of different classes and of the same class that match.
        """
        _check_rate(rate)
        allowed = np.floor(rate * self.num_negative * (1 + 1e-12))
        last = np.searchsorted(self._negatives, allowed, "right") - 1
        both = self._positives + self._negatives
        matched = both[last] if last >= 0 else 0
        return self._point(np.searchsorted(both, matched) if matched else -1)

    def at_true_match_rate(self, rate: float) -> _OperatingPoint:
        """The smallest distance up to which this share of the pairs of the same class lie.

        Args:
            rate: share of the pairs of the same class that match, in [0, 1].
        """
        _check_rate(rate)
        needed = np.ceil(rate * self.num_positive * (1 - 1e-12))
        return self._point(int(np.searchsorted(self._positives, needed)))

    def at_threshold(self, threshold: float) -> _OperatingPoint:
        """The rates of a given threshold, rounded up to a step where distances are."""
        return self._point(int(self._scale.steps_at(threshold)))

    def _point(self, step):
        if step < 0:
            return _OperatingPoint(-1.0, 0.0, 0.0)
        mismatched = self._negatives[step] / self.num_negative
        matched = self._positives[step] / self.num_positive
        return _OperatingPoint(*map(float, (self._scale.distances(step), mismatched, matched)))

    def by_class(self, thresholds: Sequence[float], by_image: bool = False) -> _PairsOfClasses:
        """Counts the pairs of each class up to some distances.

        Args:
            thresholds: distances, rounded up to steps where distances are.
            by_image: also count those of each embedding.

        Returns:
            integers: `positives` and `negatives` `(C, T)`, the pairs within each class and with
            other classes up to each distance; `num_positive` and `num_negative` `(C,)`, all of
            them; and `image_negatives` `(N, T)`, those of each embedding with other classes, or
            `None`.
        """
        steps, places = np.unique(self._scale.steps_at(thresholds), return_inverse=True)
        found = self._class_pairs(steps, steps if by_image else ())
        images = np.empty_like(found.image_negatives)
        images[self._order] = found.image_negatives
        sizes = np.diff(self._ends, prepend=0)[self._place]
        return _PairsOfClasses(
            positives=found.positives[self._place][:, places].astype(np.int64),
            negatives=found.negatives[self._place][:, places].astype(np.int64),
            num_positive=sizes * (sizes - 1) // 2,
            num_negative=sizes * (len(self._order) - sizes),
            image_negatives=images[:, places] if by_image else None,
        )

    def _class_pairs(self, steps, image_steps=()):
        count = len(self.classes)
        groups = np.arange(count) * min(count, _GROUPS) // count
        classes = self._sorted_classes()
        return _ClassPairs(self._scale, classes, self._ends, groups, steps, image_steps)

    def resampled_curves(self, num_resamples: int, seed: int, thresholds: Sequence[float] = ()):
        """The curves of these pairs and of resampled classes, at the same distances.

        Args:
            num_resamples: number B of resamples.
            seed: seed of the resamples.
            thresholds: distances at which the curves are needed.

        Returns:
            distances `(S,)`, and counts `(1 + B, S)` of positive and of negative pairs up to them;
            the first row has the pairs themselves.
        """
        wanted = [np.maximum(self._scale.steps_at(thresholds), 0)] if len(thresholds) else []
        for counts, shares in (
            (self._positives, _POSITIVE_SHARES),
            (self._negatives, _NEGATIVE_SHARES),
        ):
            wanted.append(np.searchsorted(counts, np.ceil(shares * counts[-1])))
        steps = np.unique(np.concatenate([*wanted, [self._scale.size - 1]]))
        found = self._class_pairs(steps)
        parts = [(self._positives[steps][None], self._negatives[steps][None])]
        parts += ((p[:, :-1], n[:, :-1]) for p, n in found.resampled(num_resamples, seed))
        return self._scale.distances(steps), *map(np.concatenate, zip(*parts, strict=True))


def _check_rate(rate):
    """Raises `ValueError` unless a rate is in [0, 1]."""
    if not 0 <= rate <= 1:
        raise ValueError(f"rates must be in [0, 1]; received {rate}.")
