"""Segments of an index: some of its images, open or in files that never change."""

import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from gsp_tf._files import file_sha256
from gsp_tf.search.index._tokens import Tables, chained, without
from gsp_tf.search.index.vector_index import VectorIndex

ITEM_COLUMNS = {"id": pa.int64(), "path": pa.string(), "label": pa.string()}
_MEMINFO = Path("/proc/meminfo")
_OURS = re.compile(
    r"(?:vectors|codes)-[0-9a-f]{8}\.faiss|items-[0-9a-f]{8}\.parquet|tokens-[0-9a-f]{8}\.arrow"
)


@dataclass(frozen=True)
class StoredFile:
    """Name, size and checksum of a file of a segment."""

    name: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not is_ours(self.name):
            raise ValueError(f"it names a file elsewhere: {self.name}.")

    def compared(self, folder: Path) -> Path:
        """The path in a folder; raises unless the file has its size and checksum."""
        path = self.found(folder)
        if file_sha256(path) != self.sha256:
            raise ValueError(f"{path} is damaged: its SHA-256 is not that in index.json.")
        return path

    def left_on_disk(self, folder: Path) -> Path:
        """Like `compared`, but a file larger than the memory has its size alone; a warning says so.

        Comparing such a file takes minutes, and evicts from memory what else is read.
        """
        if self.bytes <= available_memory():
            return self.compared(folder)
        path = self.found(folder)
        warnings.warn(
            f"{path} is larger than the available memory, so its checksum was not compared: damage "
            f"in it would give wrong results. gsp-tf index {folder} --verify compares it.",
            stacklevel=2,
        )
        return path

    def found(self, folder: Path) -> Path:
        """The path in a folder; raises if the file is missing or has another size."""
        path = folder / self.name
        if not path.is_file():
            raise FileNotFoundError(f"{folder} is damaged: it lacks {self.name}.")
        size = path.stat().st_size
        if size != self.bytes:
            raise ValueError(f"{path} is damaged: it has {size} bytes, expected {self.bytes}.")
        return path


@dataclass(frozen=True)
class StoredSegment:
    """Some images of an index: vectors and codes of faiss, items as Parquet, tokens as Arrow."""

    count: int
    vectors: StoredFile
    items: StoredFile
    tokens: StoredFile | None
    codes: StoredFile | None

    @property
    def files(self) -> list[StoredFile]:
        """The files of the segment."""
        files = (self.vectors, self.items, self.tokens, self.codes)
        return [file for file in files if file is not None]


@dataclass(frozen=True)
class Segment:
    """An open segment; `stored` is `None` until it is written."""

    vectors: VectorIndex
    items: pa.Table
    tokens: Tables | None = None
    stored: StoredSegment | None = None

    def without(self, ids: np.ndarray) -> "Segment":
        """The segment without some ids; this one, whose vectors are in memory, may change."""
        items = self.items.filter(pa.array(~np.isin(self.items["id"], ids)))
        return Segment(self.vectors.without(ids), items, without(self.tokens, ids))

    def merged(self, other: "Segment") -> "Segment":
        """This segment with the images of another with larger ids; both may change."""
        tokens = chained(self.tokens, other.tokens) if len(self.items) else other.tokens
        items = joined_items([self.items, other.items])
        return Segment(self.vectors.merged(other.vectors), items, tokens)


def available_memory() -> int:
    """Available memory in bytes, as Linux estimates it; total memory on other systems."""
    if _MEMINFO.exists():
        for line in _MEMINFO.read_text().splitlines():
            name, value = line.split(":")
            if name == "MemAvailable":
                return 1024 * int(value.split()[0])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def is_ours(name: str) -> bool:
    """Whether a name is that of a file of a segment."""
    return _OURS.fullmatch(name) is not None


def joined_items(tables: list[pa.Table]) -> pa.Table:
    """Tables of items as one; a column that a table does not have is missing for its images."""
    try:
        return pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise ValueError(
            f"A metadata column has different types in different images: {error}"
        ) from error
