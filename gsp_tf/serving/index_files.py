"""The files of an index, replaced together."""

import contextlib
import re
import secrets
from pathlib import Path

import faiss
import pyarrow as pa
import pyarrow.parquet as pq

from gsp_tf._files import hashing, locked
from gsp_tf.serving.checksum import file_sha256
from gsp_tf.serving.embeddings_folder import read_table
from gsp_tf.serving.kinds import is_of_kind
from gsp_tf.serving.memory import available_memory
from gsp_tf.serving.metadata import read_metadata, write_metadata

FORMAT = "gsp_tf index"
ITEM_COLUMNS = {"id": pa.int64(), "path": pa.string(), "label": pa.string()}
_OURS = re.compile(r"vectors-[0-9a-f]{8}\.faiss|items-[0-9a-f]{8}\.parquet|index\.json")
_TYPES = {
    "kind": str,
    "metric": str,
    "dim": int,
    "count": int,
    "next_id": int,
    "space": dict,
    "model": dict,
    "preprocessing": dict,
    "recall": dict,
    "files": dict,
}
_RECALL = ("share", "neighbours", "queries", "images")


class IndexFiles:
    """The files of an index folder.

    `index.json` describes the index and names the other two: the vectors, in the format of faiss,
    and the items (id, path, label), as Parquet. A change writes these under new names and then
    replaces `index.json`, so that the folder holds the old index or the new one, whatever happens.
    Only one process at a time changes it.

    Args:
        path: the folder.

    Example:
        >>> IndexFiles("index").metadata_path.as_posix()
        'index/index.json'
    """

    def __init__(self, path):
        self.path = Path(path)
        self.metadata_path = self.path / "index.json"

    def refuse_existing(self):
        """Raise `FileExistsError` if the folder holds an index or anything else."""
        if self.metadata_path.exists():
            raise FileExistsError(
                f"{self.path} holds an index; add to it (gsp-tf index {self.path} --add DIR), "
                "choose another folder or remove it."
            )
        if self.path.exists() and not (self.path.is_dir() and all(map(_is_ours, self._others()))):
            raise FileExistsError(f"{self.path} exists and holds no index; choose another folder.")

    def metadata(self):
        """What `index.json` holds."""
        if not self.metadata_path.is_file():
            raise FileNotFoundError(
                f"{self.path} is no index: it has no {self.metadata_path.name}. Write embeddings "
                "with gsp-tf embed, then an index of them with gsp-tf index."
            )
        metadata = read_metadata(self.metadata_path, FORMAT, _TYPES)
        if not all(isinstance(metadata["recall"].get(name), int | float) for name in _RECALL):
            raise ValueError(f"{self.metadata_path} is damaged: its recall is incomplete.")
        for name in ("vectors", "items"):
            entry = metadata["files"].get(name)
            if not isinstance(entry, dict) or set(entry) != {"name", "bytes", "sha256"}:
                raise ValueError(f"{self.metadata_path} is damaged: it names no file of {name}.")
            if entry["name"] != Path(str(entry["name"])).name:
                raise ValueError(f"{self.metadata_path} names a file elsewhere: {entry['name']}.")
        return metadata

    def open(self, mapped):
        """What `index.json` holds, and what `read` gives for it.

        Another process may replace the files meanwhile; then those that it wrote are read.
        """
        return self._of_one_generation(lambda metadata: (metadata, *self.read(metadata, mapped)))

    def verify(self):
        """Read the files of vectors and items, and compare them with their checksums.

        Returns:
            dict of `metadata()`.
        """

        def verified(metadata):
            for entry in (metadata["files"][name] for name in ("vectors", "items")):
                self._check_sum(self._checked_size(entry), entry)
            return metadata

        return self._of_one_generation(verified)

    def _of_one_generation(self, read):
        while True:
            metadata = self.metadata()
            try:
                return read(metadata)
            except (FileNotFoundError, ValueError):
                if self._named() == metadata["files"]:
                    raise

    def read(self, metadata, mapped):
        """The index of faiss and the table of items that `index.json` names.

        Args:
            metadata: dict of `metadata()`.
            mapped: whether to leave the vectors on disk; `None` leaves them there if they are more
                than the memory that is available.

        Returns:
            `faiss.Index`, `pyarrow.Table` and whether the vectors are on disk.
        """
        vectors, items = (self._checked_size(metadata["files"][k]) for k in ("vectors", "items"))
        if mapped is None:
            mapped = vectors.stat().st_size > available_memory()
        self._check_sum(items, metadata["files"]["items"])
        if not mapped:
            self._check_sum(vectors, metadata["files"]["vectors"])
        index = _read_index(vectors, metadata["kind"], mapped)
        table = read_table(items, ITEM_COLUMNS)
        counts = {metadata["count"], index.ntotal, len(table)}
        if len(counts) > 1 or index.d != metadata["dim"]:
            raise ValueError(f"The files of {self.path} do not belong together: counts {counts}.")
        return index, table, mapped

    @contextlib.contextmanager
    def changing(self, metadata=None):
        """Keep other processes from changing the index until the block ends.

        Args:
            metadata: dict of `metadata()` when the index was read; `None` for a new index.

        Returns:
            context manager.

        Raises:
            BlockingIOError: if another process is changing the index.
            ValueError: if one has changed it since it was read.
        """
        with locked(self.path):
            if self._named() != (metadata and metadata["files"]):
                raise ValueError(
                    f"Another process has changed the index {self.path}; open it again, then "
                    "repeat the change."
                )
            yield

    def write(self, metadata, index, items):
        """Write a new generation of the index, and remove the files of the last one.

        Only within `changing`.

        Args:
            metadata: dict for `index.json`; what it says of the files is replaced.
            index: `faiss.Index`.
            items: `pyarrow.Table`.

        Returns:
            dict, what `index.json` holds now.
        """
        stamp = secrets.token_hex(4)
        vectors_path = self.path / f"vectors-{stamp}.faiss"
        items_path = self.path / f"items-{stamp}.parquet"
        with hashing(vectors_path) as vectors:
            faiss.write_index(index, faiss.PyCallbackIOWriter(vectors.write))
        with hashing(items_path) as rows:
            pq.write_table(items, rows)
        metadata = {
            **metadata,
            "files": {
                "vectors": _described(vectors_path, vectors),
                "items": _described(items_path, rows),
            },
        }
        write_metadata(self.metadata_path, FORMAT, metadata)
        self._remove_others({vectors_path, items_path, self.metadata_path})
        return metadata

    def _named(self):
        """The files that `index.json` names; those of every change have new names."""
        return self.metadata()["files"] if self.metadata_path.exists() else None

    def _others(self):
        """What the folder holds that is not hidden: the lock is, and what is just written."""
        return (file for file in self.path.iterdir() if not file.name.startswith("."))

    def _remove_others(self, kept):
        for file in self._others():
            if _is_ours(file) and file not in kept:
                file.unlink(missing_ok=True)

    def _checked_size(self, entry):
        path = self.path / entry["name"]
        if not path.is_file():
            raise FileNotFoundError(f"{self.path} is damaged: it lacks {path.name}.")
        if path.stat().st_size != entry["bytes"]:
            raise ValueError(
                f"{path} is damaged: it has {path.stat().st_size} bytes, expected {entry['bytes']}."
            )
        return path

    def _check_sum(self, path, entry):
        if file_sha256(path) != entry["sha256"]:
            raise ValueError(f"{path} is damaged: its SHA-256 is not that in index.json.")


def _is_ours(file):
    """Whether a file is one that writing an index leaves."""
    return _OURS.fullmatch(file.name) is not None


def _described(path, written):
    return {"name": path.name, "bytes": written.size, "sha256": written.sha256}


def _mapping(kind):
    """How faiss leaves the vectors of a kind of index on disk."""
    return faiss.IO_FLAG_MMAP_IFC if kind == "exact" else faiss.IO_FLAG_MMAP


def _read_index(path, kind, mapped):
    flags = _mapping(kind) if mapped else 0
    try:
        index = faiss.read_index(str(path), flags | faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE)
    except (RuntimeError, MemoryError) as error:
        raise ValueError(f"{path} is no index of faiss, or damaged: {error}") from error
    if not is_of_kind(index, kind, mapped):
        raise ValueError(f"{path} is no index of kind {kind!r}, but another one of faiss.")
    if kind != "exact" and not index.nprobe:
        raise ValueError(f"{path} is damaged: its nprobe is 0, so that a search looks nowhere.")
    return index
