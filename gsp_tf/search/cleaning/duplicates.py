"""Duplicates among images, and those that training and test share."""

import functools
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from PIL import Image, ImageEnhance, ImageOps

from gsp_tf._arguments import check_choice, checked_seed
from gsp_tf._console import counted, show_progress
from gsp_tf._files import locked
from gsp_tf._metadata import Metadata, ModelInfo, check_same_model
from gsp_tf._typing import PathLike
from gsp_tf.data import (
    UnreadableImageError,
    identical_files,
    image_size,
    read_image,
    shared_images,
)
from gsp_tf.evaluation import (
    ExactSearch,
    distances_of_pairs,
    joined_groups,
    near_duplicate_groups,
    truncated,
)
from gsp_tf.recipe import Recipe
from gsp_tf.search._tables import write_table
from gsp_tf.search.cleaning._images import ImagesToClean, TableFormat, read_images
from gsp_tf.search.embedder import RunModel
from gsp_tf.search.pages import write_gallery_page
from gsp_tf.search.thresholds import Thresholds, given_thresholds

_MOST_GROUPS = 200
_MOST_PICTURES = 24
_BELOW = 1e-4
_FEWEST = 20
_ALTERED = 64
_READ_AT_ONCE = 32


def _jpeg(image):
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=50)
    return buffer.getvalue()


