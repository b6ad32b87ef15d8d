"""Images to clean, from folders, runs and embeddings from anywhere."""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from gsp_tf import data, runs
from gsp_tf._console import listed
from gsp_tf._files import advising, locked, several
from gsp_tf._metadata import Metadata, ModelInfo, check_same_model
from gsp_tf._typing import PathLike
from gsp_tf.recipe import Recipe
from gsp_tf.search._embedded import EmbeddingsFolder
from gsp_tf.search._tables import as_text, vectors_of
from gsp_tf.search.embed import FILE_COLUMNS, ListedImage, embed_files, file_columns, list_images
from gsp_tf.search.embedder import RunModel
from gsp_tf.search.embeddings import Embeddings, holds_embeddings

_SHARD = 1024
TableFormat = Literal["csv", "parquet"]


@dataclass(frozen=True)
class _KeptMetadata(Metadata):
    format: ClassVar[str] = "gsp_tf kept embeddings"
    format_version: ClassVar[int] = 1
    again: ClassVar[str] = "Remove its folder; the same command embeds the images again."
    model: ModelInfo
    dim: int


def embed_and_keep(
    model: RunModel, paths: list[str], path: Path
) -> tuple[np.ndarray, dict[str, str], int]:
    """Embeds the files that a folder does not have yet; changed files are embedded again.

    Gives embeddings `(N, D)`, NaN for unreadable files, why they are unreadable, and the number of
    new ones.
    """
    folder = EmbeddingsFolder(path)
    with advising(lambda: "Free some space; the same command continues."), locked(path):
        metadata = _metadata(model, path / "kept.json")
        embeddings = np.full((len(paths), metadata.dim), np.nan, np.float32)
        rows = {name: row for row, name in enumerate(paths)}
        states = _states(file_columns(paths))
        is_known = np.zeros(len(paths), bool)
        number = 0
        while folder.shard_path(number).is_file():
            shard = folder.read_shard(number, metadata.dim)
            _take(shard, rows, states, embeddings, is_known)
            number += 1
        new = [name for name, known in zip(paths, is_known, strict=True) if not known]
        problems: dict[str, str] = {}
        total = -(-len(new) // _SHARD)
        for part in range(total):
            images = [ListedImage(name, None) for name in new[part * _SHARD :][:_SHARD]]
            shard, corrupt = embed_files(model, images, f"Embedding, part {part + 1} of {total}")
            problems |= corrupt
            if len(shard):
                folder.write_shard(number, shard)
                number += 1
                _take(shard, rows, states, embeddings, is_known)
        for name, known in zip(paths, is_known, strict=True):
            if not known:
                problems.setdefault(as_text(name), "it changed while it was read")
    return embeddings, problems, len(new) - len(problems)


def _metadata(model, file):
    """The metadata of a folder of this model, which is written if it is new."""
    if not file.is_file():
        _KeptMetadata(model.info, model.dim).write(file)
    metadata = _KeptMetadata.read(file)
    both, advice = f"{model.folder.path} and {file.parent}", "Choose another folder (--out NEW)."
    check_same_model(model.info, metadata.model, both, advice)
    return metadata


def _take(shard, rows, states, embeddings, is_known):
    """Takes the embeddings of the files of a shard that have not changed since."""
    vectors = vectors_of(shard)
    for name, state, vector in zip(shard["path"].to_pylist(), _states(shard), vectors, strict=True):
        row = rows.get(name)
        if row is not None and state == states[row]:
            embeddings[row], is_known[row] = vector, True


def _states(columns):
    """The size and modification time of each file, as pairs."""
    sizes, times = (columns[name] for name in FILE_COLUMNS)
    return list(zip(sizes.to_pylist(), times.cast(pa.int64()).to_pylist(), strict=True))


_SPLIT = "split"


class ImagesToClean(NamedTuple):
    """N images: embeddings `(N, D)`, NaN for unreadable files, or `None` without a model."""

    names: np.ndarray
    labels: list[str | None]
    sets: np.ndarray | None
    embeddings: np.ndarray | None
    metric: str
    model: ModelInfo | None
    problems: dict[str, str]
    num_new: int | None
    run: RunModel | None

    @property
    def readable(self) -> np.ndarray:
        if self.embeddings is None:
            return np.empty(0, np.int64)
        return np.flatnonzero(np.isfinite(self.embeddings[:, 0]))

    def embeddings_of(self, rows: np.ndarray) -> np.ndarray:
        """The embeddings of some rows in ascending order; of all rows without a copy."""
        return self.embeddings if len(rows) == len(self.names) else self.embeddings[rows]


def read_images(
    sources: PathLike | Sequence[PathLike],
    run: PathLike | None,
    out: Path,
    splits: Recipe | None = None,
) -> ImagesToClean:
    """Reads images and their embeddings; new ones are computed and kept in a folder."""
    sources = several(sources)
    if not sources:
        raise ValueError("Name a folder of images, a run, an index or a file of embeddings.")
    if run is None:
        run = next(filter(runs.is_run, sources), None)
    parts = list(map(_part, sources))
    model = None if run is None else RunModel(run)
    info = _common_model(parts, model)
    metrics = sorted({part.read.metric for part in parts if part.read is not None} - {None})
    if len(metrics) > 1:
        raise ValueError(f"{listed(sources)} differ in their metric: {listed(metrics)}.")
    found = [None if part.read is None else part.read.vectors for part in parts]
    files = list(dict.fromkeys(name for p in parts if p.read is None for name in p.paths))
    problems, num_new = {}, None
    if model is not None and files:
        kept, problems, num_new = embed_and_keep(model, files, out / "embedded")
        rows = {name: row for row, name in enumerate(files)}
        for number, part in enumerate(parts):
            if part.read is None:
                found[number] = kept[[rows[name] for name in part.paths]]
    without = [of.source for of, vectors in zip(parts, found, strict=True) if vectors is None]
    if without and len(without) < len(sources):
        raise ValueError(
            f"{listed(without)} has no embeddings to compare with the others; name the run whose "
            "model embeds it (--run RUN)."
        )
    embeddings = None
    if not without:
        if len({vectors.shape[1] for vectors in found}) > 1:
            dims = ", ".join(str(vectors.shape[1]) for vectors in found)
            raise ValueError(f"{listed(sources)} have embeddings of different dimensions: {dims}.")
        embeddings = found[0] if len(found) == 1 else np.concatenate(found)
    names = np.array([name for part in parts for name in part.paths])
    labels = [label for part in parts for label in part.labels]
    sets = _sets(parts) if splits is None else _sets_of(splits, names)
    metric = metrics[0] if metrics else "euclidean"
    return ImagesToClean(names, labels, sets, embeddings, metric, info, problems, num_new, model)


def _part(source):
    path = Path(source)
    if runs.is_run(path):
        return _of_recipe(RunModel(path).recipe, f"the run {path}")
    if path.exists() and not holds_embeddings(path):
        images = list_images([path])
        return _Part(str(source), [one.path for one in images], [one.label for one in images])
    read = Embeddings.read(path)
    sets = read.texts(_SPLIT) if _SPLIT in read.table.column_names else None
    return _Part(str(source), read.paths, read.labels, sets, read)


class _Part(NamedTuple):
    """Images by name, which need not be Unicode text, and embeddings that need no model."""

    source: str
    paths: list[str]
    labels: list[str | None]
    sets: Sequence[str] | None = None
    read: Embeddings | None = None


def _of_recipe(recipe, whose):
    local = dataclasses.replace(recipe.data, download=False, cache=None)
    recipe = dataclasses.replace(recipe, data=local)
    names, labels, of = [], [], []
    for name, images in runs.load_splits(recipe).sets.items():
        if not hasattr(images, "paths"):
            raise ValueError(f"The images of {whose} are not files, so they cannot be listed.")
        if isinstance(images, data.ViewedImages):
            images = images.images  # each file once
        names += map(os.path.abspath, images.paths)
        has_classes = "unlabelled" not in (name, local.name)
        labels += [images.class_names[label] if has_classes else None for label in images.labels]
        of += [name] * len(images)
    return _Part(whose, names, labels, of)


def _sets(parts):
    """The set of each image: its split, else its source if there are several."""
    if len(parts) == 1 and parts[0].sets is None:
        return None
    return np.concatenate(
        [np.full(len(of.paths), of.source) if of.sets is None else of.sets for of in parts]
    )


def _sets_of(recipe, names):
    """The split of each image in a recipe; an empty text for others."""
    part = _of_recipe(recipe, f"the recipe {recipe.name}")
    split = dict(zip(map(os.path.realpath, part.paths), part.sets, strict=True))
    sets = np.array([split.get(os.path.realpath(name), "") for name in names])
    if not sets.any():
        raise ValueError(f"None of the images is one of the recipe {recipe.name}.")
    return sets


def _common_model(parts, model):
    """The model of all embeddings, `None` if it is unknown."""
    known = [] if model is None else [(str(model.folder.path), model.info)]
    read = [(part.source, part.read.model) for part in parts if part.read is not None]
    for name, other in read:
        if other is None and model is not None:
            raise ValueError(f"{name} does not say which model made its embeddings.")
    known += [(name, other) for name, other in read if other is not None]
    for name, other in known[1:]:
        check_same_model(other, known[0][1], f"{name} and {known[0][0]}")
    return known[0][1] if known and None not in [other for _, other in read] else None
