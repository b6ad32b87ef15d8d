"""Calibration of thresholds on labelled embeddings."""

import math
from pathlib import Path
from typing import Literal

import numpy as np

from gsp_tf._metadata import versions
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import PairDistances, calibrate_thresholds, conformal_threshold
from gsp_tf.search.labelled import LabelledEmbeddings, labelled_embeddings
from gsp_tf.search.thresholds import CalibratedOn, ClassOver, Interval, Threshold, Thresholds


def calibrate(
    source: LabelledEmbeddings | PathLike,
    false_match_rate: float,
    base_rate: float | None = None,
    out: PathLike | None = None,
    metric: Literal["euclidean", "cosine"] | None = None,
    missed_match_rate: float = 0.05,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    coverage: float | None = None,
) -> Thresholds:
    """Calibrates thresholds on the validation classes of a run, or on other labelled embeddings.

    The thresholds are those of `calibrate_thresholds`. The file is replaced in one step. It names
    the model by its SHA-256, and thresholds are refused for embeddings of any other model.

    Args:
        source: `LabelledEmbeddings`, or a path for `labelled_embeddings`. Classes that the model
            was trained on give thresholds that are too strict for all others.
        false_match_rate: share of the pairs of different classes that may match.
        base_rate: share of true matches among the pairs that will be compared.
        out: file to write; `None` means `thresholds.json` in the folder of the source.
        metric: the distance; `None` means that of the source, else "euclidean".
        missed_match_rate: share of the pairs of the same class that may be unknown.
        num_resamples: number of samples of the classes.
        confidence: share of the resampled values in each interval.
        seed: seed of the samples.
        coverage: probability for `conformal_threshold`, to find the retrieval set too.

    Returns:
        `Thresholds`.

    Raises:
        FileNotFoundError: if there is nothing at the path.
        ValueError: if the source cannot be read, its pairs cannot support the rate, or an argument
            is out of range.

    Example:
        >>> calibrate("no/such/run", 1e-3)
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run does not exist.
    """
    if not isinstance(source, LabelledEmbeddings):
        source = labelled_embeddings(source, seed=seed)
    metric = metric or source.metric or "euclidean"
    pairs = PairDistances(source.embeddings, source.labels, metric, seed)
    found = calibrate_thresholds(
        pairs, false_match_rate, missed_match_rate, base_rate, num_resamples, confidence, seed
    )
    retrieval_set = None
    if coverage is not None:
        labelled = source.embeddings, source.labels
        retrieval_set = conformal_threshold(*labelled, coverage, metric, seed)
    precision = found.precision
    if precision is not None and math.isnan(precision.value):  # no pair matches
        precision = None
    sizes = np.bincount(source.labels)
    over = [
        ClassOver(source.class_names[label], float(found.class_rates[number]), int(sizes[label]))
        for number, label in enumerate(pairs.classes)
        if found.is_over[number]
    ]
    thresholds = Thresholds(
        model=source.model,
        metric=metric,
        dim=source.embeddings.shape[1],
        false_match_rate=false_match_rate,
        missed_match_rate=missed_match_rate,
        confidence=confidence,
        seed=seed,
        match=_threshold(found.match),
        unknown=_threshold(found.unknown),
        classes_over=tuple(sorted(over, key=lambda one: -one.false_match_rate)),
        base_rate=base_rate,
        precision=None if precision is None else Interval.of(precision),
        coverage=coverage,
        retrieval_set=retrieval_set,
        calibrated_on=CalibratedOn(
            source=source.source,
            images=len(source.labels),
            classes=len(pairs.classes),
            positive_pairs=pairs.num_positive,
            negative_pairs=pairs.num_negative,
        ),
        versions=versions("numpy"),
    )
    thresholds.write(Path(source.path if out is None else out))
    return thresholds


def _threshold(found):
    """A `CalibratedThreshold` in the form stored as JSON."""
    parts = found.distance, found.false_match_rate, found.true_match_rate
    return Threshold(*(Interval.of(part) for part in parts))
