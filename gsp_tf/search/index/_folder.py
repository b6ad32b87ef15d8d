"""The files of an index: immutable segments, and a manifest that is replaced atomically."""

import base64
import contextlib
import functools
import os
import re
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gsp_tf._console import command_line, listed
from gsp_tf._files import file_sha256, hashing, locked
from gsp_tf._metadata import Metadata, ModelInfo, check_range
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import SearchSpace, TokenSets
from gsp_tf.search._embedded import read_table
from gsp_tf.search._tables import num_tokens, token_sets
from gsp_tf.search.index._vector_index import (
    Kind,
    Recall,
    Rescore,
    VectorIndex,
    check_rescore,
    find_rows,
)

Tables = Callable[[], Iterator[pa.Table]]


def stored_tables(find: Callable[[], Path], ids: pa.ChunkedArray) -> Tables:
    """The table of some ids in a file, which is found, checked and mapped when it is first read."""
    read = functools.cache(lambda: _mapped(find(), ids))
    return lambda: iter([read()])


def _write_tables(tables: Tables, sink) -> None:
    """Writes tables as one Arrow file, one after the other."""
    schema = next(iter(tables())).schema
    with pa.ipc.new_file(pa.PythonFile(sink, "w"), schema) as writer:
        for table in tables():
            writer.write_table(table.combine_chunks())


def read_sets(tables: Iterable[pa.Table], ids: np.ndarray) -> TokenSets:
    """The token sets of some ids, from tables that hold all of them; only their rows are read."""
    found = []
    for table in tables:
        rows, known = find_rows(ids, table["id"].to_numpy())
        if known.any():
            found.append((np.flatnonzero(known), token_sets(table.take(rows[known]))))
    places = np.concatenate([of_file for of_file, _ in found]) if found else np.empty(0, int)
    if len(places) < len(ids):
        raise ValueError(f"The tokens of {len(ids) - len(places)} images are missing.")
    return TokenSets.join([sets for _, sets in found]).take(np.argsort(places))


def _mapped(path, ids):
    try:
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not num_tokens(table.schema):
        raise ValueError(f"{path} is damaged: it holds no token sets.")
    if "id" not in table.column_names or not table["id"].equals(ids):
        raise ValueError(f"{path} is damaged: its ids are not those of its items.")
    return table


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
            f"in it would give wrong results. {command_line('index', folder, '--verify')} compares "
            "it.",
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
        def kept(table):
            return table.filter(pa.array(~np.isin(table["id"], ids)))

        of = self.tokens
        tokens = None if of is None else lambda: map(kept, of())
        return Segment(self.vectors.without(ids), kept(self.items), tokens)

    def merged(self, other: "Segment") -> "Segment":
        """This segment with the images of another with larger ids; both may change."""
        tokens = other.tokens
        if len(self.items):
            both = self.tokens, other.tokens
            tokens = None if None in both else lambda: (t for of in both for t in of())
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


_ROWS_PER_GROUP = 2**16  # texts of small groups are read in large batches


@dataclass(frozen=True)
class Space:
    """A `SearchSpace` in the form stored as JSON."""

    origin: str
    scale: float

    @classmethod
    def pack(cls, space: SearchSpace) -> "Space":
        origin = np.asarray(space.origin, "<f4").tobytes()
        return cls(base64.b64encode(origin).decode(), float(space.scale))

    def unpack(self, metric: str, dim: int) -> SearchSpace:
        origin = np.frombuffer(base64.b64decode(self.origin), "<f4")
        if origin.shape != (dim,):
            raise ValueError(f"its origin has {len(origin)} dimensions, expected {dim}.")
        mantissa, exponent = np.frexp(self.scale)
        if mantissa != 0.5 or not -148 <= exponent <= 128:
            raise ValueError(f"scale is {self.scale!r}; expected a power of two of float32.")
        if not np.isfinite(origin).all():
            raise ValueError("its origin is not finite.")
        return SearchSpace(metric, origin, np.float32(self.scale))


