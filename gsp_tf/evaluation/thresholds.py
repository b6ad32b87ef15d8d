"""Thresholds of distances: from a calibration set, with a guarantee, and their consistency."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._arguments import check_positive, check_sizes, checked_seed
from gsp_tf.evaluation._vectors import checked_embeddings, checked_labels, rows_by_class
from gsp_tf.evaluation.estimates import Estimate, check_resampling, class_copies, estimate
from gsp_tf.evaluation.exact_search import ExactSearch
from gsp_tf.evaluation.pair_distances import PairDistances
from gsp_tf.evaluation.search_space import Metric

_RULE_OF_THREE = 3
_SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class _CalibratedThreshold:
    distance: Estimate
    false_match_rate: Estimate
    true_match_rate: Estimate


@dataclass(frozen=True)
class _Calibration:
    match: _CalibratedThreshold
    unknown: _CalibratedThreshold
    class_rates: np.ndarray
    is_over: np.ndarray
    precision: Estimate | None


def calibrate_thresholds(
    pairs: PairDistances,
    false_match_rate: float,
    missed_match_rate: float = 0.05,
    base_rate: float | None = None,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> _Calibration:
    """Thresholds at a false match rate, which hold for the pairs that they are measured on.

    Two images *match* up to the largest distance at which at most `false_match_rate` of the pairs
    of different classes match. An image is *unknown* beyond the distance that only
    `missed_match_rate` of the pairs of the same class exceed, if that is larger. In between, it is
    *unsure*.

    On other classes of the same kind the rate is about as often above the chosen one as below, and
    the interval of `match.false_match_rate` says how far. The intervals resample classes, as in
    `verification_metrics`. Their ends are NaN with fewer classes than `classes_for_interval`, 5 for
    a confidence of 0.95; those of true match rates, of a threshold of unknown and of the precision
    need as many classes with two embeddings.

    A rate f is refused with fewer than 3 / f pairs of different classes. By the rule of three
    (Hanley, Lippman-Hand, "If Nothing Goes Wrong, Is Everything All Right?", JAMA 1983), not even a
    count of zero false matches among fewer pairs would show, with 95 % confidence, that the rate is
    below f.

    A class is over the rate if its own rate is significantly higher, at 5 % over all classes (Holm,
    "A Simple Sequentially Rejective Multiple Test Procedure", 1979). The pairs of an image depend
    on each other, so its p-value is the larger of that of a binomial test on pairs and that of a
    t-test on the rates of its images. A class with one image is never over the rate.

    With the share π of true matches among the pairs that are compared, a match is right with
    probability `π TMR / (π TMR + (1 - π) FMR)`.

    Args:
        pairs: distances of all pairs, of classes that the model was not trained on.
        false_match_rate: share of the pairs of different classes that may match, in (0, 1).
        missed_match_rate: share of the pairs of the same class that are unknown, in (0, 1).
        base_rate: π, the share of pairs of the same class among those to come, in (0, 1).
        num_resamples, confidence, seed: as in `verification_metrics`.

    Returns:
        `match` and `unknown`, each with the `Estimate` of `distance`, `false_match_rate` and
        `true_match_rate`, the shares of pairs up to the distance; its interval is that of
        thresholds chosen in the same way for resampled classes. `class_rates`, floats `(C,)`, the
        share of false matches of each of `pairs.classes` at `match`; `is_over`, bools `(C,)`,
        whether it is significantly over the rate; and `precision`, the share of true matches among
        matches at the base rate, or `None` without one.

    Raises:
        ValueError: if the pairs cannot support the rate, or no pair keeps it.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(200) // 10
        >>> embeddings = rng.normal(size=(20, 8))[labels] + 0.3 * rng.normal(size=(200, 8))
        >>> found = calibrate_thresholds(PairDistances(embeddings, labels), 0.01, base_rate=0.05)
        >>> print(found.match.distance)
        1.779 [1.322, 2.204]
        >>> print(found.precision)
        0.8357 [0.608, 0.9774]
    """
    check_resampling(num_resamples, confidence)
    shares = {"false_match_rate": false_match_rate, "missed_match_rate": missed_match_rate}
    shares |= {} if base_rate is None else {"base_rate": base_rate}
    for name, share in shares.items():
        if not 0 < share < 1:
            raise ValueError(f"{name} must be between 0 and 1; received {share:g}.")
    needed = math.ceil(_RULE_OF_THREE / false_match_rate * (1 - 1e-12))
    if pairs.num_negative < needed:
        raise ValueError(
            f"A false match rate of {false_match_rate:g} needs at least {needed:,} pairs of "
            f"different classes (rule of three); there are {pairs.num_negative:,}. The smallest "
            f"rate that they can support is {_rounded_up(_RULE_OF_THREE / pairs.num_negative):g}."
        )
    match = pairs.at_false_match_rate(false_match_rate)
    if match.threshold < 0:
        raise ValueError(
            f"No pair may match at a false match rate of {false_match_rate:g}: more pairs of "
            "different classes have the smallest distance that occurs."
        )
    unknown = pairs.at_true_match_rate(1 - missed_match_rate)
    unknown = max(match, unknown)
    curves = _Resampled(pairs, num_resamples, confidence, seed, [match, unknown])
    matched = curves.calibrated(match, curves.negatives, false_match_rate)
    missed = curves.calibrated(unknown, curves.positives, 1 - missed_match_rate)
    rates, is_over = _classes_over(pairs, match.threshold, false_match_rate)
    return _Calibration(
        match=matched,
        unknown=missed if unknown.threshold > match.threshold else matched,
        class_rates=rates,
        is_over=is_over,
        precision=None if base_rate is None else curves.precision(match, base_rate),
    )


def _rounded_up(share):
    """The next larger number of two digits."""
    unit = 10.0 ** (math.floor(math.log10(share)) - 1)
    return round(math.ceil(share / unit) * unit, 12)


class _Resampled:
    """Rates at points of the curves of resampled classes, each with its number of classes."""

    def __init__(self, pairs, num_resamples, confidence, seed, points):
        self._confidence = confidence
        self._distances, *counts = pairs.resampled_curves(
            num_resamples, seed, [point.threshold for point in points]
        )
        with np.errstate(invalid="ignore"):
            positives, negatives = (c / c[:, -1:] for c in counts)
        self.positives = positives, pairs.num_positive_classes
        self.negatives = negatives, len(pairs.classes)

    def calibrated(self, point, curves, rate):
        """The threshold and its rates; its interval is that of distances with a share of pairs."""
        shares, classes = curves
        chosen = np.array([np.interp(rate, share, self._distances) for share in shares])
        chosen += point.threshold - chosen[0]
        return _CalibratedThreshold(
            estimate(point.threshold, chosen[1:], self._confidence, classes),
            self._rate(point, point.false_match_rate, self.negatives),
            self._rate(point, point.true_match_rate, self.positives),
        )

    def precision(self, point, base_rate):
        """The share of true matches among matches."""
        true, false = (self._at(point, curves) for curves in (self.positives, self.negatives))
        values = np.stack([base_rate * true, (1 - base_rate) * false])
        with np.errstate(invalid="ignore"):
            value, *resampled = values[0] / values.sum(axis=0)
        return estimate(value, np.array(resampled), self._confidence, self.positives[1])

    def _rate(self, point, value, curves):
        return estimate(value, self._at(point, curves)[1:], self._confidence, curves[1])

    def _at(self, point, curves):
        shares, _ = curves
        return shares[:, np.searchsorted(self._distances, point.threshold * (1 - 1e-12))]


def _classes_over(pairs, threshold, rate):
    """False match rate of each class `(C,)`, and whether it is significantly over a rate."""
    from scipy.special import bdtrc, stdtr

    found = pairs.by_class([threshold], by_image=True)
    false, count = found.negatives[:, 0], found.num_negative
    rates = false / count
    classes = np.searchsorted(pairs.classes, pairs.labels)
    sizes = np.bincount(classes)
    of_images = found.image_negatives[:, 0] * (sizes / count)[classes]
    squares = np.bincount(classes, weights=np.square(of_images - rates[classes]))
    degrees = np.maximum(sizes - 1, 1)
    errors = np.sqrt(squares / (degrees * sizes))
    with np.errstate(divide="ignore", invalid="ignore"):
        statistics = np.where(rates > rate, (rates - rate) / errors, -np.inf)
    p_images = np.where(sizes > 1, stdtr(degrees, -statistics), 1.0)
    p_values = np.maximum(bdtrc(false - 1, count, rate), p_images)
    order = np.argsort(p_values)
    is_kept = p_values[order] > _SIGNIFICANCE / np.arange(len(order), 0, -1)
    is_over = np.zeros(len(order), bool)
    is_over[order] = ~np.logical_or.accumulate(is_kept)
    return rates, is_over


def conformal_threshold(
    embeddings: ArrayLike,
    labels: ArrayLike,
    coverage: float,
    metric: Metric = "euclidean",
    seed: int = 0,
) -> float:
    """The distance within which a search finds an image of the query's class often enough.

    Split conformal prediction with one image of each class, so that the classes need to be
    exchangeable and the images of a class need not be independent (Dunn, Wasserman, Ramdas,
    "Distribution-Free Prediction Sets for Two-Layer Hierarchical Models", JASA 2022, subsampling
    once). The score of a class is the distance from a random image to its nearest other image of
    the class. The threshold is the `ceil((C + 1) coverage)`-th smallest of the C scores. For a
    query of a new class with as many other images in the gallery, the set of all images up to the
    threshold holds one of its class with at least this probability.

    Args:
        embeddings: floats `(N, D)`.
        labels: integers `(N,)` or `(N, 1)`; classes of one image are left out.
        coverage: the probability, in (0, 1).
        metric: the distance.
        seed: seed of the choice of images.

    Returns:
        The threshold.

    Raises:
        ValueError: if there are too few classes for the coverage.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(200) // 10
        >>> embeddings = rng.normal(size=(20, 8))[labels] + 0.3 * rng.normal(size=(200, 8))
        >>> round(conformal_threshold(embeddings, labels, 0.9), 3)
        1.026
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must be between 0 and 1; received {coverage:g}.")
    embeddings = checked_embeddings(embeddings, "embeddings")
    labels = checked_labels(labels, len(embeddings), "labels")
    rng = np.random.default_rng(checked_seed(seed))
    classes = [rows for rows in rows_by_class(labels) if len(rows) > 1]
    rank = math.ceil((len(classes) + 1) * coverage - 1e-9)
    if rank > len(classes):
        needed = math.ceil(coverage / (1 - coverage) - 1e-9)
        raise ValueError(
            f"A coverage of {coverage:g} needs at least {needed} classes of two images or more; "
            f"there are {len(classes)}."
        )
    scores = []
    for rows in classes:
        query, *others = rng.permutation(rows)
        _, distances = ExactSearch(embeddings[others], metric)(embeddings[[query]], 1)
        scores.append(distances[0, 0])
    return float(np.sort(scores)[rank - 1])


