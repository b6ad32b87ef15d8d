"""Numbers with intervals from resampled classes."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from gsp_tf._arguments import checked_seed


class Estimate(NamedTuple):
    """A number and the interval that resampling gives it.

    Args:
        value: the number.
        low: lower end of the interval; NaN if it is unknown.
        high: upper end of the interval.

    Example:
        >>> print(Estimate(0.912, 0.87, 0.9346))
        0.912 [0.87, 0.9346]
        >>> print(Estimate(0.912, float("nan"), float("nan")))
        0.912 [unknown]
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        ends = "unknown" if math.isnan(self.low) else f"{self.low:.4g}, {self.high:.4g}"
        return f"{self.value:.4g} [{ends}]"


def estimate(
    value: float, resampled: np.ndarray, confidence: float, pair_classes: int | None = None
) -> Estimate:
    """A value with percentiles of resampled ones `(B,)`; NaN with too few classes of pairs."""
    known = resampled[np.isfinite(resampled)]
    too_few = pair_classes is not None and pair_classes < classes_for_interval(confidence)
    if too_few or not len(known):
        return Estimate(float(value), float("nan"), float("nan"))
    tail = (1 - confidence) / 2
    low, high = np.quantile(known, [tail, 1 - tail])
    return Estimate(float(value), float(min(low, value)), float(max(high, value)))


def intervals(means: Mapping[str, Estimate]) -> dict[str, list[float]]:
    """The ends of the intervals of estimates that have one, by name."""
    return {name: [of.low, of.high] for name, of in means.items() if math.isfinite(of.low)}


def class_copies(
    count: int, num_resamples: int, seed: int, block: int = 64
) -> Iterator[np.ndarray]:
    """Yields how often each of C classes is drawn in samples with replacement, `(b, C)`."""
    rng = np.random.default_rng(checked_seed(seed))
    for start in range(0, num_resamples, block):
        size = min(block, num_resamples - start)
        yield rng.multinomial(count, np.full(count, 1 / count), size)


def classes_for_interval(confidence: float = 0.95) -> int:
    """The smallest number of classes whose resamples give metrics of pairs an interval.

    A sample of k classes with replacement holds pairs of different classes if it holds two classes,
    and if it holds just two, its share of false matches is that of one pair of classes. A given
    pair of classes is alone in `(2^k - 2) / k^k` of the samples: in half of them with 2 classes,
    0.22 with 3, 0.055 with 4 and 0.0096 with 5. Where this is more than the tail
    `(1 - confidence) / 2`, the ends of the interval are the least and the largest number of a pair
    of classes, whatever the confidence is, and with two classes they are one number.

    Args:
        confidence: share of the resampled values in the interval, in (0, 1).

    Returns:
        The smallest k with which such samples are not more than the tail.

    Example:
        >>> classes_for_interval(0.95)
        5
    """
    check_resampling(1, confidence)
    tail = (1 - confidence) / 2
    return next(k for k in itertools.count(2) if (2**k - 2) / k**k <= tail)


def check_resampling(num_resamples: int, confidence: float) -> None:
    """Raises `ValueError` unless there are resamples and the confidence is between 0 and 1."""
    if num_resamples < 1 or not 0 < confidence < 1:
        raise ValueError(
            "num_resamples must be at least 1 and confidence between 0 and 1; received "
            f"{num_resamples} and {confidence}."
        )