@dataclass(frozen=True)
class IndexMetadata(Metadata):
    """The contents of `index.json`."""

    format: ClassVar[str] = "gsp_tf index"
    format_version: ClassVar[int] = 2
    again: ClassVar[str] = "Remove its folder and build the index again with gsp-tf index."
    kind: Kind
    metric: str
    dim: int
    next_id: int
    space: Space
    model: ModelInfo | None
    recall: Recall
    versions: dict[str, str]
    segments: tuple[StoredSegment, ...]
    rescore: Rescore | None
    embedding_dim: int | None  # of the whole embeddings, if the index has prefixes of them

    def __post_init__(self) -> None:
        self.search_space()
        check_range("next_id", self.next_id, 0, 2**53)
        names = [file.name for file in self.files]
        if len(set(names)) < len(names):
            raise ValueError("it names a file twice.")
        check_rescore(self.kind, self.rescore)
        if self.embedding_dim is not None and self.embedding_dim < self.dim:
            raise ValueError(f"embedding_dim is {self.embedding_dim}, less than dim.")

    @property
    def count(self) -> int:
        return sum(segment.count for segment in self.segments)

    @property
    def files(self) -> list[StoredFile]:
        return [file for segment in self.segments for file in segment.files]

    def search_space(self) -> SearchSpace:
        return self.space.unpack(self.metric, self.dim)


