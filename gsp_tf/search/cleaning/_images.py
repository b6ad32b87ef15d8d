"""Images to clean, from folders, runs and embeddings from anywhere."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gsp_tf import data, runs
from gsp_tf._console import listed
from gsp_tf._metadata import ModelInfo, check_same_model
from gsp_tf._typing import PathLike
from gsp_tf.recipe import Recipe
from gsp_tf.search.cleaning._kept import embed_and_keep
from gsp_tf.search.embedding import RunModel
from gsp_tf.search.embedding._listing import list_images
from gsp_tf.search.vector_sources import holds_embeddings, vector_source

_SPLIT = "split"


class Part(NamedTuple):
    """The images of one source; embeddings are `None` where they must be computed."""

    names: list[str]
    labels: list[str | None]
    sets: list[str] | None = None
    embeddings: np.ndarray | None = None
    metric: str | None = None
    model: ModelInfo | None = None


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
        """Rows of the images that have an embedding."""
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
    sources = sources if isinstance(sources, list | tuple) else [sources]
    if not sources:
        raise ValueError("Name a folder of images, a run, an index or a file of embeddings.")
    folders = [source for source in sources if (Path(source) / "recipe.yaml").is_file()]
    if run is None and folders:
        run = folders[0]
    parts = [_part(Path(source)) for source in sources]
    model = None if run is None else RunModel(run)
    info = _common_model(sources, parts, model)
    metric = _common(sources, parts, "metric") or "euclidean"
    names = np.array([name for part in parts for name in part.names])
    embeddings, problems, num_new = None, {}, None
    if model is not None and any(part.embeddings is None for part in parts):
        files = list(dict.fromkeys(n for p in parts if p.embeddings is None for n in p.names))
        kept = embed_and_keep(model, files, out / "embedded")
        rows = {name: row for row, name in enumerate(files)}
        problems, num_new = kept.problems, kept.num_new
        parts = [
            part
            if part.embeddings is not None
            else part._replace(embeddings=kept.embeddings[[rows[name] for name in part.names]])
            for part in parts
        ]
    without = [str(s) for s, p in zip(sources, parts, strict=True) if p.embeddings is None]
    if not without:
        if len({part.embeddings.shape[1] for part in parts}) > 1:
            dims = ", ".join(str(part.embeddings.shape[1]) for part in parts)
            raise ValueError(f"{listed(sources)} have embeddings of different dimensions: {dims}.")
        found = [part.embeddings for part in parts]
        embeddings = found[0] if len(found) == 1 else np.concatenate(found)
    elif len(without) < len(parts):
        raise ValueError(
            f"{listed(without)} has no embeddings to compare with the others; name the run whose "
            "model embeds it (--run RUN)."
        )
    labels = [label for part in parts for label in part.labels]
    sets = _sets(sources, parts) if splits is None else _sets_of(splits, names)
    return ImagesToClean(names, labels, sets, embeddings, metric, info, problems, num_new, model)


def _part(path):
    """The images of a source."""
    if (path / "recipe.yaml").is_file():
        return _of_recipe(RunModel(path).recipe, f"the run {path}")
    if path.exists() and not holds_embeddings(path):
        images = list_images([path])
        return Part([image.path for image in images], [image.label for image in images])
    source = vector_source(path, [_SPLIT])
    names, labels, sets = [], [], []
    embeddings, has_sets = np.empty((source.count, source.dim), np.float32), True
    for block in source.blocks():
        embeddings[len(names) : len(names) + len(block.names)] = block.embeddings
        names += block.names
        labels += block.labels
        has_sets &= _SPLIT in block.columns
        sets += list(block.columns.get(_SPLIT, []))
    return Part(names, labels, sets if has_sets else None, embeddings, source.metric, source.model)


def _of_recipe(recipe, whose):
    """The files of the splits of a recipe."""
    local = dataclasses.replace(recipe.data, download=False, cache=None)
    recipe = dataclasses.replace(recipe, data=local)
    names, labels, of = [], [], []
    for name, images in runs.load_splits(recipe).sets.items():
        if not hasattr(images, "paths"):
            raise ValueError(f"The images of {whose} are not files, so they cannot be listed.")
        images = (
            images.images if isinstance(images, data.ViewedImages) else images
        )  # each file once
        names += map(os.path.abspath, images.paths)
        has_classes = "unlabelled" not in (name, local.name)
        labels += [images.class_names[label] if has_classes else None for label in images.labels]
        of += [name] * len(images)
    return Part(names, labels, of)


def _sets(sources, parts):
    """The set of each image: its split, else its source if there are several."""
    if len(parts) == 1:
        return None if parts[0].sets is None else np.array(parts[0].sets)
    sets = []
    for source, part in zip(sources, parts, strict=True):
        sets += [str(source)] * len(part.names) if part.sets is None else part.sets
    return np.array(sets)


def _sets_of(recipe, names):
    """The split of each image in a recipe; an empty text for others."""
    part = _of_recipe(recipe, f"the recipe {recipe.name}")
    split = dict(zip(map(os.path.realpath, part.names), part.sets, strict=True))
    sets = np.array([split.get(os.path.realpath(name), "") for name in names])
    if not sets.any():
        raise ValueError(f"None of the images is one of the recipe {recipe.name}.")
    return sets


def _common(sources, parts, name):
    """The value that all parts with one have in common."""
    found = {getattr(part, name) for part in parts} - {None}
    if len(found) > 1:
        raise ValueError(f"{listed(sources)} differ in their {name}: {listed(sorted(found))}.")
    return next(iter(found), None)


def _common_model(sources, parts, model):
    """The model of all embeddings, `None` if it is unknown."""
    known = [] if model is None else [(str(model.folder.path), model.info)]
    for source, part in zip(sources, parts, strict=True):
        if part.model is not None:
            known.append((str(source), part.model))
        elif part.embeddings is not None and model is not None:
            raise ValueError(f"{source} does not say which model made its embeddings.")
    for name, other in known[1:]:
        check_same_model(other, known[0][1], f"{name} and {known[0][0]}")
    is_known = all(part.model is not None or part.embeddings is None for part in parts)
    return known[0][1] if known and is_known else None
