"""Folders of embeddings: Parquet shards and their metadata."""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gsp_tf._files import SEAL, UNSEALED, check_seal, replace_bytes, sealed
from gsp_tf._metadata import LARGEST, Metadata, ModelInfo, check_range
from gsp_tf._typing import PathLike
from gsp_tf.search._tables import opened_parquet, read_parquet, vectors_of

FILE_COLUMNS = {"file_size": pa.int64(), "file_time": pa.timestamp("ns", "UTC")}
_CORRUPT = b"corrupt"
_LENGTHS = b"lengths"
_AGAIN = "Remove its folder and embed the images again."


@dataclass(frozen=True)
class ImageList:
    """The number of images to embed, and the digest of their list."""

    listed: int
    sha256: str


@dataclass(frozen=True)
class Outcome:
    """Numbers of embedded and corrupt images, and the extreme lengths of the embeddings."""

    embedded: int
    corrupt: int
    lengths: tuple[float, ...]


@dataclass(frozen=True)
class EmbeddingsMetadata(Metadata):
    """The contents of `embeddings.json`; without an outcome, the folder is incomplete."""

    format: ClassVar[str] = "gsp_tf embeddings"
    format_version: ClassVar[int] = 2
    again: ClassVar[str] = "Remove its folder and embed the images again with gsp-tf embed."
    model: ModelInfo
    images: ImageList
    dim: int
    metric: Literal["euclidean", "cosine"]
    shard_size: int
    versions: dict[str, str]
    outcome: Outcome | None = None

    def __post_init__(self) -> None:
        sizes = {"dim": self.dim, "shard_size": self.shard_size, "listed": self.images.listed}
        if self.outcome is not None:
            sizes["embedded"] = self.outcome.embedded
            lengths = self.outcome.lengths
            if len(lengths) != 2 or not 0 <= lengths[0] <= lengths[1]:
                raise ValueError("lengths must be two numbers that are 0 or more and ascend.")
        for name, size in sizes.items():
            check_range(name, size, 1, LARGEST)
        if self.outcome is not None:
            check_range("corrupt", self.outcome.corrupt, 0, LARGEST)
            if self.outcome.embedded + self.outcome.corrupt != self.images.listed:
                raise ValueError("embedded and corrupt do not add up to listed.")

    @property
    def num_shards(self) -> int:
        """Number of shards in the complete folder."""
        return -(-self.images.listed // self.shard_size)


class EmbeddingsFolder:
    """A folder that holds the embeddings of images.

    `embeddings.json` describes the embeddings. `embeddings-00000.parquet` and so on hold the
    columns path, label and embedding, and further columns of the images. `corrupt.csv`, if present,
    lists the images that could not be read.
    """

    def __init__(self, path: PathLike):
        self.path = Path(path)
        self.metadata_path = self.path / "embeddings.json"
        self.corrupt_path = self.path / "corrupt.csv"

    def __fspath__(self) -> str:
        return str(self.path)

    @classmethod
    def open(cls, path: "EmbeddingsFolder | PathLike") -> "EmbeddingsFolder":
        """Opens a finished folder; raises an error for any other."""
        folder = cls(path)
        if not folder.metadata_path.is_file():
            raise FileNotFoundError(
                f"{folder.path} holds no embeddings: it has no {folder.metadata_path.name}, which "
                "gsp-tf embed writes."
            )
        metadata = folder.metadata()
        if metadata.outcome is None:
            raise ValueError(
                f"{folder.path} is not complete: gsp-tf embed was stopped (or embed-collection); "
                "start it again with the same arguments and it continues."
            )
        for number in range(metadata.num_shards):
            if not folder.shard_path(number).is_file():
                raise FileNotFoundError(f"{folder.path} lacks {folder.shard_path(number).name}.")
        return folder

    def metadata(self) -> EmbeddingsMetadata:
        return EmbeddingsMetadata.read(self.metadata_path)

    def shards(self) -> Iterator[pa.Table]:
        """Reads the shards one by one: columns path, label, embedding and those of the images."""
        metadata = self.metadata()
        for number in range(metadata.num_shards):
            yield self.read_shard(number, metadata.dim)

    def corrupt(self) -> list[tuple[str, str]]:
        """Pairs of path and reason, for images that could not be read."""
        metadata = self.metadata()
        has_any = metadata.outcome is None or metadata.outcome.corrupt
        numbers = range(metadata.num_shards if has_any else 0)
        return [pair for number in numbers for pair in self.summarize_shard(number)[1]]

    def refuse_other_files(self) -> None:
        """Raises `FileExistsError` if the folder holds anything but embeddings, or is a file."""
        if self.metadata_path.exists() or not self.path.exists():
            return
        if not self.path.is_dir() or any(p.name[0] != "." for p in self.path.iterdir()):
            raise FileExistsError(
                f"{self.path} exists and holds no embeddings; choose another folder."
            )

    def shard_path(self, number: int) -> Path:
        return self.path / f"embeddings-{number:05}.parquet"

    def write_shard(
        self, number: int, images: pa.Table, corrupt: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Writes images, and those that cannot be read with the reasons, in place of a shard."""
        lengths = np.linalg.norm(vectors_of(images), axis=1)
        extent = [float(lengths.min()), float(lengths.max())] if len(lengths) else []
        notes = {_CORRUPT: json.dumps(corrupt), _LENGTHS: json.dumps(extent), SEAL: UNSEALED}
        content = io.BytesIO()
        pq.write_table(images.replace_schema_metadata(notes), content, use_dictionary=["label"])
        replace_bytes(self.shard_path(number), sealed(content.getvalue()))

    def read_shard(self, number: int, dim: int) -> pa.Table:
        """Reads a shard with embeddings of dimension `dim`; raises `ValueError` if damaged."""
        path = self.shard_path(number)
        wanted = {"path": pa.string(), "label": pa.string()}
        wanted["embedding"] = pa.list_(pa.float32(), dim)
        table = read_table(path, wanted, self._compared(path))
        is_whole = table["embedding"].combine_chunks().flatten().null_count == 0
        if not is_whole or table["embedding"].null_count or table["path"].null_count:
            raise ValueError(f"{path} is damaged: it has rows without a path or an embedding.")
        _notes(table.schema.metadata, path)
        return table

    def shard_schema(self, number: int) -> pa.Schema:
        """The names and types of the columns of a shard."""
        path = self.shard_path(number)
        with opened_parquet(path, self._compared(path)) as file:
            return file.schema_arrow

    def summarize_shard(self, number: int) -> tuple[int, list[tuple[str, str]], list[float]]:
        """The number of images of a shard, those that are corrupt, and the extreme lengths."""
        path = self.shard_path(number)
        with opened_parquet(path, self._compared(path)) as file:
            return file.metadata.num_rows, *_notes(file.metadata.metadata, path)

    def files_of_shard(self, number: int) -> tuple[pa.Table, list[tuple[str, str]]]:
        """The path, size and time of each image, and the corrupt ones; reads no embedding."""
        path = self.shard_path(number)
        with opened_parquet(path) as file:
            return file.read(["path", *FILE_COLUMNS]), _notes(file.metadata.metadata, path)[0]

    @staticmethod
    def _compared(path):
        """The bytes of a shard, which have their checksum."""
        content = path.read_bytes()
        check_seal(path, content, _AGAIN)
        return content


def _notes(metadata: dict | None, path: Path) -> tuple[list, list]:
    """The unreadable images and the extreme lengths that a Parquet file records."""
    if not {_CORRUPT, _LENGTHS} <= set(metadata or {}):
        raise ValueError(f"{path} was not written by gsp-tf embed.")
    try:
        corrupt = [(str(name), str(why)) for name, why in json.loads(metadata[_CORRUPT])]
        return corrupt, [float(length) for length in json.loads(metadata[_LENGTHS])]
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its notes cannot be read ({error}).") from error


def read_table(
    path: Path, columns: dict[str, pa.DataType], content: bytes | None = None
) -> pa.Table:
    """Reads a Parquet file, or its bytes, which must have the given columns and types."""
    table = read_parquet(path, content=content)
    found = dict(zip(table.schema.names, table.schema.types, strict=True))
    if columns.items() <= found.items():
        return table
    raise ValueError(f"{path} has the columns {found}; expected {columns}.")