_JPEG = {"JPEG of quality 50": _jpeg}
_OTHERS = {
    "half the size": lambda image: image.resize([max(1, side // 2) for side in image.size]),
    "20 % brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.2),
    "cropped by 5 % on each side": lambda image: ImageOps.crop(image, int(0.05 * min(image.size))),
    "mirrored": ImageOps.mirror,
}


@dataclass(frozen=True)
class _DuplicateDistance(Metadata):
    """The distance of near duplicates, and what it finds; the contents of `distance.json`."""

    format: ClassVar[str] = "gsp_tf duplicate distance"
    format_version: ClassVar[int] = 2
    again: ClassVar[str] = "Remove it; gsp-tf dedup measures the distance again."
    model: ModelInfo
    dim: int  # of the embeddings, those of the model or prefixes
    distance: float  # Euclidean, up to which two images are near duplicates
    false_share: float  # accepted share of images without a duplicate that are near another one
    images: int  # that it was measured on, each with its JPEG copy
    found: dict[str, float]  # share of altered copies that it finds, by alteration


class _Duplicates(NamedTuple):
    """Groups of duplicates among N images."""

    names: np.ndarray  # absolute paths; names of embeddings without a file
    labels: list[str | None]
    groups: np.ndarray  # -1 for an image without a duplicate
    representatives: np.ndarray  # the row of that of each image of a group, else -1
    is_representative: np.ndarray  # of several names of one file, none is a copy of another
    is_identical: np.ndarray  # whether the file has the same bytes as its representative
    distances: np.ndarray  # from the representative; NaN without embeddings
    sets: np.ndarray | None  # the split or source of each image, if there are several
    shared: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]  # as `shared_images` gives it
    distance: float | None  # of near duplicates; `None` if only identical files were found
    recall: float  # share of the near pairs that the search found
    problems: dict[str, str]  # from files that cannot be read to the reason
    num_new: int | None  # number of images that were embedded; `None` without a model
    measured: _DuplicateDistance | None  # `None` if the distance was given
    measured_in: Path | None  # the file of an earlier call that measured it
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
    table: TableFormat = "csv",
    seed: int = 0,
) -> _Duplicates:
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
        thresholds: `Thresholds` or their file; `None` measures on altered copies of some images up
            to which distance only 1 % of the images without a duplicate are near another one. This
            needs a run, and `out` keeps the distance for later calls.
        splits: recipe whose splits are the sets.
        table: format of the table.
        seed: seed of the samples.

    Returns:
        The groups, with these attributes for N images: `names` and `labels`; `groups`, the group of
        each image, -1 without a duplicate; `representatives`, rows of the images to keep;
        `is_identical`; `distances` from the representative; `sets` and what they `shared`; the
        `distance` and the `recall` of the search; `problems` of unreadable files; and the files
        `table` and `page`.

    Raises:
        BlockingIOError: if another process is writing the folder.
        ValueError: if a source cannot be used, or arguments do not belong together.

    Example:
        >>> find_duplicates("no/such/folder", "duplicates")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder does not exist.
    """
    if distance is not None and thresholds is not None:
        raise ValueError("Give a distance or thresholds, not both.")
    check_choice("table", table, TableFormat)
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
        shared = {}
        if images.sets is not None:  # images of no set do not count
            of_sets = np.where(images.sets == "", -1, groups)
            shared = shared_images(of_sets, images.sets.tolist())
        duplicates = _Duplicates(
            images.names,
            images.labels,
            groups,
            best,
            (best >= 0) & (files == files[best]),
            (best >= 0) & (numbers >= 0) & (numbers == numbers[best]),
            _from_representative(images, best),
            images.sets,
            shared,
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
        _write_page(duplicates, sizes)
    return duplicates


def _distance(images, distance, thresholds, out, seed):
    """The distance of near duplicates, the `_DuplicateDistance`, and the file that it is from."""
    if distance is not None:
        return distance, None, None
    dim = images.embeddings.shape[1]
    if thresholds is not None:
        of = images.model, images.metric, dim, "the collection"
        return given_thresholds(thresholds, *of).match.distance.value, None, None
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
        measured = _DuplicateDistance.read(kept)
        check_same_model(images.run.info, measured.model, f"{images.run.folder.path} and {kept}")
        if dim != measured.dim:
            raise ValueError(
                f"{kept} is the distance of embeddings of dimension {measured.dim}; these have "
                f"{dim}. Choose another folder (--out NEW)."
            )
        return measured.distance, measured, kept
    rows = images.readable
    files = images.names[rows].tolist()
    measured = _calibrate_on_copies(images.run, files, images.embeddings_of(rows), seed=seed)
    measured.write(kept)
    return measured.distance, measured, None


def _sizes(names, groups):
    """Width, height and bytes `(N, 3)` of the images in groups; 0 where they cannot be read."""
    sizes = np.zeros((len(names), 3), np.int64)
    rows = np.flatnonzero(groups >= 0)
    for row in show_progress(rows, "Reading the sizes of duplicates", len(rows)):
        try:
            sizes[row, 2] = os.stat(names[row]).st_size
            sizes[row, :2] = image_size(names[row])
        except (OSError, ValueError, UnreadableImageError):  # no path has the character NUL
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


def _columns(found, sizes):
    """The columns of the table: one row for each image of a group, the representative first."""
    rows = _ordered_rows(found)
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


def _ordered_rows(found):
    """The rows of the images in groups, group by group, with the representative first."""
    rows = np.flatnonzero(found.groups >= 0)
    is_other = rows != found.representatives[rows]
    return rows[np.lexsort((found.names[rows], is_other, found.groups[rows]))]


def _write_page(found, sizes):
    """The page: groups that sets share first, then the largest."""
    members = {}
    for row in _ordered_rows(found):
        members.setdefault(found.groups[row], []).append(row)
    shared = {group for pair in found.shared.values() for group in found.groups[pair[0]].tolist()}
    order = sorted(members, key=lambda group: (group not in shared, -len(members[group]), group))

    def pictures(rows):
        for row in rows[:_MOST_PICTURES]:
            kind = "identical" if found.is_identical[row] else "near"
            is_best = found.is_representative[row]
            # The last two parts of a path fit in a line.
            of_set = None if found.sets is None else "/".join(found.sets[row].split("/")[-2:])
            notes = [found.labels[row], of_set]
            notes += [f"{sizes[row, 0]} x {sizes[row, 1]}"] if sizes[row, 0] else []
            if not is_best and np.isfinite(found.distances[row]):
                notes.append(f"{found.distances[row]:.4f} away")
            caption = "representative" if is_best else kind
            yield str(found.names[row]), caption, " · ".join(filter(None, notes)), is_best

    sections = (
        (
            f"Group {group}: {len(members[group])} images"
            + (", in several sets" if group in shared else ""),
            f"The first {_MOST_PICTURES} are shown."
            if len(members[group]) > _MOST_PICTURES
            else "",
            pictures(members[group]),
        )
        for group in order[:_MOST_GROUPS]
    )
    of = f"The {_MOST_GROUPS} first of " if len(order) > _MOST_GROUPS else ""
    near = ""
    if found.distance is not None:
        near = f"Near duplicates are at most {found.distance:.4g} apart. "
    write_gallery_page(
        found.page,
        "Duplicates",
        f"{of}{counted(len(order), 'group')} among {len(found.names):,} images. {near}Groups that "
        "sets share come first, then the largest. The representative has most pixels.",
        sections,
        min(len(order), _MOST_GROUPS),
    )


def _calibrate_on_copies(
    model: RunModel,
    images: Sequence[str],
    embeddings: ArrayLike,
    false_share: float = 0.01,
    most_images: int = 512,
    seed: int = 0,
) -> _DuplicateDistance:
    """Finds the distance of near duplicates in a collection, with altered copies of some images.

    The distance is the largest at which at most `false_share` of a random sample of the images have
    another image of the collection up to it. Images with a duplicate must not count here: an image
    that is nearer to another one than to its own copy saved as a JPEG of quality 50 is left out.

    Each of 64 images has four other copies: reduced to half the size, made 20 % brighter,
    cropped by 5 % on each side, and mirrored. The result says how many of the copies of each kind
    the distance finds. Embeddings of fewer dimensions than the model has are prefixes, which are
    normalised (`truncated`).
    """
    rows = np.random.default_rng(checked_seed(seed)).permutation(len(images))[:most_images]
    _check_enough(len(rows), "can be read")
    embeddings = np.asarray(embeddings)
    to_jpeg = _to_copies(model, images, embeddings, rows, _JPEG)[:, 0]
    rows, to_jpeg = rows[np.isfinite(to_jpeg)], to_jpeg[np.isfinite(to_jpeg)]
    _check_enough(len(rows), "can be read")
    nearest = ExactSearch(embeddings)(embeddings[rows], 1, rows)[1][:, 0]
    alone = np.sort(nearest[nearest > to_jpeg])
    _check_enough(len(alone), "are nearer to their own JPEG copy than to another image")
    distance = alone[int(false_share * len(alone))] * (1 - _BELOW)
    to_others = _to_copies(model, images, embeddings, rows[:_ALTERED], _OTHERS)
    found = [(of <= distance).mean() for of in (to_jpeg, *to_others.T)]
    return _DuplicateDistance(
        model.info,
        embeddings.shape[1],
        float(distance),
        false_share,
        len(rows),
        dict(zip([*_JPEG, *_OTHERS], map(float, found), strict=True)),
    )


def _to_copies(model, images, embeddings, rows, alterations):
    """Distances `(n, alterations)` of images from their copies; NaN for unreadable images."""
    copies = _Copies([images[row] for row in rows], list(alterations.values()), model)
    found = model.embed_images(copies, "Embedding altered copies").embeddings
    if embeddings.shape[1] != model.dim:
        found = truncated(found, embeddings.shape[1])
    found = found.reshape(len(rows), len(alterations), -1)
    return np.linalg.norm(found - embeddings[rows, None], axis=-1)


class _Copies:
    """Altered copies of image files, image by image, each made when it is read."""

    def __init__(self, files, alterations, model):
        side = model.recipe.data.resize or model.recipe.data.image_size
        self._files, self._alterations = files, alterations
        channels = model.embedder.input_shape[-1]
        read = functools.partial(read_image, channels=channels, min_side=2 * side)
        self._read = functools.lru_cache(_READ_AT_ONCE)(read)

    def __len__(self):
        return len(self._files) * len(self._alterations)

    def __getitem__(self, number):
        file, alteration = divmod(number, len(self._alterations))
        pixels = self._read(self._files[file])
        image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0])
        copy = self._alterations[alteration](image)
        return copy if isinstance(copy, bytes) else np.asarray(copy).reshape(*copy.size[::-1], -1)


def _check_enough(count, what):
    if count < _FEWEST:
        raise ValueError(
            f"Only {count} images {what}, too few to measure how far near duplicates are apart; "
            f"{_FEWEST} are needed. Give the distance (--distance)."
        )