class ThresholdConsistency(NamedTuple):
    """How the utility of each class depends on the threshold.

    Args:
        opis: the operating-point inconsistency score; 0 if all classes have the same utilities.
        classes: integers `(C,)`, the classes with at least two embeddings.
        contributions: floats `(C,)`, the share of each class in the score; their mean is `opis`.
        utilities: floats `(C, T)` in [0, 1].
        thresholds: floats `(T,)`.

    Example:
        >>> pairs = PairDistances([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1])
        >>> opis(pairs, (0.25, 1.0)).contributions
        array([0., 0.])
    """

    opis: float
    classes: np.ndarray
    contributions: np.ndarray
    utilities: np.ndarray
    thresholds: np.ndarray

    def estimate(
        self, num_resamples: int = 1000, confidence: float = 0.95, seed: int = 0
    ) -> Estimate:
        """The score with an interval from samples of its classes with replacement.

        The utilities of a class and the calibration range stay those of all classes. A sample of C
        classes holds fewer different ones, which makes its score smaller by the factor (C - 1) / C
        on average; the factor is taken out. In simulations with 15 to 60 classes, 95 % intervals
        held the score of many classes in 87 to 90 of 100 cases. The ends are NaN with fewer classes
        than `classes_for_interval`.

        Args:
            num_resamples, confidence, seed: as in `verification_metrics`.

        Example:
            >>> rng = np.random.default_rng(0)
            >>> labels = np.arange(80) // 10
            >>> points = rng.normal(size=(8, 4))[labels] + 0.5 * rng.normal(size=(80, 4))
            >>> print(opis(PairDistances(points, labels)).estimate())
            0.01194 [0.004576, 0.0212]
        """
        check_resampling(num_resamples, confidence)
        count, resampled = len(self.classes), []
        for copies in class_copies(count, num_resamples, seed):
            shares = copies / count
            means = shares @ self.utilities
            variances = shares @ np.square(self.utilities) - np.square(means)
            resampled.append(np.trapezoid(variances, self.thresholds, axis=1))
        width = (self.thresholds[-1] - self.thresholds[0]) * max(count - 1, 1) / count
        return estimate(self.opis, np.concatenate(resampled) / width, confidence, count)


