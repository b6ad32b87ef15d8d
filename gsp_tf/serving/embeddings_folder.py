"""Folders of embeddings: sharded Parquet and what describes it."""

import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gsp_tf._files import replacing
from gsp_tf.serving.metadata import read_metadata, write_metadata

FORMAT = "gsp_tf embeddings"
_TYPES = {
    "model": dict,
    "preprocessing": dict,
    "dim": int,
    "metric": str,
    "versions": dict,
    "images": dict,
    "shard_size": int,
    "complete": bool,
}
_CORRUPT = b"corrupt"
_LENGTHS = b"lengths"
_LARGEST = 2**31 - 1


class Shard(NamedTuple):
    """The embeddings of some images.

    Args:
        paths: list of n absolute paths.
        labels: list of n names of classes, `None` where it is not known.
        embeddings: float32 `(n, D)`.
        corrupt: list of pairs of a path and a reason, for images that could not be read.
    """

    paths: list
    labels: list
    embeddings: np.ndarray
    corrupt: list


class ShardSummary(NamedTuple):
    """What a shard holds, without its embeddings.

    Args:
        count: number of embeddings.
        corrupt: list of pairs of a path and a reason, for images that could not be read.
        lengths: the shortest and the longest embedding; empty if there are none.
    """

    count: int
    corrupt: list
    lengths: list


