"""Queries and galleries to evaluate, from runs, indexes, folders and files."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gsp_tf import runs
from gsp_tf._console import listed, show_progress
from gsp_tf._metadata import ModelInfo, check_same_model
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import LearnedWhitening, TokenSets
from gsp_tf.search.embedding import RunModel
from gsp_tf.search.image_table import ImageTable
from gsp_tf.search.labelled import MOST_IMAGES, labelled_embeddings


class RankedImages(NamedTuple):
    """Queries, and the images that they search.

    Args:
        queries: float32 `(Q, D)`.
        query_labels: integers `(Q,)`, rows of `class_names`.
        references: float32 `(N, D)`; `None` means that the queries search each other.
        reference_labels: integers `(N,)`, or `None`.
        class_names: C texts.
        query_columns: texts `(Q,)` by name.
        reference_columns: texts `(N,)` by name.
        galleries: texts `(N,)`, the gallery of each reference; `None` if there is only one.
        metric: the distance that the embeddings are made for, "cosine" if it is that of any source;
            `None` if it is unknown.
        notes: sentences about what was left out.
        query_tokens: the local features of the queries, if they were asked for.
        reference_tokens: those of the references.
        whitening: the whitening of `ranked_images`, if it was asked for.

    Example:
        >>> found = RankedImages(np.eye(2), np.array([0, 1]), None, None, ["cat", "dog"])
        >>> found.groups("class").tolist()
        ['cat', 'dog']
    """

    queries: np.ndarray
    query_labels: np.ndarray
    references: np.ndarray | None
    reference_labels: np.ndarray | None
    class_names: Sequence[str]
    query_columns: Mapping[str, np.ndarray] = {}
    reference_columns: Mapping[str, np.ndarray] = {}
    galleries: np.ndarray | None = None
    metric: str | None = None
    notes: Sequence[str] = ()
    query_tokens: TokenSets | None = None
    reference_tokens: TokenSets | None = None
    whitening: LearnedWhitening | None = None

    def groups(self, column: str) -> np.ndarray:
        """A column of the queries, texts `(Q,)`; "class" is that of their classes."""
        if column == "class":
            return np.array(self.class_names)[self.query_labels]
        return self.query_columns[column]

    def sources(self, column: str) -> dict[str, np.ndarray]:
        """The arguments `query_sources` and `reference_sources` of metrics, from a column.

        An image with a missing value, an empty text, is a source of its own.
        """
        parts = [self.query_columns[column]]
        parts += [] if self.references is None else [self.reference_columns[column]]
        values = np.concatenate(parts)
        _, numbers = np.unique(values, return_inverse=True)
        numbers = np.where(values == "", -1 - np.arange(len(values)), numbers.ravel())
        numbers = np.split(numbers, [len(self.queries)])
        names = ("query_sources", "reference_sources")[: len(parts)]
        return dict(zip(names, numbers, strict=False))


class _Part(NamedTuple):
    """Embeddings, names of their classes, columns, the model, the metric and local features."""

    embeddings: np.ndarray
    classes: np.ndarray
    columns: dict[str, np.ndarray]
    model: ModelInfo | None
    metric: str | None
    tokens: TokenSets | None = None


def ranked_images(
    source: PathLike,
    galleries: Sequence[PathLike] = (),
    columns: Sequence[str] = (),
    table: PathLike | None = None,
    most_images: int | None = MOST_IMAGES,
    seed: int = 0,
    tokens: int | None = None,
    whitening: PathLike | None = None,
) -> RankedImages:
    """Reads embeddings to evaluate: test images of a run, or those of any other source.

    A run gives the embeddings of its last evaluation, and its gallery if it has one. If another
    source has too many images, random classes are read as a whole.

    Args:
        source: run folder, or a source of `labelled_embeddings`.
        galleries: sources to search instead; their images without a label are left out.
        columns: names of further columns, such as the camera.
        table: file for `ImageTable` with these columns; `None` takes them from the sources, and for
            a run of a manifest from the manifest.
        most_images: number of images to read at most, except for galleries; `None` reads all.
        seed: seed of the choice of classes.
        tokens: number of local features of an image that the model of a run gives; other sources
            give those that they keep. `None` gives none.
        whitening: source of `labelled_embeddings`, such as those of the training images, from whose
            matched pairs `LearnedWhitening` is learned; `None` learns none.

    Returns:
        `RankedImages`.

    Raises:
        FileNotFoundError: if there is nothing at a path.
        ValueError: as `labelled_embeddings` and `LearnedWhitening`, or if the galleries or the
            source of the whitening are of another model, all images are of one class, or tokens are
            missing.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/a.npz", embeddings=np.eye(3), labels=["cat", "dog", "cat"])
        ...     ranked_images(f"{folder}/a.npz").query_labels
        array([0, 1, 0])
    """
    names = [str(Path(gallery)) for gallery in galleries]
    if len(set(names)) < len(names):
        raise ValueError(f"A gallery is named twice: {listed(names)}.")
    notes: list[str] = []
    references, of_each, metrics = None, None, []
    if (Path(source) / "recipe.yaml").is_file():
        queries, references = _of_run(source, columns, table, not names, tokens)
    else:
        queries = _read(source, columns, table, most_images, seed, notes, tokens)
    if names:
        parts = [_read(name, columns, table, None, seed, notes, tokens) for name in names]
        for name, part in zip(names, parts, strict=True):
            _check_fits(source, queries, name, part)
        references, metrics = _joined(parts), [part.metric for part in parts]
        of_each = np.repeat(names, [len(part.classes) for part in parts])
    learned = None
    if whitening is not None:
        part = _read(whitening, (), None, None, seed, notes, None)
        _check_fits(source, queries, whitening, part)
        learned = LearnedWhitening(
            part.embeddings, np.unique(part.classes, return_inverse=True)[1].ravel()
        )
    both = [queries.classes] if references is None else [queries.classes, references.classes]
    class_names, labels = np.unique(np.concatenate(both), return_inverse=True)
    if len(class_names) < 2:
        raise ValueError(
            f"All images of {listed([source, *names])} are of one class, {class_names[0]}; ranking "
            "needs at least two, as every result is right among images of one."
        )
    query_labels, reference_labels = np.split(labels.ravel(), [len(queries.classes)])
    if references is None:
        references, reference_labels = _Part(None, None, {}, None, None), None
    metric = "cosine" if "cosine" in metrics else queries.metric
    if {"euclidean", "cosine"} <= {queries.metric, *metrics}:
        notes.append("An index has cosine distances, so all are compared by them.")
    return RankedImages(
        queries.embeddings,
        query_labels,
        references.embeddings,
        reference_labels,
        class_names.tolist(),
        queries.columns,
        references.columns,
        of_each,
        metric,
        notes,
        queries.tokens,
        references.tokens,
        learned,
    )


def _read(source, columns, table, most_images, seed, notes, tokens):
    """The images of a source that is not a run."""
    read = labelled_embeddings(source, most_images, seed, columns, table, tokens is not None)
    notes += read.notes
    classes = np.array(read.class_names)[read.labels]
    return _Part(read.embeddings, classes, read.columns, read.model, read.metric, read.tokens)


def _of_run(path, columns, table, with_gallery, tokens):
    """The test images of a run, and its gallery or `None`."""
    model = RunModel(path)  # refuses the folder of several models
    token_model = None if tokens is None else runs.TokenModel(model.embedder, tokens)
    run = runs.Run(path)
    data = dataclasses.replace(run.recipe.data, download=False)
    run.splits = runs.load_splits(dataclasses.replace(run.recipe, data=data))
    if table is None and data.name == "manifest":
        table = data.path
    if columns and table is None:
        raise ValueError(
            f"The images of {path} have no column {listed(columns)}. Name a table with the columns "
            f"path and {listed(columns)} (--table FILE)."
        )
    found = run.test_embeddings()
    looked_up = None if not columns else ImageTable(table, columns)
    parts = []
    for images, embeddings in (
        (run.splits.test, found.queries),
        (run.splits.gallery if with_gallery else None, found.references),
    ):
        if images is None:
            parts.append(None)
            continue
        paths = getattr(images, "paths", None)
        if columns and paths is None:
            raise ValueError(f"The images of {path} are no files to look up in {table}.")
        values = {} if looked_up is None else looked_up.values(paths)
        classes = np.array(images.class_names)[images.labels]
        sets = None
        if token_model is not None:
            batches = runs.evaluation_batches(run.recipe, images)
            batches = show_progress(batches, "Local features of the test images", len(batches))
            sets = token_model.embed(batches)
        parts.append(_Part(embeddings, classes, values, model.info, "euclidean", sets))
    return parts


def _check_fits(source, queries, name, gallery):
    """Refuse a gallery of another model or dimension."""
    both = f"{source} and {name}"
    if queries.model is not None and gallery.model is not None:
        check_same_model(queries.model, gallery.model, both)
    dims = queries.embeddings.shape[1], gallery.embeddings.shape[1]
    if dims[0] != dims[1]:
        raise ValueError(f"{both} do not belong together: the dimensions are {dims}.")


def _joined(parts):
    """The images of several parts, one after the other."""
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns
    }
    tokens = [part.tokens for part in parts if part.tokens is not None]
    counts = sorted({sets.weights.shape[1] for sets in tokens})
    if len(counts) > 1:
        raise ValueError(
            f"The galleries keep different numbers of local features, {listed(counts)}."
        )
    return _Part(
        np.concatenate([part.embeddings for part in parts]),
        np.concatenate([part.classes for part in parts]),
        columns,
        None,
        None,
        TokenSets.join(tokens) if tokens else None,
    )
