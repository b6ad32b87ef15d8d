"""`gsp-tf verify`: whether two images are of one class, or whether a gallery has a class."""

from pathlib import Path
from typing import Literal

from gsp_tf._numbers import PositiveShare
from gsp_tf.commands.rank import is_run_folder, metric_of, read_images


def command(
    source: str,
    rates: list[PositiveShare],
    *,
    gallery: list[str] = (),
    metric: Literal["euclidean", "cosine"] | None = None,
    out: str | None = None,
):
    """Say how well distances tell whether two images are of one class.

    Prints AUC, EER, OPIS, and TAR at false match rates, of all pairs. With --gallery this is
    open-set identification: DIR at false alarm rates.

    Args:
        source: Run folder, index, folder that embed wrote, Parquet files with the columns label and
            embedding, or .npz file. Those of a run are of its last evaluation.
        rates: False match rates, or false alarm rates with --gallery, such as 1e-3 1e-2.
        gallery: Sources that hold the known classes.
        metric: Distance; null is that of the source, or euclidean.
        out: JSON file for the metrics; null is verification.json in a run, and none for other
            sources.
    """
    import numpy as np

    from gsp_tf.commands._rankings import write_metrics
    from gsp_tf.evaluation import classes_for_interval

    is_run = is_run_folder(source)
    images = read_images(source, gallery)
    metric = metric_of(images, metric)
    if gallery:
        found, record, what = _identified(images, rates, metric)
        of_kind = "of the gallery among the queries, or of others"
    else:
        found, record, what = _paired(images, rates, metric)
        of_kind = "of two images or more"
    print(f"{what}, with 95 % intervals from resampled classes:")
    if any(np.isnan(estimate.low) for estimate in found.values()):
        print(f"An interval is unknown with fewer than {classes_for_interval()} classes {of_kind}.")
    width = max(map(len, found))
    for name, estimate in found.items():
        print(f"  {name:<{width}}  {estimate}")
    intervals = {name: list(of[1:]) for name, of in found.items() if np.isfinite(of.low)}
    record = {name: of.value for name, of in found.items()} | record | {"intervals": intervals}
    write_metrics(record, out or (Path(source) / "verification.json" if is_run else None))


def _identified(images, rates, metric):
    """Metrics of open-set identification, their counts to write, and these in words."""
    import numpy as np

    from gsp_tf.evaluation import open_set_identification

    found = open_set_identification(*images.searched, rates, metric)
    _, labels, _, known = images.searched
    known = np.isin(labels, known)
    what = f"{known.sum():,} queries of classes in the gallery and {(~known).sum():,} of others"
    return found, {"num_known": int(known.sum()), "num_unknown": int((~known).sum())}, what


def _paired(images, rates, metric):
    """Metrics of all pairs, their counts to write, and these in words."""
    import numpy as np

    from gsp_tf._console import counted
    from gsp_tf.evaluation import PairDistances, opis, verification_metrics

    embeddings, labels, *gallery = images.searched
    if images.references is not None:  # the own gallery of a run
        embeddings, labels = map(np.concatenate, ((embeddings, gallery[0]), (labels, gallery[1])))
    pairs = PairDistances(embeddings, labels, metric)
    found = verification_metrics(pairs, rates)
    try:
        found["opis"] = opis(pairs).estimate()
    except ValueError as error:
        print(f"note: opis is left out. {error}")
    what = (
        f"{counted(pairs.num_positive, 'pair')} of the same class and {pairs.num_negative:,} "
        "of different classes"
    )
    record = {"num_positive": pairs.num_positive, "num_negative": pairs.num_negative}
    return found, record, what[0].upper() + what[1:]
