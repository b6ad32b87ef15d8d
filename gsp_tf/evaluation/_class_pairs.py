"""Counts of pairs by class, by image and by groups of classes, and their resampling."""

import numpy as np

from gsp_tf._integers import checked_seed
from gsp_tf.evaluation._pair_scale import SIDE, PairScale

_REPLICATES = 64


class ClassPairs:
    """Cumulative counts of pairs up to each of S steps."""

    # `positives` (C, S) are the pairs within each class, `negatives` (C, S) those of its images
    # with other classes, and `image_negatives` (N, T) those of each image up to T of the steps.

    def __init__(self, scale: PairScale, classes, ends, groups, steps, image_steps=()):
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
        parts = np.union1d(last, np.arange(SIDE, last[-1], SIDE))
        for block in scale.blocks(parts, "Counting pairs by class"):
            self._count(*block)
        for counts in (self.positives, self.negatives, self._between):
            np.cumsum(counts, axis=-1, out=counts)
        starts = np.searchsorted(groups, np.arange(num_groups))
        self._within = np.add.reduceat(self.positives, starts, axis=0, dtype=np.int64)

    def _count(self, rows, columns, steps):
        steps = self._lookup[steps]
        parts = [self._classes[part] for part in (rows, columns)]
        if rows == columns or parts[0][-1] == parts[1][0]:
            i, j, steps = self._count_positives(rows, columns, *parts, steps)
            numbers = [i, j]
            for part, of in zip((rows, columns), numbers, strict=True):
                for t, limit in enumerate(self._limits):
                    found = np.bincount(of[steps <= limit], minlength=part.stop - part.start)
                    self.image_negatives[part, t] += found
            numbers = [classes[of] for classes, of in zip(parts, numbers, strict=True)]
        else:
            for t, limit in enumerate(self._limits):
                is_below = steps <= limit
                self.image_negatives[rows, t] += np.count_nonzero(is_below, axis=1)
                self.image_negatives[columns, t] += np.count_nonzero(is_below, axis=0)
            numbers = [parts[0][:, None], parts[1]]
        for classes, of in zip(parts, numbers, strict=True):
            counts = self._add(self.negatives, classes, of, steps)
        self._between[self._groups[parts[0][0]], self._groups[parts[1][0]]] += counts.sum(axis=0)

    def _count_positives(self, rows, columns, row_classes, column_classes, steps):
        """Counts the pairs within classes; returns rows, columns and steps of the others."""
        before = np.less.outer(np.arange(rows.start, rows.stop), np.r_[columns])
        i, j = np.nonzero(before)
        steps, of_pairs = steps[i, j], row_classes[i]
        is_same = of_pairs == column_classes[j]
        self._add(self.positives, row_classes, of_pairs[is_same], steps[is_same])
        return i[~is_same], j[~is_same], steps[~is_same]

    def _add(self, histograms, classes, of_pairs, steps):
        """Adds pairs to the histograms of some consecutive classes; returns what it added."""
        first, count = classes[0], classes[-1] - classes[0] + 1
        keys = ((of_pairs - first) * self._size + steps).ravel()
        counts = np.bincount(keys, minlength=count * self._size).reshape(count, -1)
        histograms[first : first + count] += counts.astype(histograms.dtype)
        return counts

    def resampled(self, num_resamples: int, seed: int):
        """Yields counts `(b, S)` of positive and negative pairs among resampled classes."""
        # With w copies of each group, a pair of groups g and h occurs w_g w_h times. Pairs of two
        # copies of one group are left out, for they compare classes with themselves.
        num_groups = len(self._within)
        rng = np.random.default_rng(checked_seed(seed))
        first, second = np.triu_indices(num_groups, 1)
        apart = self._between[first, second].astype(float)
        own = self._between[np.arange(num_groups), np.arange(num_groups)].astype(float)
        for start in range(0, num_resamples, _REPLICATES):
            size = min(_REPLICATES, num_resamples - start)
            copies = rng.multinomial(num_groups, np.full(num_groups, 1 / num_groups), size)
            copies = copies.astype(float)
            negatives = copies @ own + (copies[:, first] * copies[:, second]) @ apart
            yield copies @ self._within.astype(float), negatives
