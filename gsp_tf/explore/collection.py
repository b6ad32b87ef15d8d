"""The images among which a page searches: those of an index, or the test images of the run."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from gsp_tf._console import counted
from gsp_tf.data import FileImages, ImageSet, find_unreadable
from gsp_tf.evaluation import ExactSearch
from gsp_tf.experiment import Run, evaluation_batches, load_splits, reason
from gsp_tf.serving import distance_name, open_index
from gsp_tf.visual import Tile, array_tile, image_tile

MAX_TEST_IMAGES = 4000
_BLOCK = 100_000  # labels in memory at a time


class Found(NamedTuple):
    """An image that a search found.

    Args:
        rank: 1 for the nearest.
        distance: its distance from the query.
        label: its class, `None` if it is not known.
        tile: `Tile` of it.
    """

    rank: int
    distance: float
    label: str | None
    tile: Tile


class Sample(NamedTuple):
    """Some images of a collection.

    Args:
        images: `ImageSet`.
        indices: integers `(n,)`, which of its images.
        names: list of n names of files.
        labels: list of n classes, `None` where it is not known.
    """

    images: ImageSet
    indices: np.ndarray
    names: list
    labels: list


class IndexedImages:
    """The images of an index.

    Args:
        model: `RunModel`.
        index: `Index` that was made with it.

    Attributes:
        summary: what is searched, as a text.
        num_classes: how many classes its images are of.
        distance: what its distances are, as a text.

    Raises:
        ValueError: if the index was made with another model or preprocessing, or is empty.
    """

    def __init__(self, model, index):
        index.check_model(model)
        index.check_k(1)
        self._index = index
        self._channels = model.embedder.input_shape[-1]
        self.summary = f"{counted(len(index), 'image')} in {Path(*index.path.parts[-2:])}"
        self.distance = distance_name(index.metadata)
        blocks = np.array_split(index.ids, 1 + len(index) // _BLOCK)
        classes = {label for ids in blocks for label in index.labels(ids)}
        self.num_classes = len(classes - {None})

    def __len__(self):
        return len(self._index)

    def nearest(self, embedding, k):
        """The k nearest images of an embedding `(1, D)`, a list of `Found`."""
        ids, distances = self._index.search(embedding, k)
        found = zip(
            distances[0], self._index.labels(ids[0]), self._index.paths(ids[0]), strict=True
        )
        return [
            Found(rank, float(distance), label, image_tile(path))
            for rank, (distance, label, path) in enumerate(found, start=1)
        ]

    def sample(self, count):
        """At most `count` images that can be read, at random, as a `Sample`."""
        ids = _at_most(self._index.ids, count)
        paths, labels = self._index.paths(ids), self._index.labels(ids)
        unreadable = {error.path for error in find_unreadable(paths)}
        kept = [i for i, path in enumerate(paths) if path not in unreadable]
        paths, labels = [paths[i] for i in kept], [labels[i] for i in kept]
        images = FileImages(paths, np.zeros(len(paths), int), [""], channels=self._channels)
        return Sample(images, np.arange(len(paths)), list(map(_name, paths)), labels)


class TestImages:
    """The test images of a run, or its gallery, at most 4,000 of them at random.

    Args:
        model: `RunModel`.

    Attributes:
        summary: what is searched, as a text.
        num_classes: how many classes its images are of.
        distance: what its distances are, as a text.

    Raises:
        FileNotFoundError: if the data are not there.
        ValueError: if they cannot be used, or are not those that the run was made with.
    """

    __test__ = False  # pytest would take it for a test
    distance = "Euclidean distance"

    def __init__(self, model):
        recipe = model.recipe
        data = dataclasses.replace(recipe.data, download=False)
        run = Run(model.folder.path)
        run.splits = load_splits(dataclasses.replace(recipe, data=data))
        run.check_test_images(model.embedder)
        self._images = run.splits.searched
        kind = "test" if run.splits.gallery is None else "gallery"
        self._chosen = _at_most(np.arange(len(self._images)), MAX_TEST_IMAGES)
        batches = evaluation_batches(recipe, self._images, self._chosen)
        embeddings = model.embed_batches(batches, f"Embedding the {kind} images")
        self._search = ExactSearch(embeddings)
        self.num_classes = len(np.unique(self._images.labels[self._chosen]))
        self.summary = f"{len(self):,} {kind} images of the run"
        if len(self) < len(self._images):
            self.summary += f", a random sample of {len(self._images):,}"

    def __len__(self):
        return len(self._chosen)

    def nearest(self, embedding, k):
        """The k nearest images of an embedding `(1, D)`, a list of `Found`."""
        rows, distances = self._search(embedding, k)
        indices = self._chosen[rows[0]]
        found = zip(distances[0], indices, *self._described(indices), strict=True)
        return [
            Found(rank, float(distance), label, array_tile(self._images.image(index), name))
            for rank, (distance, index, name, label) in enumerate(found, start=1)
        ]

    def sample(self, count):
        """At most `count` of the images, at random, as a `Sample`."""
        indices = _at_most(self._chosen, count)
        return Sample(self._images, indices, *self._described(indices))

    def _described(self, indices):
        """Names and classes of images."""
        paths = getattr(self._images, "paths", None)
        names = [f"image {i}" if paths is None else _name(paths[i]) for i in indices]
        return names, [self._images.class_names[self._images.labels[i]] for i in indices]


class NoImages:
    """What there is when neither an index nor the test images are there.

    Args:
        why: the reason, as a text.

    Attributes:
        summary: the reason, and what to do.
    """

    def __init__(self, why):
        self.summary = (
            "There are no images to search: the run has no index, and its test images cannot be "
            f"had ({why}). Embed images with gsp-tf embed, make an index of them with gsp-tf "
            "index, and start gsp-tf explore again."
        )

    def __len__(self):
        return 0

    def sample(self, count):
        """No images, as a `Sample`."""
        return Sample((), np.arange(0), [], [])


def open_collection(model, index=None):
    """The images to search: of an index, else the test images, else none.

    Args:
        model: `RunModel`.
        index: `Index` or its folder; `None` is the folder `index` in the run, if it is there.

    Returns:
        `IndexedImages`, `TestImages` or `NoImages`.

    Raises:
        FileNotFoundError: if the index that was named is not there.
        ValueError: if the index is damaged or of another model.
    """
    path = model.folder.path
    if index is not None or (path / "index" / "index.json").is_file():
        return IndexedImages(model, open_index(path, index))
    try:
        return TestImages(model)
    except (ValueError, OSError, ImportError, tf.errors.OpError) as error:
        return NoImages(reason(error))


def _at_most(values, count):
    """At most `count` of some values, at random, in their order."""
    if len(values) <= count:
        return values
    return np.sort(np.random.default_rng(0).choice(values, count, replace=False))


def _name(path):
    return path.replace("\\", "/").rsplit("/", 1)[-1]
