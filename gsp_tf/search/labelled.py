"""Labelled embeddings from runs, indexes, folders and files."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gsp_tf._console import listed
from gsp_tf._integers import checked_seed
from gsp_tf._metadata import ModelInfo
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import TokenSets
from gsp_tf.search._validation_images import validation_source
from gsp_tf.search.image_table import ImageTable
from gsp_tf.search.thresholds import NAME
from gsp_tf.search.vector_sources import vector_source

MOST_IMAGES = 60_000


class LabelledEmbeddings(NamedTuple):
    """Embeddings with the names of their classes.

    Args:
        embeddings: float32 `(N, D)`.
        labels: integers `(N,)`, rows of `class_names`.
        class_names: C texts.
        metric: the distance that the source is made for, `None` if it is unknown.
        model: the model of the embeddings, `None` if it is unknown.
        source: what was read, in words.
        path: default file for thresholds.
        notes: sentences about what was left out.
        columns: texts `(N,)` by name, the columns that were asked for.
        tokens: the local features of the images, if they were asked for.

    Example:
        >>> labelled_embeddings("no/such/folder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder does not exist.
    """

    embeddings: np.ndarray
    labels: np.ndarray
    class_names: list[str]
    metric: str | None
    model: ModelInfo | None
    source: str
    path: Path
    notes: list[str]
    columns: dict[str, np.ndarray] = {}
    tokens: TokenSets | None = None


def labelled_embeddings(
    path: PathLike,
    most_images: int | None = MOST_IMAGES,
    seed: int = 0,
    columns: Sequence[str] = (),
    table: PathLike | None = None,
    tokens: bool = False,
) -> LabelledEmbeddings:
    """Reads the labelled embeddings of a run, an index, a folder or a file.

    A run gives the images of its validation classes, which are embedded, and never those of its
    test classes. If there are too many images, random classes are read as a whole.

    Args:
        path: run folder; index of `build_index` that has its vectors; folder of `embed_images`;
            Parquet file or folder of Parquet files with the columns label and embedding; or `.npz`
            file with the arrays labels and embeddings.
        most_images: number of images to read at most; `None` reads all.
        seed: seed of the choice of classes.
        columns: names of further columns to read, such as the camera.
        table: file for `ImageTable` with these columns; `None` takes them from the source.
        tokens: whether to read the local features that a folder or an index keeps.

    Returns:
        `LabelledEmbeddings`, without images that have no label.

    Raises:
        FileNotFoundError: if there is nothing at the path, or no table.
        ValueError: if it holds no labelled embeddings or is damaged, an index is compressed, a run
            has no validation classes of its own, or a column or tokens are missing.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/a.npz", embeddings=np.eye(3), labels=["cat", "dog", "cat"])
        ...     labelled_embeddings(f"{folder}/a.npz").class_names
        ['cat', 'dog']
    """
    path = Path(path)
    if (path / "recipe.yaml").is_file():
        if tokens:
            raise ValueError(
                f"{path} is a run, which keeps no local features of its validation images. Give a "
                "folder or an index of images that were embedded with --tokens."
            )
        source = validation_source(path)
    else:
        source = vector_source(path, columns, needs_labels=True, tokens=tokens)
    read_columns = _columns_of(source, columns, table)
    names: dict[str, int] = {}
    counts = np.zeros(0, np.int64)
    unlabelled = 0
    for block in source.blocks():
        known = [label for label in block.labels if label is not None]
        unlabelled += len(block.labels) - len(known)
        found = [names.setdefault(label, len(names)) for label in known]
        counts = np.pad(counts, (0, len(names) - len(counts)))
        counts += np.bincount(np.asarray(found, int), minlength=len(names))
    if not names:
        raise ValueError(f"{source.name} has no labels; the classes of images are needed.")
    order = np.random.default_rng(checked_seed(seed)).permutation(len(names))
    most_images = counts.sum() if most_images is None else most_images
    taken = order[np.cumsum(counts[order]) <= most_images]
    is_taken = np.isin(np.arange(len(names)), taken)
    if len(taken) < 2 <= len(names):
        raise ValueError(f"{source.name} has classes of more than {most_images:,} images.")
    thresholds = path / NAME if path.is_dir() else path.with_name(f"{path.name}.{NAME}")
    return _read(source, thresholds, names, counts, is_taken, unlabelled, read_columns)


def _read(source, thresholds, names, counts, is_taken, unlabelled, read_columns):
    """The embeddings of the classes that are taken, and their columns."""
    notes, all_names = [], list(names)
    if unlabelled:
        notes.append(f"{unlabelled:,} images without a label are left out.")
    if not is_taken.all():
        notes.append(
            f"{counts[is_taken].sum():,} of {counts.sum():,} images are used, those of "
            f"{np.count_nonzero(is_taken):,} random classes of {len(names):,}."
        )
    class_names = sorted(name for name, kept in zip(all_names, is_taken, strict=True) if kept)
    numbers = {name: number for number, name in enumerate(class_names)}
    labels = np.zeros(counts[is_taken].sum(), np.int64)
    embeddings = np.empty((len(labels), source.dim), np.float32)
    start, columns, tokens = 0, [], []
    for block in source.blocks():
        found = np.array([numbers.get(label, -1) for label in block.labels], int)
        kept = found >= 0
        columns.append({name: of[kept] for name, of in read_columns(block).items()})
        tokens += [] if block.tokens is None else [block.tokens.take(kept)]
        part = slice(start, start + np.count_nonzero(kept))
        embeddings[part], labels[part] = block.embeddings[kept], found[kept]
        start = part.stop
    joined = {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}
    sets = TokenSets.join(tokens) if tokens else None
    described = source.name, thresholds, notes, joined, sets
    return LabelledEmbeddings(
        embeddings, labels, class_names, source.metric, source.model, *described
    )


def _columns_of(source, names, table):
    """A function from a block of a source to its columns of some names, as texts."""
    if table is None:

        def read(block):
            missing = [name for name in names if name not in block.columns]
            if missing:
                raise ValueError(
                    f"{source.name} has no column {listed(missing)}. Name a table with the "
                    f"columns path and {listed(missing)} (--table FILE)."
                )
            return block.columns

        return read
    found = ImageTable(table, names)

    def look_up(block):
        if not block.has_paths:
            raise ValueError(f"{source.name} names no image files to look up in {found.path}.")
        return found.values(block.names)

    return look_up
