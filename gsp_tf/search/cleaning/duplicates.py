"""Duplicates among images, and those that training and test share."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from gsp_tf._console import show_progress
from gsp_tf._files import locked
from gsp_tf._metadata import check_same_model
from gsp_tf._typing import PathLike
from gsp_tf.data import UnreadableImageError, identical_files, image_size, shared_images
from gsp_tf.evaluation import distances_of_pairs, joined_groups, near_duplicate_groups
from gsp_tf.recipe import Recipe
from gsp_tf.search.cleaning._images import ImagesToClean, read_images
from gsp_tf.search.cleaning._pages import ordered_rows, write_duplicates_page
from gsp_tf.search.cleaning.altered_copies import DuplicateDistance, calibrate_on_copies
from gsp_tf.search.tables import write_table
from gsp_tf.search.thresholds import Thresholds


class Duplicates(NamedTuple):
    """Groups of duplicates among N images.

    Args:
        names: texts `(N,)`, absolute paths; names of embeddings without a file.
        labels: N texts, `None` where unknown.
        groups: integers `(N,)`, the group of each image, -1 for an image without a duplicate.
        representatives: integers `(N,)`, for each image of a group the row of its representative,
            else -1.
        is_representative: bools `(N,)`, whether the file is that of the representative; of several
            names of one file, none is a copy of another.
        is_identical: bools `(N,)`, whether the file has the same bytes as its representative.
        distances: floats `(N,)` from the representative, NaN if there are no embeddings.
        sets: texts `(N,)`, the split or source of each image; `None` if there is only one.
        shared: dict from two sets to the rows of the images in each that have one of their group in
            the other, as `shared_images` gives it.
        distance: distance up to which two images are near duplicates; `None` if only identical
            files were found.
        recall: share of the near pairs that the search found, measured with some images.
        problems: dict from files that cannot be read to the reason.
        num_new: number of images that were embedded; `None` without a model.
        measured: the distance as altered copies give it; `None` if it was given.
        measured_in: the file that an earlier call wrote the measured distance to; `None` if this
            call measured it, or it was given.
        table: the CSV or Parquet file.
        page: the HTML file.

    Example:
        >>> Duplicates._fields[:2]
        ('names', 'labels')
    """

    names: np.ndarray
    labels: list[str | None]
    groups: np.ndarray
    representatives: np.ndarray
    is_representative: np.ndarray
    is_identical: np.ndarray
    distances: np.ndarray
    sets: np.ndarray | None
    shared: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]
    distance: float | None
    recall: float
    problems: dict[str, str]
    num_new: int | None
    measured: DuplicateDistance | None
    measured_in: Path | None
    table: Path
    page: Path

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.groups.max(initial=-1)) + 1

    @property
    def num_mixed(self) -> int:
        """Number of groups with images of different labels."""
        labels: dict[int, set[str]] = {}
        for row in np.flatnonzero(self.groups >= 0):
            if self.labels[row] is not None:
                labels.setdefault(int(self.groups[row]), set()).add(self.labels[row])
        return sum(len(of) > 1 for of in labels.values())


def find_duplicates(
    sources: PathLike | Sequence[PathLike],
    out: PathLike,
    run: PathLike | None = None,
    distance: float | None = None,
    thresholds: Thresholds | PathLike | None = None,
    splits: Recipe | None = None,
    table: Literal["csv", "parquet"] = "csv",
    seed: int = 0,
) -> Duplicates:
    """Finds identical files and near duplicates, and writes a table and a page of them.

    Files with the same bytes are found without a model. Near duplicates are connected by pairs of
    embeddings up to a distance (`near_duplicate_groups`). Images without embeddings are embedded
    with the model of a run, and `out` keeps these embeddings: another call embeds only new and
    changed files, also after a process was killed. No image is ever changed, moved or deleted.

    The representative of a group is the image with most pixels; of these the largest file; of these
    the first path, a file before a link to it. Sets are the splits of a run or recipe, the column
    `split` of embeddings, or the sources if there are several.

    Args:
        sources: image files, folders of images, CSV files with the columns path and label, run
            folders, and embeddings as for `Embeddings.read`.
        out: folder to write.
        run: run folder of the model that embeds images; `None` means that of the sources, if one is
            a run.
        distance: distance of near duplicates; `None` takes the thresholds.
        thresholds: `Thresholds` or their file; `None` measures the distance with
            `calibrate_on_copies`, which needs a run, and keeps it in `out` for later calls.
        splits: recipe whose splits are the sets.
        table: format of the table.
        seed: seed of the samples.

    Returns:
        `Duplicates`.

    Raises:
        BlockingIOError: if another process is writing the folder.
        FileNotFoundError: if a source does not exist.
        ValueError: if a source cannot be used, models or thresholds do not belong together, or
            there are embeddings but neither a distance, nor thresholds, nor a run.

    Example:
        >>> find_duplicates("no/such/folder", "duplicates")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder does not exist.
    """
    if distance is not None and thresholds is not None:
        raise ValueError("Give a distance or thresholds, not both.")
    out = Path(out)
    with locked(out):
        images = read_images(sources, run, out, splits)
        if len(images.names) < 2:
            raise ValueError(f"Two images or more are needed; received {len(images.names)}.")
        numbers = identical_files(images.names)
        near, recall, measured, kept = np.full(len(numbers), -1), 1.0, None, None
        rows = images.readable
        if len(rows):
            distance, measured, kept = _distance(images, distance, thresholds, out, seed)
            found = near_duplicate_groups(
                images.embeddings_of(rows), distance, images.metric, seed=seed
            )
            near[rows], recall = found.groups, found.recall
        elif distance is not None or thresholds is not None:
            raise ValueError(
                "A distance is for embeddings, and there are none; name the run whose model embeds "
                "the images (--run RUN)."
            )
        groups = joined_groups(numbers, near)
        sizes = _sizes(images.names, groups)
        of_group = zip(images.names, groups >= 0, strict=True)
        files = np.array([os.path.realpath(name) if one else name for name, one in of_group])
        best = _representatives(images.names, files, groups, sizes)
        duplicates = Duplicates(
            images.names,
            images.labels,
            groups,
            best,
            (best >= 0) & (files == files[best]),
            (best >= 0) & (numbers >= 0) & (numbers == numbers[best]),
            _from_representative(images, best),
            images.sets,
            {} if images.sets is None else _shared(groups, images.sets),
            distance,
            recall,
            images.problems,
            images.num_new,
            measured,
            kept,
            out / f"duplicates.{table}",
            out / "duplicates.html",
        )
        write_table(duplicates.table, _columns(duplicates, sizes))
        write_duplicates_page(duplicates, sizes)
    return duplicates


def _distance(images, distance, thresholds, out, seed):
    """The distance of near duplicates, the `DuplicateDistance`, and the file that it is from."""
    if distance is not None:
        return distance, None, None
    if thresholds is not None:
        return _distance_of_match(images, thresholds), None, None
    if images.run is None:
        raise ValueError(
            "How near are near duplicates? Give a distance (--distance), thresholds of gsp-tf "
            "calibrate (--thresholds FILE), or the run of the model (--run RUN) to measure it on "
            "altered copies of the images."
        )
    if images.metric != "euclidean":
        raise ValueError(
            f"The distance of near duplicates is measured for Euclidean distances, not for "
            f"{images.metric} ones. Give it (--distance)."
        )
    kept = out / "distance.json"
    if kept.is_file():
        measured = DuplicateDistance.read(kept)
        check_same_model(images.run.info, measured.model, f"{images.run.folder.path} and {kept}")
        dim = images.embeddings.shape[1]
        if dim != measured.dim:
            raise ValueError(
                f"{kept} is the distance of embeddings of dimension {measured.dim}; these have "
                f"{dim}. Choose another folder (--out NEW)."
            )
        return measured.distance, measured, kept
    rows = images.readable
    files = images.names[rows].tolist()
    measured = calibrate_on_copies(images.run, files, images.embeddings_of(rows), seed=seed)
    measured.write(kept)
    return measured.distance, measured, None


def _distance_of_match(images, thresholds):
    """The distance up to which two images match by thresholds of the same model."""
    path = thresholds
    if isinstance(thresholds, Thresholds):
        path = "given"
    else:
        thresholds = Thresholds.read(thresholds)
    dim = images.embeddings.shape[1]
    thresholds.check(images.model, images.metric, dim, "the collection", path)
    return thresholds.match.distance.value


def _sizes(names, groups):
    """Width, height and bytes `(N, 3)` of the images in groups; 0 where they cannot be read."""
    sizes = np.zeros((len(names), 3), np.int64)
    rows = np.flatnonzero(groups >= 0)
    for row in show_progress(rows, "Reading the sizes of duplicates", len(rows)):
        try:
            sizes[row, 2] = os.stat(names[row]).st_size
            sizes[row, :2] = image_size(names[row])
        except (OSError, UnreadableImageError):
            continue
    return sizes


def _representatives(names, files, groups, sizes):
    """For each image of a group the row of the best image, else -1."""
    rows = np.flatnonzero(groups >= 0)
    pixels = sizes[rows, 0] * sizes[rows, 1]
    is_link = (names != files)[rows]
    rows = rows[np.lexsort((names[rows], is_link, -sizes[rows, 2], -pixels, groups[rows]))]
    _, first = np.unique(groups[rows], return_index=True)
    best = np.full(len(groups), -1)
    best[rows] = rows[first][groups[rows]]
    return best


def _from_representative(images: ImagesToClean, best):
    """The distance of each image of a group from its representative, else NaN."""
    distances = np.full(len(best), np.nan)
    if images.embeddings is not None:
        rows = np.flatnonzero(best >= 0)
        distances[rows] = distances_of_pairs(images.embeddings, rows, best[rows], images.metric)
    return distances


def _shared(groups, sets):
    """The images that two sets share; those of no set do not count."""
    return shared_images(np.where(sets == "", -1, groups), sets.tolist())


def _columns(found, sizes):
    """The columns of the table: one row for each image of a group, the representative first."""
    rows = ordered_rows(found)
    # A representative is compared with the others: it is identical only if it has a copy.
    copies = np.bincount(found.representatives[rows], found.is_identical[rows], len(found.names))
    has_copy = copies[found.representatives] > 1
    columns = {
        "group": found.groups[rows],
        "representative": found.is_representative[rows],
        "path": found.names[rows].tolist(),
        "label": [found.labels[row] for row in rows],
        "kind": np.where(found.is_identical & has_copy, "identical", "near")[rows].tolist(),
        "distance": pa.array(found.distances[rows], from_pandas=True),
        "width": sizes[rows, 0],
        "height": sizes[rows, 1],
        "bytes": sizes[rows, 2],
    }
    if found.sets is not None:
        columns["set"] = found.sets[rows].tolist()
        others = [set() for _ in found.names]
        for (one, other), (in_one, in_other) in found.shared.items():
            for row in in_one:
                others[row].add(other)
            for row in in_other:
                others[row].add(one)
        lists = [json.dumps(sorted(of), ensure_ascii=False) if of else None for of in others]
        columns["shared_with"] = [lists[row] for row in rows]
    return columns
