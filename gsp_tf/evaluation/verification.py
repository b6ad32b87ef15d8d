"""Verification and open-set identification: are two images of the same class?"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf.evaluation import _pair_curves as curves
from gsp_tf.evaluation._vectors import checked_images
from gsp_tf.evaluation.estimates import Estimate, check_resampling, class_copies, estimate
from gsp_tf.evaluation.exact_search import ExactSearch
from gsp_tf.evaluation.pair_distances import PairDistances
from gsp_tf.evaluation.search_space import Metric


def verification_metrics(
    pairs: PairDistances,
    false_match_rates: Sequence[float] = (1e-3,),
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Estimate]:
    """AUC, EER, TAR@FAR, FNMR@FMR and the threshold for each rate, with intervals.

    A pair matches if its distance is at most the threshold. TAR is the share of the pairs of the
    same class that match; FAR or FMR is the share of the pairs of different classes that match, and
    FNMR = 1 - TAR (ISO/IEC 19795-1). TAR@FAR is the largest TAR of a threshold with at most this
    FAR, counted exactly. The EER is the rate at which FAR and FNMR are equal, interpolated between
    distances. Accuracy, F1 and average precision are those of all pairs as they are; they depend on
    how many of the pairs are of the same class.

    The intervals are percentiles over samples of the classes with replacement. The pairs of an
    image depend on each other, so resampling pairs would give intervals that are far too small. A
    pair of classes that were drawn v and w times counts v w times; classes are not compared with
    their own copies. More than 128 classes are resampled in 128 random groups. Curves of resampled
    classes are interpolated between about 300 distances. With fewer classes than
    `classes_for_interval`, 5 for a confidence of 0.95, the ends of an interval are NaN. Those of
    all metrics but the thresholds need as many classes with two embeddings.

    Args:
        pairs: distances of all pairs.
        false_match_rates: the values of FAR.
        num_resamples: number of samples of the classes.
        confidence: share of the resampled values in each interval.
        seed: seed of the samples.

    Returns:
        `auc`, `eer`, `average_precision`, the largest `accuracy` and `f1` of one threshold, and for
        each rate `tar_at_far_RATE`, `fnmr_at_fmr_RATE` and `threshold_at_far_RATE`.

    Raises:
        ValueError: if pairs are too few for a false match at a rate.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(200) // 10
        >>> embeddings = rng.normal(size=(20, 8))[labels] + 0.5 * rng.normal(size=(200, 8))
        >>> metrics = verification_metrics(PairDistances(embeddings, labels), [0.01])
        >>> print(metrics["tar_at_far_0.01"])
        0.55 [0.2831, 0.7975]
    """
    check_resampling(num_resamples, confidence)
    _check_rates("false_match_rates", false_match_rates, pairs.num_negative, "pairs of different")
    points = [pairs.at_false_match_rate(rate) for rate in false_match_rates]
    distances, positives, negatives = pairs.resampled_curves(
        num_resamples, seed, [point.threshold for point in points]
    )
    names = "auc", "eer", "average_precision", "accuracy", "f1"
    measured = {
        name: (getattr(pairs, name)(), getattr(curves, name)(positives, negatives))
        for name in names
    }
    matched = curves.rates(positives)
    for rate, point in zip(false_match_rates, points, strict=True):
        reached = [curves.at_rate(negatives, heights, rate) for heights in (matched, distances)]
        measured[f"tar_at_far_{rate:g}"] = point.true_match_rate, reached[0]
        measured[f"threshold_at_far_{rate:g}"] = point.threshold, reached[1]
    found = {}
    for name, (value, (coarse, *resampled)) in measured.items():
        resampled = np.asarray(resampled) + (value - coarse)
        count = len(pairs.classes)
        if not name.startswith("threshold"):
            resampled, count = np.clip(resampled, 0, 1), pairs.num_positive_classes
        found[name] = estimate(value, resampled, confidence, count)
    for rate in false_match_rates:
        value, low, high = found[f"tar_at_far_{rate:g}"]
        found[f"fnmr_at_fmr_{rate:g}"] = Estimate(1 - value, 1 - high, 1 - low)
    return found


def open_set_identification(
    queries: ArrayLike,
    query_labels: ArrayLike,
    references: ArrayLike,
    reference_labels: ArrayLike,
    false_alarm_rates: Sequence[float] = (1e-2,),
    metric: Metric = "euclidean",
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Detection and identification rate at a false alarm rate, DIR@FAR.

    Phillips, Grother, Micheals, "Evaluation Methods in Face Recognition", Handbook of Face
    Recognition, 2005 (open-set identification at rank 1). A query of a class that is not among the
    references raises a false alarm if its nearest reference is at most the threshold away. A query
    of a class among them is detected and identified if its nearest reference is at most the
    threshold away and is of the query's class. DIR@FAR is the rate of the latter at the largest
    distance that occurs at which the share of false alarms is at most FAR.

    The intervals are percentiles over samples of the classes of the queries with replacement; the
    references stay. The ends are NaN unless both the queries of known classes and the others are of
    as many classes as `classes_for_interval` says, 5 for a confidence of 0.95.

    Args:
        queries: floats `(Q, D)`, with classes that are among the references and others.
        query_labels: integers `(Q,)` or `(Q, 1)`.
        references: floats `(N, D)`, the gallery.
        reference_labels: integers `(N,)` or `(N, 1)`.
        false_alarm_rates: the values of FAR.
        metric: the distance.
        num_resamples, confidence, seed: as in `verification_metrics`.

    Returns:
        `rank_1`, the share of the queries of known classes whose nearest reference is of their
        class, and for each rate `dir_at_far_RATE` and `threshold_at_far_RATE`. The threshold is
        negative if no query may be a match.

    Raises:
        ValueError: if queries of known or of other classes are too few.

    Example:
        >>> references, reference_labels = [[0.0], [5.0]], [0, 1]
        >>> queries, query_labels = [[0.5], [2.4], [6.5], [9.0]], [0, 1, 2, 3]
        >>> found = open_set_identification(
        ...     queries, query_labels, references, reference_labels, [0.5]
        ... )
        >>> found["rank_1"].value, found["dir_at_far_0.5"].value
        (0.5, 0.5)
    """
    check_resampling(num_resamples, confidence)
    queries, query_labels, references, reference_labels = checked_images(
        queries, query_labels, references, reference_labels
    )
    search = ExactSearch(references, metric)
    is_known = np.isin(query_labels, reference_labels)
    num_unknown = np.count_nonzero(~is_known)
    if num_unknown in (0, len(queries)):
        raise ValueError(
            "Queries of classes that are among the references and of other classes are needed; "
            f"received {len(queries) - num_unknown} and {num_unknown}."
        )
    _check_rates("false_alarm_rates", false_alarm_rates, num_unknown, "queries of other")
    nearest, distances = (found[:, 0] for found in search(queries, 1))
    order = np.argsort(distances, kind="stable")
    is_right = (is_known & (reference_labels[nearest] == query_labels))[order]
    _, classes = np.unique(query_labels, return_inverse=True)
    distances = distances[order]
    is_last = np.append(np.diff(distances) > 0, True)
    ranked = distances, is_last, is_known[order], is_right, classes[order]
    count = classes.max() + 1
    (copies,) = class_copies(count, num_resamples, seed, num_resamples)
    values = _rates(*ranked, np.ones(count), false_alarm_rates)
    resampled = np.array([_rates(*ranked, weights, false_alarm_rates) for weights in copies])
    fewest = min(len(np.unique(query_labels[of])) for of in (is_known, ~is_known))
    names = ["rank_1"]
    for rate in false_alarm_rates:
        names += [f"dir_at_far_{rate:g}", f"threshold_at_far_{rate:g}"]
    return {
        name: estimate(value, found, confidence, fewest)
        for name, value, found in zip(names, values, resampled.T, strict=True)
    }


def _check_rates(name, rates, count, of):
    """Raises `ValueError` for a rate above 1, or too small for a single one of the count."""
    for rate in rates:
        if not 0 < rate <= 1 or rate * count < 1:
            raise ValueError(
                f"{name} must be at most 1, and at least 1/{count} with {count:,} {of} classes; "
                f"received {rate:g}."
            )


def _rates(distances, is_last, is_known, is_right, classes, copies, false_alarm_rates):
    """Rank 1, then DIR and threshold for each rate, with a number of copies of each class."""
    # The queries are in order of the distance of their nearest reference.
    weights = copies[classes]
    right = np.cumsum(weights * is_right)
    alarms = np.cumsum(weights * ~is_known)
    num_known = weights[is_known].sum()
    if not num_known or not alarms[-1]:
        return np.full(1 + 2 * len(false_alarm_rates), np.nan)
    found = [right[-1] / num_known]
    for rate in false_alarm_rates:
        allowed = np.floor(rate * alarms[-1] * (1 + 1e-12))
        ends = np.flatnonzero((alarms <= allowed) & is_last)
        reached = [0.0, -1.0]
        if len(ends):
            reached = [right[ends[-1]] / num_known, distances[ends[-1]]]
        found += reached
    return np.array(found)
