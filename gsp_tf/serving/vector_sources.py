"""Embeddings with the names of their images, from folders, indexes and files."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gsp_tf._typing import PathLike
from gsp_tf.evaluation import checked_embeddings
from gsp_tf.serving._metadata import ModelInfo
from gsp_tf.serving.embedding import EmbeddingsFolder
from gsp_tf.serving.index import Index

_BLOCK = 1024


class VectorSource(NamedTuple):
    """Embeddings that can be read again, in blocks.

    Attributes:
        read: Function that gives pairs of n names and embeddings float32 `(n, D)`.
        count: Number of embeddings N.
        dim: Their dimension D.
        metric: The distance that they are made for, `None` if it is unknown.
        model: The model that made them, `None` if it is unknown.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/a.npz", embeddings=np.eye(3))
        ...     vector_source(f"{folder}/a.npz").count
        3
    """

    read: Callable[[], Iterable[tuple[list[str], np.ndarray]]]
    count: int
    dim: int
    metric: str | None = None
    model: ModelInfo | None = None

    def blocks(self) -> Iterator[tuple[list[str], np.ndarray]]:
        """Yields names and checked embeddings of at most 1,024 images at once."""
        for names, embeddings in self.read():
            embeddings = checked_embeddings(embeddings, "The embeddings")
            if embeddings.shape[1] != self.dim:
                raise ValueError(
                    f"The embeddings have different dimensions, {self.dim} and "
                    f"{embeddings.shape[1]}."
                )
            for start in range(0, len(names), _BLOCK):
                yield names[start : start + _BLOCK], embeddings[start : start + _BLOCK]

    @property
    def num_blocks(self) -> int:
        """About how many blocks there are, to show progress."""
        return -(-self.count // _BLOCK)


def vector_source(path: PathLike) -> VectorSource:
    """Opens the embeddings of a folder, an index or a file, with or without labels.

    Args:
        path: Folder of `embed_images`, or a run folder that holds one; index that keeps its
            vectors; Parquet file or folder of Parquet files with the column embedding, and path if
            the images have names; or `.npz` file with the array embeddings.

    Raises:
        FileNotFoundError: If there is nothing at the path.
        ValueError: If it holds no embeddings, is damaged, or is a compressed index.

    Example:
        >>> vector_source("no/such/folder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder does not exist.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if (path / "recipe.yaml").is_file():
        path = path / "embeddings"
    if (path / "index.json").is_file():
        return _of_index(Index(path))
    if (path / "embeddings.json").is_file():
        return _of_folder(EmbeddingsFolder.open(path))
    if path.suffix == ".npz":
        return _of_arrays(path)
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files or any(file.suffix != ".parquet" for file in files):
        raise ValueError(
            f"{path} holds no embeddings that can be read; expected a folder of gsp-tf embed, an "
            "index, Parquet files (*.parquet) or a .npz file."
        )
    return _of_parquet(files)


def _of_index(index):
    def read():
        return ((index.paths(ids), embeddings) for ids, embeddings in index.embeddings())

    metadata = index.metadata
    return VectorSource(read, len(index), metadata.dim, metadata.metric, metadata.model)


def _of_folder(folder):
    def read():
        return ((shard.paths, shard.embeddings) for shard in folder.shards() if shard.paths)

    metadata = folder.metadata()
    count = metadata.outcome.embedded
    return VectorSource(read, count, metadata.dim, metadata.metric, metadata.model)


def _of_arrays(path):
    try:
        with np.load(path) as arrays:
            embeddings = checked_embeddings(arrays["embeddings"], f"embeddings of {path}")
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read; expected an array embeddings: {error}") from error
    names = [f"{path}#{row}" for row in range(len(embeddings))]
    return VectorSource(lambda: [(names, embeddings)], *embeddings.shape)


def _of_parquet(files):
    count, dim = 0, 0
    for file in files:
        try:
            with pq.ParquetFile(file) as opened:
                count += opened.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{file} is damaged, or no Parquet file: {error}") from error
        if not dim:
            first = next(_parquet_blocks(file), None)
            dim = 0 if first is None else first[1].shape[1]
    if not count:
        raise ValueError(f"{files[0]} holds no embeddings.")
    return VectorSource(lambda: (b for file in files for b in _parquet_blocks(file)), count, dim)


def _parquet_blocks(file):
    """Blocks of a Parquet file; an image without a path is named by its row."""
    start = 0
    try:
        with pq.ParquetFile(file) as opened:
            names = opened.schema_arrow.names
            if "embedding" not in names:
                raise ValueError(f"{file} lacks the column embedding; received {', '.join(names)}.")
            wanted = ["embedding", *({"path"} & set(names))]
            for batch in opened.iter_batches(_BLOCK, columns=wanted):
                if not len(batch):
                    continue
                rows = [f"{file}#{start + row}" for row in range(len(batch))]
                if "path" in wanted:
                    found = batch["path"].cast(pa.string()).to_pylist()
                    both = zip(found, rows, strict=True)
                    rows = [row if name is None else name for name, row in both]
                yield rows, embedding_rows(batch["embedding"], file)
                start += len(batch)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{file} is damaged, or no Parquet file: {error}") from error


def embedding_rows(column: pa.Array, file: PathLike) -> np.ndarray:
    """A column of lists of one length as an array `(n, D)`; the file is named in errors."""
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (is_list or pa.types.is_fixed_size_list(kind)) or column.null_count:
        raise ValueError(f"{file} must hold a list of numbers in every row of embedding.")
    values = column.flatten()
    lengths = np.asarray(pc.list_value_length(column))
    if values.null_count or len(set(lengths.tolist())) != 1:
        raise ValueError(f"{file} must hold embeddings of one length, without null.")
    return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
