"""Measures of verification from cumulative counts of pairs along the last axis.

`positives` and `negatives` `(..., S)` count the pairs up to the distance of each of S steps; the
last entries are all pairs.
"""

import numpy as np


def rates(counts):
    """Counts as shares of all pairs, `(..., S)`; NaN without pairs."""
    with np.errstate(invalid="ignore"):
        return counts / counts[..., -1:]


def auc(positives, negatives):
    """Area under the ROC curve: a positive pair is nearer than a negative one; ties count half."""
    matched, mismatched = (_from_zero(rates(counts)) for counts in (positives, negatives))
    heights = (matched[..., 1:] + matched[..., :-1]) / 2
    return np.einsum("...s,...s->...", np.diff(mismatched), heights)


def eer(positives, negatives):
    """The rate at which false matches and false non-matches are equal, interpolated."""
    missed = 1 - _from_zero(rates(positives))
    mismatched = _from_zero(rates(negatives))
    excess = mismatched - missed
    after = np.maximum((excess >= 0).argmax(axis=-1), 1)[..., None]
    low, high = (np.take_along_axis(excess, at, -1)[..., 0] for at in (after - 1, after))
    start, end = (np.take_along_axis(mismatched, at, -1)[..., 0] for at in (after - 1, after))
    with np.errstate(invalid="ignore", divide="ignore"):
        return start + (end - start) * (-low / (high - low))


def at_rate(negatives, heights, rate):
    """Heights `(B,)` of curves `(B, S)` where the share of negative pairs is `rate`, interpolated.

    All curves may have the same heights `(S,)`.
    """
    shares = _from_zero(rates(negatives))
    pairs = zip(shares, np.broadcast_to(_from_zero(heights), shares.shape), strict=True)
    return np.array([np.interp(rate, share, height) for share, height in pairs])


def average_precision(positives, negatives):
    """The mean precision over the positive pairs in order of distance, as in scikit-learn."""
    with np.errstate(invalid="ignore"):
        precision = np.nan_to_num(positives / (positives + negatives))
    return np.einsum("...s,...s->...", np.diff(_from_zero(rates(positives))), precision)


def accuracy(positives, negatives):
    """The largest share of pairs that one threshold classifies rightly."""
    right = _from_zero(positives) + negatives[..., -1:] - _from_zero(negatives)
    with np.errstate(invalid="ignore"):
        return right.max(axis=-1) / (positives + negatives)[..., -1]


def f1(positives, negatives):
    """The largest harmonic mean of precision and recall of one threshold."""
    with np.errstate(invalid="ignore"):
        scores = 2 * positives / (positives + negatives + positives[..., -1:])
    return scores.max(axis=-1)


def _from_zero(counts):
    """The counts after a first entry of 0."""
    return np.concatenate([np.zeros_like(counts[..., :1]), counts], axis=-1)
