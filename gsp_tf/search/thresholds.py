"""Thresholds that turn the distances of a model into decisions, and their calibration."""

import dataclasses
import math
import warnings
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from gsp_tf._metadata import LARGEST, Metadata, ModelInfo, check_range, check_same_model, versions
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import Estimate, PairDistances, calibrate_thresholds, conformal_threshold
from gsp_tf.search.embeddings import Embeddings, metric_of, read_labelled
from gsp_tf.search.index.image_index import Index

NAME = "thresholds.json"
Decision = Literal["match", "unsure", "unknown"]


@dataclasses.dataclass(frozen=True)
class _Interval:
    """A number and the ends of its interval, `None` if it is unknown."""

    value: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, found: Estimate) -> "_Interval":
        """An `Estimate` in the form stored as JSON."""
        return cls(found.value, *(None if math.isnan(end) else end for end in found[1:]))

    def __str__(self) -> str:
        low, high = (math.nan if end is None else end for end in (self.low, self.high))
        return str(Estimate(self.value, low, high))


@dataclasses.dataclass(frozen=True)
class _Threshold:
    """A threshold of the distance, and the shares of pairs that it accepts."""

    distance: _Interval
    false_match_rate: _Interval
    true_match_rate: _Interval


@dataclasses.dataclass(frozen=True)
class _ClassOver:
    """A class whose false match rate is significantly higher than the chosen one."""

    label: str
    false_match_rate: float
    images: int


@dataclasses.dataclass(frozen=True)
class _CalibratedOn:
    """The images that thresholds were calibrated on."""

    source: str
    images: int
    classes: int
    positive_pairs: int
    negative_pairs: int


@dataclasses.dataclass(frozen=True)
class Thresholds(Metadata):
    """The contents of `thresholds.json`, which `calibrate` writes.

    Args:
        model: the model of the embeddings, `None` if it is unknown.
        metric: "euclidean" or "cosine", the distance.
        dim: dimension of the embeddings.
        false_match_rate, missed_match_rate, confidence, seed, base_rate, coverage: as for
            `calibrate`; with too few classes for an interval, its ends are `None`.
        match: pairs up to this threshold match.
        unknown: pairs beyond this threshold are unknown.
        classes_over: classes for which the chosen rate does not hold.
        precision: expected share of true matches among matches, at the base rate.
        retrieval_set: distance up to which images belong to the retrieval set.
        calibrated_on: the images.
        versions: versions of the packages.

    Example:
        >>> Thresholds.read("no/such/thresholds.json")
        Traceback (most recent call last):
            ...
        FileNotFoundError: ...
    """

    format: ClassVar[str] = "gsp_tf thresholds"
    format_version: ClassVar[int] = 1
    again: ClassVar[str] = "gsp-tf calibrate writes it again."
    model: ModelInfo | None
    metric: Literal["euclidean", "cosine"]
    dim: int
    false_match_rate: float
    missed_match_rate: float
    confidence: float
    seed: int | None
    match: _Threshold
    unknown: _Threshold
    classes_over: tuple[_ClassOver, ...]
    base_rate: float | None
    precision: _Interval | None
    coverage: float | None
    retrieval_set: float | None
    calibrated_on: _CalibratedOn
    versions: dict[str, str]

    def __post_init__(self) -> None:
        check_range("dim", self.dim, 1, LARGEST)
        for name in ("false_match_rate", "missed_match_rate", "confidence", "base_rate"):
            check_range(name, getattr(self, name), 0, 1)
        check_range("coverage", self.coverage, 0, 1)
        check_range("retrieval_set", self.retrieval_set, 0, LARGEST)
        for name, found in (("match", self.match), ("unknown", self.unknown)):
            check_range(f"the distance of {name}", found.distance.value, 0, LARGEST)
            for rate in (found.false_match_rate, found.true_match_rate):
                check_range(f"a rate of {name}", rate.value, 0, 1)
        if self.match.distance.value > self.unknown.distance.value:
            raise ValueError("the threshold of unknown is smaller than that of match.")

    def decide(self, distance: float) -> Decision:
        """Decides by a distance: "match" up to one threshold, "unknown" beyond the other."""
        if distance <= self.match.distance.value:
            return "match"
        return "unsure" if distance <= self.unknown.distance.value else "unknown"

    def check(
        self,
        model: ModelInfo | None,
        metric: str | None,
        dim: int | None,
        whose: str,
        path: PathLike,
    ) -> None:
        """Raises `ValueError` if the thresholds are of another model, metric or dimension.

        A metric or dimension of `None` is not compared. The error names the owner of the distances,
        `whose`, and the file of the thresholds, `path`.
        """
        again = "Calibrate it with gsp-tf calibrate."
        check_same_model(model, self.model, f"{whose} and the thresholds {path}", again)
        if metric not in (None, self.metric):
            raise ValueError(
                f"The thresholds {path} are for {self.metric} distances; {whose} has {metric} "
                f"distances. {again}"
            )
        if dim not in (None, self.dim):
            raise ValueError(
                f"The thresholds {path} are for embeddings of dimension {self.dim}; {whose} has "
                f"dimension {dim}. {again}"
            )

    def summary(self) -> str:
        """The rule in one sentence."""
        match, unknown = (f"{t.distance.value:.4f}" for t in (self.match, self.unknown))
        text = f"A match is at most {match} away"
        if self.unknown.distance.value > self.match.distance.value:
            text += f", and what is farther than {unknown} is unknown"
        return f"{text}; false match rate {self.false_match_rate:g}."