class EmbeddingsFolder:
    """The files that hold the embeddings of images.

    `embeddings.json` says what they are, `embeddings-00000.parquet` and so on hold the columns
    path, label and embedding, `corrupt.csv` lists the images that could not be read, if any.

    Args:
        path: the folder.

    Example:
        >>> EmbeddingsFolder("embedded").metadata_path.as_posix()
        'embedded/embeddings.json'
    """

    def __init__(self, path):
        self.path = Path(path)
        self.metadata_path = self.path / "embeddings.json"
        self.corrupt_path = self.path / "corrupt.csv"

    def __fspath__(self):
        return str(self.path)

    @classmethod
    def open(cls, path):
        """A finished folder; refuses what is none.

        Raises:
            FileNotFoundError: if it holds no embeddings, or lacks a shard.
            ValueError: if it is not complete or damaged.
        """
        folder = cls(path)
        if not folder.metadata_path.is_file():
            raise FileNotFoundError(
                f"{folder.path} holds no embeddings: it has no {folder.metadata_path.name}, which "
                "gsp-tf embed writes."
            )
        if not folder.metadata()["complete"]:
            raise ValueError(
                f"{folder.path} is not complete: gsp-tf embed was stopped (or embed-collection); "
                "start it again with the same arguments and it continues."
            )
        for number in range(folder.num_shards):
            if not folder.shard_path(number).is_file():
                raise FileNotFoundError(f"{folder.path} lacks {folder.shard_path(number).name}.")
        return folder

    def refuse_other_files(self):
        """Raise `FileExistsError` if the folder holds anything but embeddings, or is a file."""
        if self.metadata_path.exists() or not self.path.exists():
            return
        if not self.path.is_dir() or any(p.name[0] != "." for p in self.path.iterdir()):
            raise FileExistsError(
                f"{self.path} exists and holds no embeddings; choose another one."
            )

    def metadata(self):
        """What `embeddings.json` holds."""
        metadata = read_metadata(self.metadata_path, FORMAT, _TYPES)
        images = metadata["images"]
        sizes = {name: metadata[name] for name in ("shard_size", "dim")}
        sizes |= {name: images.get(name) for name in ("listed", "embedded")}
        if not metadata["complete"]:
            del sizes["embedded"]
        for name, size in sizes.items():
            if type(size) is not int or not 1 <= size <= _LARGEST:
                raise ValueError(f"{self.metadata_path} is damaged: {name} is {size!r}.")
        return metadata

    def write_metadata(self, entries):
        """Write `embeddings.json`."""
        write_metadata(self.metadata_path, FORMAT, entries)

    def shard_path(self, number):
        """The file of a shard."""
        return self.path / f"embeddings-{number:05}.parquet"

    @property
    def num_shards(self):
        """Number of shards of the complete folder."""
        metadata = self.metadata()
        return -(-metadata["images"]["listed"] // metadata["shard_size"])

    def write_shard(self, number, shard):
        """Write a `Shard`, under a temporary name first."""
        dim = shard.embeddings.shape[1]
        values = pa.array(shard.embeddings.reshape(-1), pa.float32())
        table = pa.table(
            {
                "path": pa.array(shard.paths, pa.string()),
                "label": pa.array(shard.labels, pa.string()),
                "embedding": pa.FixedSizeListArray.from_arrays(values, dim),
            }
        )
        lengths = np.linalg.norm(shard.embeddings, axis=1)
        extent = [float(lengths.min()), float(lengths.max())] if len(lengths) else []
        table = table.replace_schema_metadata(
            {_CORRUPT: json.dumps(shard.corrupt), _LENGTHS: json.dumps(extent)}
        )
        with replacing(self.shard_path(number)) as temporary:
            pq.write_table(table, temporary, use_dictionary=["label"])

    def read_shard(self, number):
        """Read a `Shard`.

        Raises:
            ValueError: if the file is damaged or of another dimension.
        """
        path, dim = self.shard_path(number), self.metadata()["dim"]
        table = read_table(
            path,
            {"path": pa.string(), "label": pa.string(), "embedding": pa.list_(pa.float32(), dim)},
        )
        embeddings = table["embedding"].combine_chunks().flatten().to_numpy()
        if embeddings.size != len(table) * dim or table["path"].null_count:
            raise ValueError(f"{path} is damaged: rows of it are empty.")
        return Shard(
            table["path"].to_pylist(),
            table["label"].to_pylist(),
            embeddings.reshape(-1, dim),
            _noted(table.schema.metadata, path)[0],
        )

    def summarize_shard(self, number):
        """The `ShardSummary` of a shard, of which the end of the file alone is read.

        Raises:
            ValueError: if that is damaged.
        """
        path = self.shard_path(number)
        try:
            footer = pq.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            if not path.is_file():
                raise
            raise ValueError(f"{path} is damaged: {error}") from error
        return ShardSummary(footer.num_rows, *_noted(footer.metadata, path))

    def begin_attempt(self, number, most):
        """Note that a shard is begun; refuse one that was begun too often and never written.

        Raises:
            ValueError: if this was done `most` times since the folder was last opened to be
                written.
        """
        path = self._attempts_path(number)
        if path.exists() and path.stat().st_size >= most:
            raise ValueError(
                f"{most} workers were killed while they wrote it. Is there enough memory?"
            )
        with open(path, "a") as file:
            file.write(".")

    def end_attempts(self, number):
        """Forget the attempts at a shard."""
        self._attempts_path(number).unlink(missing_ok=True)

    def _attempts_path(self, number):
        return self.path / f".attempts.{number:05}.json"

    def shards(self):
        """All shards, one after the other."""
        return (self.read_shard(number) for number in range(self.num_shards))

    def write_corrupt(self, corrupt):
        """Write `corrupt.csv`, of pairs of a path and a reason."""
        with (
            replacing(self.corrupt_path) as temporary,
            open(temporary, "w", newline="", encoding="utf-8") as file,
        ):
            csv.writer(file).writerows([("path", "reason"), *corrupt])

    def corrupt(self):
        """Pairs of a path and a reason, for images that could not be read."""
        if not self.corrupt_path.exists():
            return []
        with open(self.corrupt_path, newline="", encoding="utf-8") as file:
            return [tuple(row) for row in csv.reader(file)][1:]

    def forget_attempts(self):
        """Forget the attempts at all shards."""
        for path in self.path.glob(".attempts.*.json"):
            path.unlink()


def _noted(metadata, path):
    """What a Parquet file notes: images that could not be read, and extreme lengths."""
    if not {_CORRUPT, _LENGTHS} <= set(metadata or {}):
        raise ValueError(f"{path} was not written by gsp-tf embed.")
    try:
        corrupt = [(str(name), str(why)) for name, why in json.loads(metadata[_CORRUPT])]
        return corrupt, [float(length) for length in json.loads(metadata[_LENGTHS])]
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its notes cannot be read ({error}).") from error


def read_table(path, columns):
    """Read a Parquet file with given columns.

    Args:
        path: the file.
        columns: dict from names to types of pyarrow.

    Returns:
        `pyarrow.Table` with these columns and the metadata of the file.

    Raises:
        ValueError: if the file is damaged, or its columns are others.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     pq.write_table(pa.table({"id": [3, 4]}), f"{folder}/a.parquet")
        ...     read_table(f"{folder}/a.parquet", {"id": pa.int64()})["id"].to_pylist()
        [3, 4]
    """
    try:
        with pq.ParquetFile(path) as file:
            found = {field.name: field.type for field in file.schema_arrow}
            if found == columns:
                return file.read()
    except (pa.ArrowException, OSError) as error:
        if not Path(path).is_file():
            raise
        raise ValueError(f"{path} is damaged: {error}") from error
    raise ValueError(f"{path} has the columns {found}; expected {columns}.")
