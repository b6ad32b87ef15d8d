"""Metrics of verification: are two images of the same class?"""

import functools
from collections.abc import Sequence

import numpy as np

from gsp_tf.evaluation import _pair_curves as curves
from gsp_tf.evaluation.estimates import Estimate, check_resampling, estimate
from gsp_tf.evaluation.pair_distances import PairDistances


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
        ValueError: if a rate is not in (0, 1], there are too few pairs for one false match at a
            rate, or the number of resamples or the confidence is out of range.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(200) // 10
        >>> embeddings = rng.normal(size=(20, 8))[labels] + 0.5 * rng.normal(size=(200, 8))
        >>> metrics = verification_metrics(PairDistances(embeddings, labels), [0.01])
        >>> print(metrics["tar_at_far_0.01"])
        0.55 [0.2831, 0.7975]
    """
    check_resampling(num_resamples, confidence)
    for rate in false_match_rates:
        if not 0 < rate <= 1 or rate * pairs.num_negative < 1:
            raise ValueError(
                f"false_match_rates must be at most 1, and at least 1/{pairs.num_negative} with "
                f"{pairs.num_negative:,} pairs of different classes; received {rate:g}."
            )
    points = [pairs.at_false_match_rate(rate) for rate in false_match_rates]
    distances, positives, negatives = pairs.resampled_curves(
        num_resamples, seed, [point.threshold for point in points]
    )
    measures = {
        "auc": (pairs.auc(), curves.auc),
        "eer": (pairs.eer(), curves.eer),
        "average_precision": (pairs.average_precision(), curves.average_precision),
        "accuracy": (pairs.accuracy(), curves.accuracy),
        "f1": (pairs.f1(), curves.f1),
    }
    for rate, point in zip(false_match_rates, points, strict=True):
        matched = functools.partial(curves.matched_between, rate=rate)
        reached = functools.partial(curves.distance_between, distances=distances, rate=rate)
        measures[f"tar_at_far_{rate:g}"] = point.true_match_rate, matched
        measures[f"threshold_at_far_{rate:g}"] = point.threshold, reached
    found = {}
    for name, (value, measure) in measures.items():
        coarse, *resampled = measure(positives, negatives)
        resampled = np.asarray(resampled) + (value - coarse)
        count = len(pairs.classes)
        if not name.startswith("threshold"):
            resampled, count = np.clip(resampled, 0, 1), pairs.num_positive_classes
        found[name] = estimate(value, resampled, confidence, count)
    for rate in false_match_rates:
        value, low, high = found[f"tar_at_far_{rate:g}"]
        found[f"fnmr_at_fmr_{rate:g}"] = Estimate(1 - value, 1 - high, 1 - low)
    return found
