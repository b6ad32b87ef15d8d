"""The images that a page searches: those of an index, or the test images of the run."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from gsp_tf._console import counted
from gsp_tf._files import reason
from gsp_tf._typing import PathLike
from gsp_tf.data import FileImages, ImageSet, UnreadableImageError, find_unreadable
from gsp_tf.evaluation import ExactSearch
from gsp_tf.runs import Run, load_splits
from gsp_tf.search import Index, RunModel, Thresholds, find_thresholds, is_index, open_index
from gsp_tf.search._embedded import EmbeddingsFolder
from gsp_tf.search._tables import as_text
from gsp_tf.search.index._where import ConditionError, rows_where
from gsp_tf.search.index.neighbours import Neighbour, in_order
from gsp_tf.search.pages import image_tile
from gsp_tf.visual import Tile, array_tile


class Sample(NamedTuple):
    """Some images of a set, with their numbers, file names and labels, `None` without a label."""

    images: ImageSet | Sequence
    indices: np.ndarray
    numbers: np.ndarray  # ids, as of `Neighbour`
    names: list[str]
    labels: list[str | None]


class Searched:
    """Images to search, by their ids."""

    ids: np.ndarray
    summary: str
    thresholds: Thresholds | None = None
    columns: Sequence[str] = ()  # that a condition may name

    def __len__(self) -> int:
        return len(self.ids)

    def sample(self, count: int) -> Sample:
        """At most `count` random images, in their order."""
        ids = self.ids
        if len(ids) > count:
            ids = np.sort(np.random.default_rng(0).choice(ids, count, replace=False))
        return self._sample(ids)

    def images(self, found: list[Neighbour]) -> Sample:
        return self._sample(np.array([one.id for one in found]))

    def nearest(
        self,
        embedding: np.ndarray,
        k: int,
        where: str | None = None,
        own: int | None = None,
        content: bytes | None = None,
    ) -> list[Neighbour]:
        """The k images nearest to an embedding `(1, D)`, of those that meet a condition.

        The image with the number `own` is left out, and files with the bytes `content` are marked.
        """
        excluded = [] if own is None else [own]
        matching = None if where is None else np.setdiff1d(self._matching(where), excluded)
        k = min(k, len(self) - len(excluded) if matching is None else len(matching))
        if not k and where is not None:
            raise ConditionError(f"No other image meets the condition {where[:200]!r}.")
        if not k:
            return []
        (ids,), (distances,) = self._search(embedding, k, excluded, matching)
        files = self._files(ids)
        found = in_order(self.thresholds, ids, distances, self._labels(ids), self._names(ids))
        return [
            one._replace(is_query=_holds(file, content))
            for one, file in zip(found, files, strict=True)
        ]


class NoImages(Searched):
    """No images, and why: there is no index, and the test images cannot be loaded."""

    ids = np.arange(0)

    def __init__(self, why: str):
        self.summary = (
            "There are no images to search: the run has no index, and its test images cannot be "
            f"loaded ({why}). Embed images with gsp-tf embed, make an index of them with gsp-tf "
            "index, and start gsp-tf explore again."
        )

    def _sample(self, ids):
        return Sample((), ids, ids, [], [])


class IndexedImages(Searched):
    """The images of an index; raises `ValueError` if it is empty or of another model."""

    def __init__(self, model: RunModel, index: Index, thresholds: Thresholds | PathLike | None):
        index.check_model(model)
        self.thresholds = find_thresholds(thresholds, model.info, model.folder.path, index)
        index.check_k(1)
        self._index, self.ids, self._search = index, index.ids, index.search
        self._labels, self._names, self._files = index.labels, index.paths, index.paths
        self._channels = model.embedder.input_shape[-1]
        self.summary = f"{counted(len(index), 'image')} in {Path(*index.path.parts[-2:])}"
        self.distance = index.distance_name
        self.columns = [name for name in index.columns if name != "id"]
        shown = {name: index.column(name, index.ids) for name in self.columns}
        shown["path"] = pc.replace_substring_regex(shown["path"], r"^(?s:.*)[/\\]", "")
        self._shown = pa.table(shown)  # visitors must not learn the folders of the machine
        self.num_classes = len(pc.unique(shown["label"].drop_null()))

    def tile(self, found: Neighbour) -> Tile:
        return image_tile(found.path)

    def _matching(self, where):
        return self.ids[np.asarray(rows_where(self._shown, where))]

    def _sample(self, ids):
        paths, labels = self._index.paths(ids), self._index.labels(ids)
        unreadable = {error.path for error in find_unreadable(paths)}
        kept = [i for i, path in enumerate(paths) if path not in unreadable]
        paths, labels = [paths[i] for i in kept], [labels[i] for i in kept]
        images = FileImages(paths, np.zeros(len(paths), int), [""], channels=self._channels)
        return Sample(images, np.arange(len(paths)), ids[kept], list(map(file_name, paths)), labels)


class TestImages(Searched):
    """The test images of a run, or its gallery, with the embeddings kept by its evaluation."""

    __test__ = False  # pytest would collect it as a test
    distance = "Euclidean distance"

    def __init__(self, model: RunModel, thresholds: Thresholds | None):
        self.thresholds = thresholds
        run = Run(model.folder.path)
        run.splits = load_splits(run.recipe, download=False)
        run.check_test_images(model.embedder)
        embedded = run.test_embeddings()
        self._images = run.splits.searched
        kind, embeddings = "test", embedded.queries
        if embedded.references is not None:
            kind, embeddings = "gallery", embedded.references
        self.ids, self._exact = np.arange(len(self._images)), ExactSearch(embeddings)
        self.num_classes = len(np.unique(self._images.labels))
        self.summary = f"{counted(len(self), f'{kind} image')} of the run"

    def tile(self, found: Neighbour) -> Tile:
        return array_tile(self._images.image(found.id), found.path)

    def _matching(self, where):
        raise ConditionError("Conditions are for an index with metadata; these are test images.")

    def _search(self, embedding, k, excluded, _):
        return self._exact(embedding, k, excluded or None)

    def _sample(self, ids):
        return Sample(self._images, ids, ids, self._names(ids), self._labels(ids))

    def _files(self, ids):
        paths = getattr(self._images, "paths", None)
        return [None if paths is None else paths[i] for i in ids]

    def _names(self, ids):
        files = zip(ids, self._files(ids), strict=True)
        return [f"image {i}" if file is None else file_name(file) for i, file in files]

    def _labels(self, ids):
        return [self._images.class_names[self._images.labels[i]] for i in ids]


def open_images(
    model: RunModel,
    index: Index | PathLike | None = None,
    thresholds: Thresholds | PathLike | None = None,
) -> Searched:
    """The images of the given index, else of the run's, else those embedded, else of its test."""
    path = model.folder.path
    embedded = EmbeddingsFolder(path / "embeddings")
    is_embedded = embedded.metadata_path.is_file() and embedded.metadata().outcome is not None
    if index is not None or is_embedded or is_index(path / "index"):
        return IndexedImages(model, open_index(path, index), thresholds)
    thresholds = find_thresholds(thresholds, model.info, path, dim=model.dim)
    try:
        return TestImages(model, thresholds)
    except (ValueError, OSError, ImportError, tf.errors.OpError) as error:
        print(f"The test images cannot be loaded: {reason(error)}", file=sys.stderr)
        return NoImages(shown_reason(error))


def _holds(path, content):
    """Whether a file has these bytes; a missing file has none."""
    if content is None or path is None:
        return False
    try:
        return Path(path).stat().st_size == len(content) and Path(path).read_bytes() == content
    except OSError:
        return False


def shown_reason(error: BaseException) -> str:
    """What visitors are told about an error, without the folders of the machine."""
    if isinstance(error, UnreadableImageError):
        return f"{file_name(error.path)}: {error.reason}"
    text = reason(error)
    return "it failed; the terminal says why" if re.search(r"[/\\]", text) else text


def file_name(path: str) -> str:
    """The file name of a path with separators of any system."""
    return as_text(path.replace("\\", "/").rsplit("/", 1)[-1])
