"""Queries and galleries to evaluate, from runs, indexes, folders and files."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from gsp_tf import runs
from gsp_tf._console import counted, listed
from gsp_tf._metadata import check_same_model
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import LearnedWhitening, TokenSets
from gsp_tf.search._tables import num_tokens
from gsp_tf.search.embeddings import MOST_IMAGES, Embeddings, evaluated_embeddings, read_labelled


@dataclasses.dataclass(frozen=True)
class RankedImages:
    """Queries, and the references that they search; without any, they search each other."""

    queries: Embeddings
    references: Embeddings | None
    galleries: np.ndarray | None  # the name of the gallery of each reference, if there are several
    metric: str | None  # "cosine" if it is that of any source, `None` if it is unknown
    notes: Sequence[str]  # about what was left out
    whitening: LearnedWhitening | None

    @functools.cached_property
    def class_names(self) -> list[str]:
        both = [self.queries, *filter(None, [self.references])]
        return np.unique([label for images in both for label in images.labels]).tolist()

    @functools.cached_property
    def searched(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Arguments of metrics: queries `(Q, D)`, their classes, references `(N, D)`, theirs."""

        def described(images):
            return images.vectors, np.searchsorted(self.class_names, images.labels)

        references = (None, None) if self.references is None else described(self.references)
        return *described(self.queries), *references

    @property
    def tokens(self) -> tuple[TokenSets | None, TokenSets | None]:
        """The local features of queries and references, where they were asked for."""
        return self.queries.tokens, None if self.references is None else self.references.tokens

    def groups(self, column: str) -> np.ndarray:
        """A column of the queries, texts `(Q,)`; "class" is that of their classes."""
        return self.queries.texts("label" if column == "class" else column)

    def sources(self, column: str) -> dict[str, np.ndarray]:
        """The arguments `query_sources` and `reference_sources` of metrics, from a column.

        An image with a missing value, an empty text, is a source of its own.
        """
        parts = [self.queries, self.references]
        parts = [part.texts(column) for part in parts if part is not None]
        values = np.concatenate(parts)
        _, numbers = np.unique(values, return_inverse=True)
        numbers = np.where(values == "", -1 - np.arange(len(values)), numbers.ravel())
        names = ("query_sources", "reference_sources")[: len(parts)]
        return dict(zip(names, np.split(numbers, [len(parts[0])]), strict=False))


def ranked_images(
    source: PathLike,
    galleries: Sequence[PathLike] = (),
    columns: Sequence[str] = (),
    table: PathLike | None = None,
    most_images: int | None = MOST_IMAGES,
    tokens: int | None = None,
    whitening: PathLike | None = None,
) -> RankedImages:
    """Reads embeddings to evaluate: test images of a run, or those of any other source.

    A run gives the embeddings of its last evaluation, and its gallery if it has one. If another
    source has more than `most_images`, random classes are read as a whole. `galleries` are sources
    to search instead, a run for its validation classes.

    The `columns` are taken from a table, without one from the sources, and for a run of a manifest
    from the manifest. `tokens` is the number of local features of an image that the model of a run
    gives; other sources give those that they keep. `whitening` is a labelled source from whose
    matched pairs `LearnedWhitening` is learned.
    """
    names = [str(Path(gallery)) for gallery in galleries]
    if len(set(names)) < len(names):
        raise ValueError(f"A gallery is named twice: {listed(names)}.")
    has_tokens = tokens is not None
    references, of_each, metrics = None, None, []
    if runs.is_run(source):
        queries, references = evaluated_embeddings(source, not names, tokens)
        queries = _with_columns(queries, source, columns, table)
        if references is not None:
            references = _with_columns(references, source, columns, table)
    else:
        queries = _read(source, columns, table, most_images, has_tokens)
    read_images = [queries]
    if names:
        parts = [_read(name, columns, table, None, has_tokens) for name in names]
        for name, part in zip(names, parts, strict=True):
            _check_fits(source, queries, name, part)
        read_images += parts
        references, metrics = _joined(parts), [part.metric for part in parts]
        of_each = np.repeat(names, [part.count for part in parts])
    learned = None
    if whitening is not None:
        part = _read(whitening, (), None)
        _check_fits(source, queries, whitening, part)
        read_images.append(part)
        learned = LearnedWhitening(part.vectors, part.classes[1])
    metric = "cosine" if "cosine" in metrics else queries.metric
    notes = [note for images in read_images for note in images.notes]
    if {"euclidean", "cosine"} <= {queries.metric, *metrics}:
        notes.append("An index has cosine distances, so all are compared by them.")
    own = len({*queries.paths}.intersection(references.paths)) if names else 0
    if own and [*queries.paths] != [*references.paths]:  # of the same rows the evaluation warns
        notes.append(
            f"{own:,} of {counted(queries.count, 'query', 'queries')} are among the searched "
            "images, too, and find themselves: their first results say nothing."
        )
    found = RankedImages(queries, references, of_each, metric, notes, learned)
    if len(found.class_names) < 2:
        raise ValueError(
            f"All images of {listed([source, *names])} are of one class, {found.class_names[0]}; "
            "ranking needs at least two, as every result is right among images of one."
        )
    return found


def _read(source, columns, table, most_images=None, tokens=False):
    """The labelled images of a source; of a run those of its validation classes."""
    images = read_labelled(source, most_images, tokens=tokens)
    return _with_columns(images, source, columns, table)


def _with_columns(images, source, columns, table):
    """Images with columns of a table, if there is one; refuses a column that they do not have."""
    if not columns:
        return images
    if table is None and runs.is_run(source):
        data = runs.RunFolder(source).recipe().data
        table = data.path if data.name == "manifest" else None
    if table is not None:
        return images.with_columns(table, columns)
    for column in columns:
        images.texts(column)
    return images


def _check_fits(source, queries, name, gallery):
    both = f"{source} and {name}"
    if queries.model is not None and gallery.model is not None:
        check_same_model(queries.model, gallery.model, both)
    if queries.dim != gallery.dim:
        raise ValueError(
            f"{both} do not belong together: the dimensions are {(queries.dim, gallery.dim)}."
        )


def _joined(parts):
    counts = sorted({num_tokens(next(part.blocks()).schema) for part in parts})
    if len(counts) > 1:
        raise ValueError(
            f"The galleries keep different numbers of local features, {listed(counts)}."
        )
    table = pa.concat_tables([part.table for part in parts], promote_options="permissive")
    has_tokens = parts[0].has_tokens
    return Embeddings(lambda: [table], len(table), parts[0].dim, has_tokens=has_tokens)
