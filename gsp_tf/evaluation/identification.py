"""Open-set identification: which class of the gallery is it, or none of them?"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._integers import checked_seed
from gsp_tf.evaluation.estimates import Estimate, check_resampling, estimate
from gsp_tf.evaluation.exact_search import ExactSearch
from gsp_tf.evaluation.search_space import Metric
from gsp_tf.evaluation.vectors import checked_embeddings, checked_labels, warn_of_own_images


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
        num_resamples: number of samples of the classes.
        confidence: share of the resampled values in each interval.
        seed: seed of the samples.

    Returns:
        `rank_1`, the share of the queries of known classes whose nearest reference is of their
        class, and for each rate `dir_at_far_RATE` and `threshold_at_far_RATE`. The threshold is
        negative if no query may be a match.

    Raises:
        ValueError: if arrays do not fit, all queries or none are of classes among the references,
            there are too few queries of other classes for a rate, or an argument is out of range.
        TypeError: if labels are not integers.

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
    queries = checked_embeddings(queries, "queries")
    query_labels = checked_labels(query_labels, len(queries), "query_labels")
    references = checked_embeddings(references, "references")
    warn_of_own_images(queries, references)
    search = ExactSearch(references, metric)
    reference_labels = checked_labels(reference_labels, search.size, "reference_labels")
    is_known = np.isin(query_labels, reference_labels)
    num_unknown = np.count_nonzero(~is_known)
    if num_unknown in (0, len(queries)):
        raise ValueError(
            "Queries of classes that are among the references and of other classes are needed; "
            f"received {len(queries) - num_unknown} and {num_unknown}."
        )
    for rate in false_alarm_rates:
        if not 0 < rate <= 1 or rate * num_unknown < 1:
            raise ValueError(
                f"false_alarm_rates must be at most 1, and at least 1/{num_unknown} with "
                f"{num_unknown} queries of other classes; received {rate:g}."
            )
    nearest, distances = (found[:, 0] for found in search(queries, 1))
    order = np.argsort(distances, kind="stable")
    is_right = (is_known & (reference_labels[nearest] == query_labels))[order]
    _, classes = np.unique(query_labels, return_inverse=True)
    ranked = _Ranked(distances[order], is_known[order], is_right, classes[order])
    rng, count = np.random.default_rng(checked_seed(seed)), classes.max() + 1
    copies = rng.multinomial(count, np.full(count, 1 / count), num_resamples)
    values = ranked.rates(np.ones(count), false_alarm_rates)
    resampled = np.array([ranked.rates(weights, false_alarm_rates) for weights in copies])
    fewest = min(len(np.unique(query_labels[of])) for of in (is_known, ~is_known))
    names = ["rank_1"]
    for rate in false_alarm_rates:
        names += [f"dir_at_far_{rate:g}", f"threshold_at_far_{rate:g}"]
    return {
        name: estimate(value, found, confidence, fewest)
        for name, value, found in zip(names, values, resampled.T, strict=True)
    }


class _Ranked:
    """Queries in order of the distance of their nearest reference."""

    def __init__(self, distances, is_known, is_right, classes):
        self._distances, self._classes = distances, classes
        self._is_known, self._is_right = is_known, is_right
        self._is_last = np.append(np.diff(distances) > 0, True)

    def rates(self, copies, false_alarm_rates):
        """Rank 1, then DIR and threshold for each rate, with a number of copies of each class."""
        weights = copies[self._classes]
        right = np.cumsum(weights * self._is_right)
        alarms = np.cumsum(weights * ~self._is_known)
        num_known = weights[self._is_known].sum()
        if not num_known or not alarms[-1]:
            return np.full(1 + 2 * len(false_alarm_rates), np.nan)
        found = [right[-1] / num_known]
        for rate in false_alarm_rates:
            allowed = np.floor(rate * alarms[-1] * (1 + 1e-12))
            ends = np.flatnonzero((alarms <= allowed) & self._is_last)
            reached = [0.0, -1.0]
            if len(ends):
                reached = [right[ends[-1]] / num_known, self._distances[ends[-1]]]
            found += reached
        return np.array(found)