def opis(
    pairs: PairDistances,
    false_match_rates: tuple[float, float] = (1e-2, 1e-1),
    weight: float = 1.0,
    num_thresholds: int = 101,
) -> ThresholdConsistency:
    """The operating-point inconsistency score, which says whether classes agree at one threshold.

    OPIS of Zhang et al., "Threshold-Consistent Margin Loss for Open-World Deep Metric Learning",
    ICLR 2024. At the distance d, class i has the specificity φ_i(d), the share of its pairs with
    other classes that do not match, and the sensitivity ψ_i(d), the share of the pairs within it
    that do. Its utility is `U_i(d) = (1 + c^2) φ_i ψ_i / (c^2 φ_i + ψ_i)`, and
    `OPIS = mean over i of ∫ (U_i(d) - U(d))^2 dd / (d_max - d_min)` with the mean U(d) over the
    classes. The calibration range from d_min to d_max is where the false match rate of all classes
    together is in the given range. The integral is a sum of trapezoids.

    This definition was checked against the paper's abstract, its public reviews and an independent
    description of the metric, which agree with it, and not against the paper's own equations.

    Args:
        pairs: distances of all pairs; classes of one embedding count as other classes only.
        false_match_rates: false match rates at d_min and d_max.
        weight: c; 1 gives the harmonic mean.
        num_thresholds: number of distances in the calibration range, ends included.

    Returns:
        `ThresholdConsistency`.

    Raises:
        ValueError: if the rates do not ascend, or pairs of different classes are too few for them.

    Example:
        >>> pairs = PairDistances([[0.0], [2.0], [3.0], [4.0]], [0, 0, 1, 1])
        >>> round(opis(pairs, (0.25, 1.0)).opis, 4)
        0.0615
    """
    check_sizes(2, num_thresholds=num_thresholds)
    check_positive(weight=weight)
    if not false_match_rates[0] < false_match_rates[1]:
        raise ValueError(f"false_match_rates must ascend; received {false_match_rates}.")
    low, high = (pairs.at_false_match_rate(rate).threshold for rate in false_match_rates)
    low = max(low, 0.0)
    if not low < high:
        raise ValueError(
            "OPIS needs two distances between the false match rates "
            f"{false_match_rates[0]:g} and {false_match_rates[1]:g}; the {pairs.num_negative:,} "
            "pairs of different classes are too few or too alike."
        )
    thresholds = np.linspace(low, high, num_thresholds)
    found = pairs.by_class(thresholds)
    used = found.num_positive > 0
    sensitivity = found.positives[used] / found.num_positive[used, None]
    specificity = 1 - found.negatives[used] / found.num_negative[used, None]
    square = weight**2
    total = square * specificity + sensitivity
    both = (1 + square) * specificity * sensitivity
    utilities = np.divide(both, total, out=np.zeros_like(both), where=total > 0)
    deviations = np.square(utilities - utilities.mean(axis=0))
    contributions = np.trapezoid(deviations, thresholds, axis=1) / (high - low)
    return ThresholdConsistency(
        float(contributions.mean()), pairs.classes[used], contributions, utilities, thresholds
    )
