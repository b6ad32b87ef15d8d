"""Images whose labels disagree with those of their neighbours."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from gsp_tf._arguments import check_choice
from gsp_tf._console import counted
from gsp_tf._files import locked
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import ExactSearch, LabelVotes, label_votes
from gsp_tf.search._tables import write_table
from gsp_tf.search.cleaning._images import TableFormat, read_images
from gsp_tf.search.embeddings import metric_of
from gsp_tf.search.pages import write_gallery_page

_MOST_SHOWN = 200
_NEIGHBOURS = 4


class _LabelErrors(NamedTuple):
    """Images with a label and an embedding, of which some labels are probably wrong."""

    names: np.ndarray
    labels: np.ndarray  # rows of `class_names`
    class_names: list[str]
    votes: LabelVotes
    ranked: np.ndarray  # rows of the images whose neighbours disagree, the clearest first
    alone: np.ndarray  # rows of the only image of a class, which are not judged
    problems: dict[str, str]  # from files that cannot be read to the reason
    num_unlabelled: int
    num_new: int | None  # number of images that were embedded; `None` without a model
    table: Path
    page: Path


def find_label_errors(
    sources: PathLike | Sequence[PathLike],
    out: PathLike,
    run: PathLike | None = None,
    k: int = 10,
    metric: Literal["euclidean", "cosine"] | None = None,
    table: TableFormat = "csv",
) -> _LabelErrors:
    """Finds images whose nearest neighbours have another label, and writes a table and a page.

    The images are ranked by the score of `label_votes`. Nothing is changed: whether a label is
    wrong is for a person to decide.

    Args:
        sources: as for `find_duplicates`; the images need labels.
        out: folder to write. Embeddings of image files are kept in it.
        run, table: as for `find_duplicates`.
        k: number of neighbours that vote.
        metric: the distance; `None` means that of the sources, else "euclidean".

    Returns:
        The images, with these attributes: `names`; `labels`, rows of `class_names`; `votes`, the
        `LabelVotes`; `ranked`, rows of the images whose neighbours disagree, the clearest first;
        `alone`, rows of those that are the only one of their class; `problems` of unreadable files;
        and the files `table` and `page`.

    Raises:
        BlockingIOError: if another process is writing the folder.
        ValueError: if a source cannot be used, there are no embeddings, or too few labelled images.

    Example:
        >>> find_label_errors("no/such/folder", "label_errors")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder does not exist.
    """
    check_choice("table", table, TableFormat)
    out = Path(out)
    with locked(out):
        images = read_images(sources, run, out)
        if images.embeddings is None:
            raise ValueError(
                "Neighbours are found by embeddings; name the run whose model embeds the images "
                "(--run RUN)."
            )
        has_label = np.array([label is not None for label in images.labels])
        first = {}  # an image that two sources name would vote for its own label
        for row in images.readable[has_label[images.readable]]:
            first.setdefault((images.names[row], images.labels[row]), row)
        rows = np.array(list(first.values()), np.int64)
        if len(rows) < 3:
            raise ValueError(
                f"Three images with labels or more are needed; received {len(rows)} among "
                f"{counted(len(images.names), 'image')}."
            )
        class_names, labels = np.unique([images.labels[row] for row in rows], return_inverse=True)
        metric = metric_of(images, metric)
        embeddings = images.embeddings_of(rows)
        votes = label_votes(embeddings, labels, min(k, len(rows) - 2), metric)
        found = _LabelErrors(
            images.names[rows],
            labels,
            class_names.tolist(),
            votes,
            votes.ranked(),
            np.flatnonzero(np.isnan(votes.scores)),
            images.problems,
            int(np.count_nonzero(~has_label)),
            images.num_new,
            out / f"label_errors.{table}",
            out / "label_errors.html",
        )
        write_table(found.table, _columns(found))
        _write_page(found, embeddings, metric)
    return found


def _columns(found):
    """The columns of the table, one row for each suspected image."""
    votes, rows = found.votes, found.ranked
    return {
        "path": found.names[rows].tolist(),
        "label": [found.class_names[label] for label in found.labels[rows]],
        "suggested": [found.class_names[label] for label in votes.suggested[rows]],
        "score": votes.scores[rows],
        "label_share": votes.given_shares[rows],
        "suggested_share": votes.suggested_shares[rows],
    }


def _write_page(found, embeddings, metric):
    """The page: the clearest images, each beside its nearest neighbours."""
    votes, shown = found.votes, found.ranked[:_MOST_SHOWN]
    neighbours = np.empty((0, 0), int)
    if len(shown):
        count = min(_NEIGHBOURS, len(embeddings) - 1)
        neighbours, _ = ExactSearch(embeddings, metric)(embeddings[shown], count, shown)

    def label(row):
        return found.class_names[found.labels[row]]

    def pictures(row, others):
        yield str(found.names[row]), label(row), "this image", True
        for rank, other in enumerate(others, start=1):
            yield str(found.names[other]), label(other), f"neighbour {rank}", False

    sections = (
        (
            f"{label(row)}, or {found.class_names[votes.suggested[row]]}?",
            f"Score {votes.scores[row]:.2f}: the suggested label has "
            f"{100 * votes.suggested_shares[row]:.0f} % of the votes, the given one "
            f"{100 * votes.given_shares[row]:.0f} %.",
            pictures(row, others),
        )
        for row, others in zip(shown, neighbours, strict=True)
    )
    first = f"The {_MOST_SHOWN} clearest of " if len(found.ranked) > _MOST_SHOWN else ""
    write_gallery_page(
        found.page,
        "Label errors",
        f"{first}{len(found.ranked):,} images of {len(found.names):,} whose nearest neighbours "
        "have another label. Decide by the pictures: rare views of a class are among them too.",
        sections,
        len(shown),
    )
