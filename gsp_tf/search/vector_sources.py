"""Embeddings from anywhere, in blocks that can be read again."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gsp_tf._files import check_zip
from gsp_tf._metadata import ModelInfo
from gsp_tf._typing import PathLike
from gsp_tf.data import LeftOut, find_images
from gsp_tf.evaluation import TokenSets, checked_embeddings
from gsp_tf.search.embedding import EmbeddingsFolder
from gsp_tf.search.embedding._parquet import (
    list_rows,
    opened_parquet,
    parquet_files,
    read_batches,
)
from gsp_tf.search.embedding._token_columns import TOKEN_COLUMNS, num_tokens, token_sets
from gsp_tf.search.embedding.folder import FILE_COLUMNS
from gsp_tf.search.image_table import column_texts, located, plain_columns
from gsp_tf.search.index import Index

_BLOCK = 1024
_ARRAYS = (".npz", ".npy")
_KNOWN = ("embedding", "path", "label")
_OF_FOLDER = {"id", *_KNOWN, *FILE_COLUMNS, *TOKEN_COLUMNS}


class VectorBlock(NamedTuple):
    """The embeddings of n images, and what is known of the images.

    Attributes:
        names: n paths, or FILE#ROW for images without a path.
        labels: n class names, `None` where unknown.
        embeddings: Numbers `(n, D)`.
        columns: Arrays of n texts by name, empty texts where unknown: the columns that were asked
            for and are there. If all were asked for, Arrow arrays of their types.
        has_paths: Whether names are paths.
        tokens: The local features of the images, if they were asked for.

    Example:
        >>> VectorBlock(["a.png"], ["cat"], np.eye(1)).columns
        {}
    """

    names: Sequence[str]
    labels: Sequence[str | None]
    embeddings: np.ndarray
    columns: dict[str, np.ndarray | pa.Array | pa.ChunkedArray] = {}
    has_paths: bool = True
    tokens: TokenSets | None = None


class VectorSource(NamedTuple):
    """Embeddings that can be read again, in blocks.

    Attributes:
        read: Function that gives blocks, such as `VectorBlock`, of any size.
        count: Number of embeddings N.
        dim: Their dimension D.
        metric: The distance that they are made for, `None` if it is unknown.
        model: The model that made them, `None` if it is unknown.
        name: The source, in words.
        folder: The folder of `embed_images` that is read, `None` for other sources.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/a.npz", embeddings=np.eye(3))
        ...     vector_source(f"{folder}/a.npz").count
        3
    """

    read: Callable[[], Iterable[VectorBlock]]
    count: int
    dim: int
    metric: str | None = None
    model: ModelInfo | None = None
    name: str = "the source"
    folder: EmbeddingsFolder | None = None

    def blocks(self) -> Iterator[VectorBlock]:
        """Yields blocks of at most 1,024 images, with checked embeddings.

        Raises:
            ValueError: If the source is damaged, or is a compressed index.
        """
        count = 0
        for names, labels, embeddings, columns, has_paths, tokens in self.read():
            embeddings = checked_embeddings(embeddings, f"The embeddings of {self.name}")
            if embeddings.shape[1] != self.dim:
                raise ValueError(
                    f"{self.name} holds embeddings of different dimensions, {self.dim} and "
                    f"{embeddings.shape[1]}."
                )
            count += len(names)
            if count > self.count:
                break
            for start in range(0, len(names), _BLOCK):
                part = slice(start, start + _BLOCK)
                some = {name: values[part] for name, values in columns.items()}
                sets = None if tokens is None else tokens.take(part)
                described = names[part], labels[part], embeddings[part]
                yield VectorBlock(*described, some, has_paths, sets)
        if count != self.count:
            raise ValueError(f"{self.name} does not hold {self.count:,} embeddings, as expected.")

    @property
    def num_blocks(self) -> int:
        """About how many blocks there are, to show progress."""
        return -(-self.count // _BLOCK)


def holds_embeddings(path: Path) -> bool:
    """Whether a path, not that of a run, is one for `vector_source`; a folder of images is not."""
    described = any((path / name).is_file() for name in ("index.json", "embeddings.json"))
    if described or path.suffix in _ARRAYS:
        return True
    has_images = path.is_dir() and bool(find_images(path, LeftOut()))
    return not has_images and bool(_parquet_files(path))


def vector_source(
    path: PathLike,
    columns: Sequence[str] | None = (),
    needs_labels: bool = False,
    tokens: bool = False,
) -> VectorSource:
    """Opens the embeddings of a folder, an index or a file, with or without labels.

    Args:
        path: Folder of `embed_images`, or a run folder that holds one; index that keeps its
            vectors; Parquet file or folder of Parquet files with the column embedding, and path and
            label if the images have them; `.npz` file with the array embeddings, and paths and
            labels; or `.npy` file with embeddings alone. Paths of Parquet and `.npz` files are
            relative to the folder of the file, or absolute.
        columns: Names of further columns to read where they are, such as the camera. `None` reads
            all columns of numbers, texts, truth values, dates and times, as what they are, and a
            warning names the others; of an `.npz` file, arrays with one value per embedding.
        needs_labels: Whether a file without labels is refused.
        tokens: Whether to read the local features, which a folder or an index keeps of images that
            were embedded with them.

    Raises:
        FileNotFoundError: If there is nothing at the path, or a run has no embeddings.
        ValueError: If it holds no embeddings, lacks labels or tokens that are needed, or is
            damaged.

    Example:
        >>> vector_source("no/such/folder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder does not exist.
    """
    path = Path(path)
    if not path.exists():
        makes = {"index": f"index {path.parent}", "embeddings": f"embed {path.parent} IMAGES"}
        of_run = path.name in makes and (path.parent / "recipe.yaml").is_file()
        advice = f" gsp-tf {makes[path.name]} makes it." if of_run else ""
        raise FileNotFoundError(f"{path} does not exist.{advice}")
    is_run = (path / "recipe.yaml").is_file()
    path = path / "embeddings" if is_run else path
    if (path / "index.json").is_file():
        source = _of_index(Index(path), columns, tokens)
    elif is_run or (path / "embeddings.json").is_file():
        source = _of_folder(EmbeddingsFolder.open(path), columns, tokens)
    elif tokens:
        raise ValueError(
            f"{path} holds no local features, which transport compares. Give a run, or a folder or "
            "an index of images that were embedded with --tokens."
        )
    elif path.suffix in _ARRAYS:
        source = _of_arrays(path, columns, needs_labels)
    else:
        source = _of_parquet(path, columns, needs_labels)
    if not source.count:
        raise ValueError(f"{path} holds no embeddings.")
    return source._replace(name=str(path))


def block_of_file(file, paths, labels, embeddings, columns=None, first=0):
    """A block of a file, which may lack paths or labels, from row `first`."""
    count = len(embeddings)
    names = [f"{file}#{row}" for row in range(first, first + count)]
    if paths is not None:
        folder, both = os.path.dirname(file), zip(paths, names, strict=True)
        names = [located(path, folder) if path else name for path, name in both]
    labels = [None] * count if labels is None else labels
    return VectorBlock(names, labels, embeddings, columns or {}, paths is not None)


def _of_index(index, columns, tokens):
    others = [name for name in index.columns if name not in ("id", *_KNOWN)]
    some = others if columns is None else [name for name in columns if name in index.columns]

    def read():
        for ids, embeddings in index.embeddings():
            found = {name: index.column(name, ids) for name in some}
            found = found if columns is None else column_texts(found)
            sets = index.token_sets(ids) if tokens else None
            described = index.paths(ids), index.labels(ids), embeddings
            yield VectorBlock(*described, found, tokens=sets)

    metadata = index.metadata
    return VectorSource(read, len(index), metadata.dim, metadata.metric, metadata.model)


def _of_folder(folder, columns, tokens):
    if tokens and not num_tokens(folder.shard_schema(0)):
        raise ValueError(
            f"{folder.path} keeps no local features; embed the images with --tokens to another "
            "folder."
        )

    def read():
        for shard in folder.shards():
            if shard.paths:
                others = [name for name in shard.columns if name not in _OF_FOLDER]
                wanted = others if columns is None else columns
                found = {name: shard.columns[name] for name in wanted if name in shard.columns}
                found = _plain(found, folder.path) if columns is None else column_texts(found)
                sets = None
                if tokens:
                    sets = token_sets(pa.table({of: shard.columns[of] for of in TOKEN_COLUMNS}))
                described = shard.paths, shard.labels, shard.embeddings
                yield VectorBlock(*described, found, tokens=sets)

    metadata = folder.metadata()
    count = metadata.outcome.embedded
    described = metadata.dim, metadata.metric, metadata.model
    return VectorSource(read, count, *described, folder=folder)


def _of_arrays(path, columns, needs_labels):
    needed = ["labels", "embeddings"] if needs_labels else ["embeddings"]
    try:
        if path.suffix == ".npz":
            check_zip(path, "an archive of arrays")
        loaded = np.load(path)
        with nullcontext({"embeddings": loaded}) if path.suffix == ".npy" else loaded as arrays:
            embeddings = checked_embeddings(arrays["embeddings"], "embeddings")
            wanted = {"labels", "paths", *(columns or ())} & {*arrays, *needed}
            found = {name: arrays[name].astype(str) for name in sorted(wanted)}
            others = {*arrays} - {"embeddings", *wanted} if columns is None else ()
            values = {name: arrays[name] for name in sorted(others)}
            values = {n: pa.array(of) for n, of in values.items() if of.shape == (len(embeddings),)}
    except Exception as error:  # a broken archive may raise anything: EOFError, zlib.error...
        is_bare = path.suffix == ".npy" and not needs_labels
        expected = "an array (N, D)" if is_bare else f"arrays {' and '.join(needed)}"
        raise ValueError(f"{path} cannot be read; expected {expected}: {error}") from error
    for name, texts in found.items():
        if texts.shape != embeddings.shape[:1]:
            raise ValueError(
                f"{path} must have one value of {name} per embedding; received {name} "
                f"{texts.shape} and embeddings {embeddings.shape}."
            )
    known = (found[of].tolist() if of in found else None for of in ("paths", "labels"))
    if columns is None:
        some = _plain(values, path)
    else:
        some = {name: found[name] for name in columns if name in found}
    block = block_of_file(path, *known, embeddings, some)
    return VectorSource(lambda: [block], *embeddings.shape)


def _of_parquet(path, columns, needs_labels):
    files = _parquet_files(path)
    if not files:
        raise ValueError(
            f"{path} holds no embeddings that can be read; expected a run folder, an index, a "
            "folder of gsp-tf embed, Parquet files (*.parquet), a .npz or a .npy file."
        )
    taken = {file: _plain_names(file) for file in files} if columns is None else None

    def read():
        for file in files:
            wanted = columns if taken is None else taken[file]
            yield from _parquet_blocks(file, wanted, needs_labels, taken is None)

    first, count = next(read(), None), 0
    for file in files:
        with opened_parquet(file) as opened:
            count += opened.metadata.num_rows
    return VectorSource(read, count, 0 if first is None else first.embeddings.shape[1])


def _parquet_files(path):
    """The Parquet files of a folder, or that at the path."""
    return [file for file in parquet_files(path) if file.endswith(".parquet")]


def _plain(columns, whose):
    """The columns of numbers, texts, truth values, dates and times; a warning names the others."""
    found = plain_columns(pa.table(columns), whose)
    return {name: found[name] for name in found.column_names}


def _plain_names(file):
    """The names of the plain columns of a Parquet file, without those that every source has."""
    with opened_parquet(file) as opened:
        columns = opened.schema_arrow.empty_table()
    return list(_plain({n: columns[n] for n in columns.column_names if n not in _KNOWN}, file))


def _parquet_blocks(file, columns, needs_labels, as_texts):
    """Blocks of a Parquet file."""
    start = 0
    with opened_parquet(file) as opened:
        names = opened.schema_arrow.names
        missing = {"embedding", "label"} if needs_labels else {"embedding"}
        missing -= set(names)
        if missing:
            raise ValueError(
                f"{file} lacks the column {', '.join(sorted(missing))}; received "
                f"{', '.join(names)}."
            )
        wanted = sorted({"label", "path", *columns} & set(names))
        for batch in read_batches(file, opened, [*wanted, "embedding"]):
            if len(batch):
                known = (
                    batch[of].cast(pa.string()).to_pylist() if of in wanted else None
                    for of in ("path", "label")
                )
                some = {name: batch[name] for name in columns if name in wanted}
                some = column_texts(some) if as_texts else _plain(some, file)
                yield block_of_file(file, *known, list_rows(batch["embedding"], file), some, start)
                start += len(batch)