def find_thresholds(
    thresholds: Thresholds | PathLike | None,
    model: ModelInfo | None,
    run: PathLike,
    index: Index | None = None,
    metric: str | None = "euclidean",
    dim: int | None = None,
) -> Thresholds | None:
    """The given thresholds, else those in the folder of the index, else those of the run, checked.

    Thresholds that are found, not given, are passed over if they are for another metric, with a
    warning, or for embeddings of another dimension, such as whole ones where prefixes are searched.
    `metric` and `dim` are those of the run's embeddings, without an index; with `None`, any will
    do. Thresholds of another model are refused.
    """
    whose = f"the run {run}"
    places = [Path(run) / NAME]
    if index is not None:
        whose, metric, dim = f"the index {index.path}", index.metadata.metric, index.metadata.dim
        places.insert(0, index.path / NAME)
    if thresholds is not None:
        return given_thresholds(thresholds, model, metric, dim, whose)
    for path in filter(Path.is_file, dict.fromkeys(places)):
        found = Thresholds.read(path)
        if dim not in (None, found.dim):
            continue  # thresholds of whole embeddings say nothing about their prefixes
        if metric in (None, found.metric):
            found.check(model, metric, dim, whose, path)
            return found
        # The place of the warning is this line, so that one command says it once.
        warnings.warn(
            f"The thresholds {path} are for {found.metric} distances, and {whose} has {metric} "
            f"distances, so they decide nothing here. gsp-tf calibrate with --metric {metric} "
            "makes thresholds that do.",
            stacklevel=1,
        )
    return None


def given_thresholds(
    thresholds: Thresholds | PathLike,
    model: ModelInfo | None,
    metric: str | None,
    dim: int | None,
    whose: str,
) -> Thresholds:
    """`Thresholds`, or those in a file, that belong to a model, a metric and a dimension."""
    path = "given"
    if not isinstance(thresholds, Thresholds):
        path = thresholds
        if not Path(path).is_file():
            raise FileNotFoundError(
                f"{path} does not exist; gsp-tf calibrate writes thresholds to a file {NAME}."
            )
        thresholds = Thresholds.read(path)
    thresholds.check(model, metric, dim, whose, path)
    return thresholds


def calibrate(
    source: Embeddings | PathLike,
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
        source: `Embeddings` with labels, or a path for `Embeddings.read`; a run gives the images of
            its validation classes. Classes that the model was trained on give thresholds that are
            too strict for all others.
        false_match_rate: share of the pairs of different classes that may match.
        base_rate: share of true matches among the pairs that will be compared.
        out: file to write; `None` means `thresholds.json` in the folder of the source.
        metric: the distance; `None` means that of the source, else "euclidean".
        missed_match_rate: share of the pairs of the same class that may be unknown.
        num_resamples: number of samples of the classes.
        confidence: share of the resampled values in each interval.
        seed: seed of the samples.
        coverage: probability that a retrieval set holds an image of the query's class, to find
            such a set too (`conformal_threshold`).

    Raises:
        ValueError: if the source cannot be read, or its pairs cannot support the rate.

    Example:
        >>> calibrate("no/such/run", 1e-3)
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run does not exist.
    """
    source = read_labelled(source, seed=seed)
    class_names, labels = source.classes
    metric = metric_of(source, metric)
    pairs = PairDistances(source.vectors, labels, metric, seed)
    found = calibrate_thresholds(
        pairs, false_match_rate, missed_match_rate, base_rate, num_resamples, confidence, seed
    )
    retrieval_set = None
    if coverage is not None:
        retrieval_set = conformal_threshold(source.vectors, labels, coverage, metric, seed)
    precision = found.precision
    if precision is not None and math.isnan(precision.value):  # no pair matches
        precision = None
    sizes = np.bincount(labels)
    over = [
        _ClassOver(class_names[label], float(found.class_rates[number]), int(sizes[label]))
        for number, label in enumerate(pairs.classes)
        if found.is_over[number]
    ]
    thresholds = Thresholds(
        model=source.model,
        metric=metric,
        dim=source.dim,
        false_match_rate=false_match_rate,
        missed_match_rate=missed_match_rate,
        confidence=confidence,
        seed=seed,
        match=_threshold(found.match),
        unknown=_threshold(found.unknown),
        classes_over=tuple(sorted(over, key=lambda one: -one.false_match_rate)),
        base_rate=base_rate,
        precision=None if precision is None else _Interval.of(precision),
        coverage=coverage,
        retrieval_set=retrieval_set,
        calibrated_on=_CalibratedOn(
            source=source.name,
            images=source.count,
            classes=len(pairs.classes),
            positive_pairs=pairs.num_positive,
            negative_pairs=pairs.num_negative,
        ),
        versions=versions("numpy"),
    )
    thresholds.write(thresholds_path(source) if out is None else Path(out))
    return thresholds


def thresholds_path(source: Embeddings) -> Path:
    """The file of the thresholds of a source: in its folder, or beside its file."""
    path = source.path
    if path is None:
        raise ValueError(f"{source.name} has no folder for the thresholds; name a file (out).")
    return path / NAME if path.is_dir() else path.with_name(f"{path.name}.{NAME}")


def _threshold(found):
    parts = found.distance, found.false_match_rate, found.true_match_rate
    return _Threshold(*(_Interval.of(part) for part in parts))