class IndexFolder:
    """The files of an index folder; even after a failure, it holds the old index or the new one."""

    def __init__(self, path: PathLike):
        self.path = Path(path)
        self.metadata_path = self.path / "index.json"

    def refuse_existing(self) -> None:
        """Raises `FileExistsError` if the folder holds an index or other files."""
        if self.metadata_path.exists():
            raise FileExistsError(
                f"{self.path} holds an index; add to it "
                f"({command_line('index', self.path, '--add', 'DIR')}), choose another folder or "
                "remove it."
            )
        if self.path.exists() and not (
            self.path.is_dir()
            and all(is_ours(file.name) or file.name.startswith(".") for file in self.path.iterdir())
        ):
            raise FileExistsError(f"{self.path} exists and holds no index; choose another folder.")

    def metadata(self) -> IndexMetadata:
        if not self.metadata_path.is_file():
            raise FileNotFoundError(
                f"{self.path} is not an index: it has no {self.metadata_path.name}. Write "
                "embeddings with gsp-tf embed, then an index of them with gsp-tf index."
            )
        return IndexMetadata.read(self.metadata_path)

    def open(self, mapped: bool | None) -> tuple[IndexMetadata, list[Segment], bool]:
        """Reads the index; vectors stay on disk if `mapped`, or if `None` and memory is short."""

        def opened(metadata):
            on_disk = mapped
            if on_disk is None:
                vectors = sum(segment.vectors.bytes for segment in metadata.segments)
                on_disk = vectors > available_memory()
            find = StoredFile.left_on_disk
            segments = [self.read(metadata, s, on_disk, find=find) for s in metadata.segments]
            self._check_ids(metadata, segments)
            return metadata, segments, on_disk

        return self._of_one_generation(opened)

    def verify(self) -> IndexMetadata:
        """Compares all files with their checksums, opens them, and warns of files it can lose."""

        def verified(metadata):
            segments = [self.read(metadata, s, True) for s in metadata.segments]
            self._check_ids(metadata, segments)
            for segment in segments:
                if segment.tokens is not None:
                    next(segment.tokens())
            return metadata

        metadata = self._of_one_generation(verified)
        left = [file.name for file in self._left(metadata)]
        if left:
            warnings.warn(
                f"{self.path} has files that its index does not name, left by a change that was "
                f"stopped: {listed(left)}. The next change removes them.",
                stacklevel=3,
            )
        return metadata

    def _of_one_generation(self, read: Callable[[IndexMetadata], Any]) -> Any:
        while True:
            metadata = self.metadata()
            try:
                return read(metadata)
            except (FileNotFoundError, ValueError):
                if self._current() == metadata:  # otherwise another process replaced the files
                    raise

    def read(
        self,
        metadata: IndexMetadata,
        stored: StoredSegment,
        mapped: bool,
        codes_mapped: bool = True,
        find: Callable[[StoredFile, Path], Path] = StoredFile.compared,
    ) -> Segment:
        """Reads a segment; `find` compares the files that stay on disk, tokens once they are read.

        All others are compared with their checksums.
        """
        path = (find if mapped else StoredFile.compared)(stored.vectors, self.path)
        items_path = stored.items.compared(self.path)
        if (stored.codes is None) != (metadata.rescore is None):
            raise ValueError(f"{self.metadata_path} is damaged: its segments do not fit rescore.")
        codes = None if stored.codes is None else find(stored.codes, self.path)
        metric = metadata.search_space().faiss_metric
        described = metadata.kind, path, metric, mapped, metadata.rescore, codes, codes_mapped
        vectors = VectorIndex.read(*described)
        items = read_table(items_path, ITEM_COLUMNS).combine_chunks()
        counts = {stored.count, len(vectors), len(items)}
        if len(counts) > 1 or vectors.dim != metadata.dim:
            raise ValueError(f"The files of {self.path} do not belong together: counts {counts}.")
        if items["id"].null_count or items["path"].null_count:
            raise ValueError(f"{items_path} is damaged: it has items without an id or a path.")
        are_read = not metadata.kind.startswith("ivf") or not mapped
        if are_read and not np.array_equal(vectors.ids, items["id"]):
            raise ValueError(f"{path} is damaged: its ids are not those of its items.")
        tokens = None
        if stored.tokens is not None:
            stored.tokens.found(self.path)
            tokens = stored_tables(lambda: find(stored.tokens, self.path), items["id"])
        return Segment(vectors, items, tokens, stored)

    def _check_ids(self, metadata, segments):
        """Raises `ValueError` unless there are segments and their ids ascend, below `next_id`."""
        ids = np.concatenate([[-1], *(s.items["id"] for s in segments), [metadata.next_id]])
        if not segments:
            raise ValueError(f"{self.metadata_path} is damaged: it has no segments.")
        if (np.diff(ids) < 1).any():
            raise ValueError(
                f"{self.metadata_path} is damaged: the ids of its images do not ascend to next_id."
            )

    @contextlib.contextmanager
    def changing(self, metadata: IndexMetadata | None = None) -> Iterator[None]:
        """Locks the index, which must match `metadata`; then removes files it does not name."""
        with locked(self.path):
            if self._current() != metadata:
                raise ValueError(
                    f"Another process has changed the index {self.path}; open it again, then "
                    "repeat the change."
                )
            try:
                yield
            finally:
                for file in self._left(self._current()):
                    file.unlink(missing_ok=True)

    def write(
        self, metadata: IndexMetadata, segments: Sequence[Segment]
    ) -> tuple[IndexMetadata, list[Segment]]:
        """Writes new segments, then `index.json`; call it only within `changing`.

        The files of the other segments are compared with their checksums.
        """
        for file in (file for s in segments if s.stored is not None for file in s.stored.files):
            file.compared(self.path)
        segments = [s if s.stored is not None else self._write(s) for s in segments]
        metadata = replace(metadata, segments=tuple(s.stored for s in segments))
        metadata.write(self.metadata_path)
        return metadata, segments

    def _write(self, segment: Segment) -> Segment:
        stamp, vectors, kept = secrets.token_hex(4), segment.vectors, None

        def stored(name, write):
            with hashing(self.path / name) as sink:
                write(sink)
            return StoredFile(name, sink.size, sink.sha256)

        def of_faiss(name, index):
            return stored(
                f"{name}-{stamp}.faiss",
                lambda sink: faiss.write_index(index, faiss.PyCallbackIOWriter(sink.write)),
            )

        files = {"vectors": of_faiss("vectors", vectors.index), "codes": None, "tokens": None}
        if vectors.codes is not None:
            files["codes"] = of_faiss("codes", vectors.codes.index)
        files["items"] = stored(
            f"items-{stamp}.parquet",
            lambda sink: pq.write_table(segment.items, sink, row_group_size=_ROWS_PER_GROUP),
        )
        if segment.tokens is not None and len(segment.items):
            write = functools.partial(_write_tables, segment.tokens)
            tokens = files["tokens"] = stored(f"tokens-{stamp}.arrow", write)
            kept = stored_tables(lambda: tokens.left_on_disk(self.path), segment.items["id"])
        return replace(segment, tokens=kept, stored=StoredSegment(len(segment.items), **files))

    def _current(self) -> IndexMetadata | None:
        with contextlib.suppress(FileNotFoundError):
            return self.metadata()
        return None

    def _left(self, metadata: IndexMetadata | None) -> list[Path]:
        """The files of segments that the index does not name, after a change that was stopped."""
        kept = {file.name for file in metadata.files} if metadata is not None else set()
        files = list(self.path.iterdir())
        return [file for file in files if is_ours(file.name) and file.name not in kept]
