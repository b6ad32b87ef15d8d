"""Distances of all pairs of embeddings, counted by same and different class."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._integers import checked_seed
from gsp_tf.evaluation import _pair_curves as curves
from gsp_tf.evaluation._class_pairs import ClassPairs
from gsp_tf.evaluation._pair_scale import SIDE, pair_scale
from gsp_tf.evaluation.search_space import Metric
from gsp_tf.evaluation.vectors import checked_embeddings, checked_labels

_GROUPS = 128
_POSITIVE_SHARES = np.linspace(0, 1, 129)
_NEGATIVE_SHARES = np.r_[np.geomspace(1e-9, 1, 145), np.linspace(0, 1, 65)]


class RocCurve(NamedTuple):
    """Shares of pairs up to each distance that occurs.

    Args:
        false_match_rates: floats `(S,)`, shares of the pairs of different classes.
        true_match_rates: floats `(S,)`, shares of the pairs of the same class.
        distances: floats `(S,)`, ascending.

    Example:
        >>> PairDistances([[0.0], [1.0], [3.0], [5.0]], [0, 0, 1, 1]).roc().true_match_rates
        array([0.5, 1. , 1. , 1. , 1. ])
    """

    false_match_rates: np.ndarray
    true_match_rates: np.ndarray
    distances: np.ndarray


class OperatingPoint(NamedTuple):
    """A threshold of the distance, and how often it is right and wrong.

    Args:
        threshold: pairs up to this distance match; negative if no pair may match.
        false_match_rate: share of the pairs of different classes that match (FMR, FAR).
        true_match_rate: share of the pairs of the same class that match (TAR, 1 - FNMR).

    Example:
        >>> pairs = PairDistances([[0.0], [1.0], [3.0], [5.0]], [0, 0, 1, 1])
        >>> point = pairs.at_false_match_rate(0.25)
        >>> round(point.threshold, 3), point.false_match_rate, point.true_match_rate
        (2.0, 0.25, 1.0)
    """

    threshold: float
    false_match_rate: float
    true_match_rate: float


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
        ValueError: if embeddings are not finite or not `(N, D)`, there is not one label per
            embedding, there is a single class, no class has two embeddings, or the metric is
            unknown.
        TypeError: if labels are not integers.

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
        self._scale = pair_scale(embeddings, metric, self._order)
        self._positives, self._negatives = self._counted()

    def _counted(self):
        """Cumulative counts `(S,)` of positive and negative pairs."""
        classes = self._sorted_classes()
        ends = np.append(np.arange(SIDE, len(classes), SIDE), len(classes))
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

    def roc(self) -> RocCurve:
        """The ROC curve: one point for each step that has pairs."""
        both = self._positives + self._negatives
        steps = np.flatnonzero(np.diff(both, prepend=0))
        shares = (curves.rates(c)[steps] for c in (self._negatives, self._positives))
        return RocCurve(*shares, self._scale.distances(steps))

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

    def at_false_match_rate(self, rate: float) -> OperatingPoint:
        """The largest distance that occurs with at most this share of false matches.

        Args:
            rate: accepted share of the pairs of different classes that match, in [0, 1].

        Raises:
            ValueError: if the rate is not in [0, 1].
        """
        return self._point(self._steps_at([rate])[0])

    def at_true_match_rate(self, rate: float) -> OperatingPoint:
        """The smallest distance up to which this share of the pairs of the same class lie.

        Args:
            rate: share of the pairs of the same class that match, in [0, 1].

        Raises:
            ValueError: if the rate is not in [0, 1].
        """
        _checked_rates([rate])
        needed = np.ceil(rate * self.num_positive * (1 - 1e-12))
        return self._point(int(np.searchsorted(self._positives, needed)))

    def at_threshold(self, threshold: float) -> OperatingPoint:
        """The rates of a given threshold, rounded up to a step where distances are."""
        return self._point(int(self._scale.steps_at(threshold)))

    def _steps_at(self, rates):
        """The last steps with pairs up to which the shares of false matches are allowed."""
        _checked_rates(rates)
        last = curves.step_at(self._negatives, np.reshape(rates, (-1, 1)))
        both = self._positives + self._negatives
        matched = np.where(last < 0, 0, both[last])
        return np.where(matched == 0, -1, np.searchsorted(both, matched))

    def _point(self, step):
        if step < 0:
            return OperatingPoint(-1.0, 0.0, 0.0)
        mismatched = self._negatives[step] / self.num_negative
        matched = self._positives[step] / self.num_positive
        return OperatingPoint(*map(float, (self._scale.distances(step), mismatched, matched)))

    def by_class(self, thresholds: Sequence[float], by_image: bool = False) -> "PairsOfClasses":
        """Counts the pairs of each class up to some distances.

        Args:
            thresholds: distances, rounded up to steps where distances are.
            by_image: also count those of each embedding.

        Returns:
            `PairsOfClasses`.
        """
        steps, places = np.unique(self._scale.steps_at(thresholds), return_inverse=True)
        found = self._class_pairs(steps, steps if by_image else ())
        images = np.empty_like(found.image_negatives)
        images[self._order] = found.image_negatives
        sizes = np.diff(self._ends, prepend=0)[self._place]
        return PairsOfClasses(
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
        return ClassPairs(self._scale, classes, self._ends, groups, steps, image_steps)

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
        wanted = [self._scale.steps_at(thresholds)] if len(thresholds) else []
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


class PairsOfClasses(NamedTuple):
    """Counts of pairs of each of C classes, and of each of N embeddings, up to T distances.

    Args:
        positives: integers `(C, T)`, pairs within the class.
        negatives: integers `(C, T)`, pairs of the class with other classes.
        num_positive: integers `(C,)`, all pairs within the class.
        num_negative: integers `(C,)`, all pairs of the class with other classes.
        image_negatives: integers `(N, T)`, pairs of each embedding with other classes; `None` if
            they were not counted.

    Example:
        >>> pairs = PairDistances([[0.0], [1.0], [3.0], [5.0]], [0, 0, 1, 1])
        >>> pairs.by_class([2.1, 3.1]).negatives
        array([[1, 2],
               [1, 2]])
    """

    positives: np.ndarray
    negatives: np.ndarray
    num_positive: np.ndarray
    num_negative: np.ndarray
    image_negatives: np.ndarray | None


def _checked_rates(rates):
    """Raises `ValueError` unless all rates are in [0, 1]."""
    if not all(0 <= rate <= 1 for rate in rates):
        raise ValueError(f"rates must be in [0, 1]; received {', '.join(map(str, rates))}.")
