"""`gsp-tf calibrate`: thresholds for a chosen false match rate."""

from typing import Literal

from jsonargparse.typing import OpenUnitInterval

from gsp_tf._numbers import Seed

_GALLERY = 10_000
_NAMED = 20


def command(
    source: str,
    *,
    false_match_rate: OpenUnitInterval,
    base_rate: OpenUnitInterval | None = None,
    missed_match_rate: OpenUnitInterval = 0.05,
    metric: Literal["euclidean", "cosine"] | None = None,
    coverage: OpenUnitInterval | None = None,
    confidence: OpenUnitInterval = 0.95,
    seed: Seed = 0,
    out: str | None = None,
):
    """Find the distance up to which two images match.

    Writes thresholds at a false match rate; the interval of the rate is for other classes. search,
    explore and export then use them: near images are a match, far ones unknown, others unsure. A
    run is calibrated on its validation classes, never on its test classes.

    Args:
        source: Run folder, index, folder that embed wrote, Parquet files with the columns label and
            embedding, or .npz file.
        false_match_rate: Share of the pairs of different classes that may match, such as 1e-3.
        base_rate: Share of true matches among the pairs that will be compared, to report how many
            matches will be right.
        missed_match_rate: Share of the pairs of the same class that may be unknown.
        metric: Distance; null is that of the source, or euclidean.
        coverage: Probability with which a set of images should hold one of the query's class, to
            report how far the images of such a set are.
        confidence: Confidence of the intervals.
        seed: Seed of the samples of classes that give the intervals.
        out: File to write; null is thresholds.json in the source.
    """
    import numpy as np

    from gsp_tf._console import counted, listed
    from gsp_tf.evaluation import classes_for_interval
    from gsp_tf.search import calibrate, read_labelled, thresholds_path

    read = read_labelled(source, seed=seed)
    for note in read.notes:
        print(f"note: {note}")
    found = calibrate(
        read,
        false_match_rate,
        base_rate,
        out,
        metric,
        missed_match_rate,
        confidence=confidence,
        seed=seed,
        coverage=coverage,
    )
    on = found.calibrated_on
    paired = np.count_nonzero(np.bincount(read.classes[1]) > 1)
    needed = classes_for_interval(found.confidence)
    print(
        f"Calibrated on {counted(on.images, 'image')} of {counted(on.classes, 'class')}, "
        f"{on.source}: {counted(on.positive_pairs, 'pair')} of the same class and "
        f"{counted(on.negative_pairs, 'pair')} of different classes. In brackets: "
        f"{100 * found.confidence:g} % intervals from resampled classes."
    )
    if paired < needed:
        print(
            f"Intervals are unknown below {needed} classes, and those that pairs of the same class "
            f"take part in below {needed} with two images or more; there are {paired} of these."
        )
    has_unsure = found.unknown.distance.value > found.match.distance.value
    rows = [("match   at most  ", found.match)]
    rows += [("unknown more than", found.unknown)] if has_unsure else []
    for rule, threshold in rows:
        print(
            f"  {rule} {threshold.distance} away: accepts {threshold.false_match_rate} of the "
            f"pairs of different classes, {threshold.true_match_rate} of those of the same class"
        )
    if not has_unsure:
        print("  unknown otherwise; nothing is unsure")
    expected = _GALLERY * found.match.false_match_rate.value
    print(
        f"A search among {_GALLERY:,} images of other classes finds {expected:,.1f} false matches "
        "on average."
    )
    if found.precision is not None:
        print(
            f"If {100 * found.base_rate:g} % of the compared pairs are of the same class, "
            f"{found.precision} of the matches are right."
        )
    if found.retrieval_set is not None:
        print(
            f"All images up to {found.retrieval_set:.4f} away hold one of the query's class with a "
            f"probability of {100 * found.coverage:g} %, if there are any."
        )
    if found.classes_over:
        names = [f"{one.label} ({one.false_match_rate:.2g})" for one in found.classes_over]
        rest = " in the file" if len(names) > _NAMED else ""
        print(
            f"The rate {found.false_match_rate:g} does not hold for "
            f"{counted(len(names), 'class')}: {listed(names, _NAMED)}{rest}"
        )
    print(f"Thresholds: {thresholds_path(read) if out is None else out}")
