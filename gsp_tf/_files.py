"""Atomic writes of files, and folders that only one process writes at a time."""

import contextlib
import csv
import errno
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from gsp_tf._typing import PathLike

UNSEALED = "sha256 of all but these digits: " + 64 * "0"
"""Text that a file holds once, and that `sealed` gives its digits.

It is in the first line, as a comment, or after all other texts.
"""
SEAL = "seal"
"""Name of the entry of a JSON file, or column of a CSV file, that has this text."""

_DIGITS = b"0" * 64
_SEAL = UNSEALED.encode().removesuffix(_DIGITS)
_FIRST = b"# " + _SEAL
_UNFOLDED_AT_LEAST, _UNFOLDED_PER_BYTE = 2**26, 256
_LOCK_NAME = ".lock"
_PARTIAL = ".partial"
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "it would be larger than a file may be here",
}


class DiskFullError(OSError):
    """A disk, a quota or a file size limit is exhausted; `advice` ends the message."""

    advice = ""

    def __str__(self):
        return f"{super().__str__()} {self.advice}".rstrip()


def several(images: Any) -> Any:
    """The images as given; one path or content alone becomes a list of it."""
    return [images] if isinstance(images, str | bytes | os.PathLike) else images


@contextlib.contextmanager
def advising(advice: Callable[[], str]) -> Iterator[None]:
    """Adds `advice()` to errors about a full disk, including those of other libraries."""
    try:
        yield
    except DiskFullError as error:
        error.advice = advice()
        raise
    except Exception as error:
        found = full_disk(error)
        if found is None:
            raise
        found.advice = advice()
        raise found from error


def full_disk(error: BaseException) -> DiskFullError | None:
    """Turns any library's error about a full disk into a `DiskFullError`; `None` for others."""
    if isinstance(error, DiskFullError):
        return error
    reason = _full_reason(error)
    if reason is None:
        return None
    if getattr(error, "filename", None):
        return DiskFullError(f"{os.fsdecode(error.filename)} cannot be written: {reason}.")
    line = next(line for line in str(error).splitlines() if line.strip())
    return DiskFullError(f"{reason[0].upper()}{reason[1:]}: {_without_nodes(line).strip(' .')}.")


def _without_nodes(line):
    """A line of an error of TensorFlow without the names of nodes and operations."""
    return re.sub(r"\{\{.*?\}\} ?| ?\[Op:.*?\]", "", line)


def reason(error: BaseException) -> str:
    """The line of an error that says what happened; in one of TensorFlow, that of its cause."""
    full = full_disk(error)
    message = None if full else getattr(error, "message", None)
    if message is None:
        return str(full or error)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    causes = [line for line in lines if "Error: " in line]
    return _without_nodes((causes or lines)[0])


def _full_reason(error: BaseException) -> str | None:
    """The reason if an error reports a full disk; most libraries quote the system's text."""
    text = str(error).lower()
    for code, reason in _FULL.items():
        if getattr(error, "errno", None) == code or os.strerror(code).lower() in text:
            return reason
    return None


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[Path]:
    """Yields a temporary path that replaces `path` if the block succeeds."""
    # The temporary path is in the hidden folder `.NAME.partial` next to the file. An error removes
    # that folder and keeps the old file. After a killed process, the next one that writes the file
    # or locks its folder removes it. Several threads or processes may write the file at once: the
    # last one to finish wins.
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected a file to write.")
    with _partial(path) as temporary:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)


class HashingWriter(io.BufferedWriter):
    """A binary file, written from start to end, that counts and hashes its bytes."""

    def __init__(self, path):
        super().__init__(io.FileIO(path, "w"))
        self.size = 0
        self._digest = hashlib.sha256()

    @property
    def sha256(self):
        """SHA-256 of the bytes so far, in 64 hexadecimal digits."""
        return self._digest.hexdigest()

    def seekable(self):
        """Always false: no part can be rewritten."""
        return False

    def write(self, data):
        """Writes bytes and returns their number."""
        self._digest.update(data)
        self.size += memoryview(data).nbytes
        return super().write(data)


@contextlib.contextmanager
def hashing(path: PathLike) -> Iterator[HashingWriter]:
    """Like `replacing`, but yields a `HashingWriter`, which knows the size and checksum."""
    with replacing(path) as temporary, HashingWriter(temporary) as file:
        yield file


@contextlib.contextmanager
def new_folder(path: PathLike) -> Iterator[Path]:
    """Like `replacing`, but yields a folder and refuses a `path` that exists."""
    path = Path(path)
    refuse_existing(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_partial(path.parent)
    with _partial(path) as temporary:
        temporary.mkdir()
        yield temporary
        for written in (temporary, *temporary.rglob("*")):
            _sync(written)
        refuse_existing(path)
        os.rename(temporary, path)
        _sync(path.parent)


def remove_partial(folder: Path) -> None:
    """Removes the partial files of killed processes from a folder; running ones keep theirs."""
    for place in folder.glob(f".*{_PARTIAL}"):
        with contextlib.suppress(OSError):  # another user's
            lock = _claimed(place)
            if lock is not None:
                _remove(place, lock)


@contextlib.contextmanager
def locked(folder: PathLike) -> Iterator[None]:
    """Keeps other processes and threads from writing a folder until the block ends."""
    # The operating system holds the lock on the file `.lock` and releases it however the process
    # ends. The file stays. A thread that holds the lock may take it again. Reading needs no lock.
    folder = Path(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.resolve() / _LOCK_NAME, is_singleton=True)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise BlockingIOError(
            f"Another process is writing {folder}. Wait until it has ended, or choose another "
            "folder."
        ) from error
    try:
        remove_partial(folder)
        yield
    except BaseException:
        if made and folder.is_dir() and [path.name for path in folder.iterdir()] == [_LOCK_NAME]:
            (folder / _LOCK_NAME).unlink()
            with contextlib.suppress(OSError):  # another process has written into it
                for path in made:
                    path.rmdir()
        raise
    finally:
        lock.release()


@contextlib.contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """Yields a path in a hidden folder next to a file; the folder is locked and finally removed."""
    for number in itertools.count():
        place = path.with_name(f".{path.name}{f'.{number}' if number else ''}{_PARTIAL}")
        try:
            lock = _claimed(place)
        except OSError as error:
            error.filename = str(path)
            raise (full_disk(error) or error) from None
        if lock is not None:
            break
    try:
        yield place / path.name
    except Exception as error:
        reason = _full_reason(error)
        if reason is None or isinstance(error, DiskFullError):
            raise
        written = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        free = shutil.disk_usage(path.parent).free
        needed = f"It needs more than the {written:,} bytes that were written; " if written else ""
        kept = " What was there before is kept." if path.exists() else ""
        raise DiskFullError(
            f"{path} cannot be written: {reason}. {needed}{free:,} bytes are free.{kept}"
        ) from error
    finally:
        _remove(place, lock)


def _claimed(place: Path) -> FileLock | None:
    """Makes or empties a hidden folder and locks it; `None` if another writer holds the lock."""
    while True:
        with contextlib.suppress(FileExistsError):  # `exist_ok` fails if it was just removed
            place.mkdir()
        lock = FileLock(place / _LOCK_NAME)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        except (FileExistsError, FileNotFoundError):  # another writer is just removing it
            if _is_no_folder(place):
                raise
            continue
        _empty(place)
        return lock


def _is_no_folder(place):
    """Whether a path exists and is not a folder."""
    try:
        return not stat.S_ISDIR(place.lstat().st_mode)
    except FileNotFoundError:
        return False


def _empty(place):
    for written in place.iterdir():
        if written.is_dir() and not written.is_symlink():
            shutil.rmtree(written, ignore_errors=True)
        elif written.name != _LOCK_NAME:
            written.unlink(missing_ok=True)


def _remove(place, lock):
    """Removes a hidden folder, with its lock last so that no other writer claims it earlier."""
    with contextlib.suppress(OSError):  # another writer has made it again, or it cannot be removed
        _empty(place)
        (place / _LOCK_NAME).unlink(missing_ok=True)
        place.rmdir()
    lock.release()


def _sync(path):
    """Waits until a file, or the entries of a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_sha256(path: PathLike) -> str:
    """SHA-256 of a file, as `sha256sum` prints it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_folder() -> Path:
    """The folder for files that can be recomputed: `GSP_TF_CACHE`, else `~/.cache/gsp_tf`."""
    return Path(os.environ.get("GSP_TF_CACHE") or "~/.cache/gsp_tf").expanduser()


def sealed(content: bytes) -> bytes:
    """The content of a file that holds `UNSEALED`, with the SHA-256 of its other bytes there."""
    start = _digits_at(content)
    seal = hashlib.sha256(content).hexdigest().encode()
    return content[:start] + seal + content[start + len(seal) :]


def sealed_json(entries: dict[str, Any]) -> bytes:
    """The content of a JSON file with some entries, also numbers of NumPy, and its checksum."""
    text = json.dumps(entries | {SEAL: UNSEALED}, indent=2, default=np.generic.item)
    return sealed(f"{text}\n".encode())


def check_seal(path: PathLike, content: bytes, again: str) -> None:
    """Raises `ValueError` unless a file has the bytes that `sealed` gave; `again` ends the text."""
    start = _digits_at(content)
    if start < 0:
        raise ValueError(f"{path} is damaged: it has no checksum of its own. {again}")
    digest = hashlib.sha256(memoryview(content)[:start])
    digest.update(_DIGITS)
    digest.update(memoryview(content)[start + len(_DIGITS) :])
    if content[start : start + len(_DIGITS)] != digest.hexdigest().encode():
        raise ValueError(
            f"{path} is damaged, or was edited: its bytes are not those that were written. {again}"
        )


def sealed_text(text: str) -> bytes:
    """The content of a YAML file that people edit, with its checksum as a comment above it."""
    return sealed(f"# {UNSEALED}\n{text}".encode("utf-8", errors="replace"))


def read_sealed_text(path: Path) -> str:
    """Reads what `sealed_text` gave, or the same without its first line, after an edit."""
    content = path.read_bytes()
    if content.startswith(_FIRST):
        check_seal(path, content, "If you edited it, remove its first line.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _digits_at(content):
    """Where the digits of a checksum are in a file, or -1."""
    if content.startswith(_FIRST):
        return len(_FIRST)
    start = content.rfind(_SEAL)
    return start if start < 0 else start + len(_SEAL)


def check_zip(path: PathLike, what: str) -> None:
    """Raises `ValueError` unless every file in a zip archive has its checksum.

    Readers that take only parts of a file in an archive, such as those of arrays and of HDF5, do
    not compare it. The error names `what` the archive holds.
    """
    with _naming(path, what), zipfile.ZipFile(path) as archive:
        unfolded = sum(entry.file_size for entry in archive.infolist())
        wrong = archive.testzip() if unfolded <= most_unfolded(path) else None
    check_unfolded(path, unfolded)
    if wrong is not None:
        raise ValueError(f"{path} is damaged: {wrong} in it does not have its checksum.")


def check_unfolded(path: PathLike, size: int) -> None:
    """Raises `ValueError` if the bytes in memory of a file are out of proportion to the file."""
    if size > most_unfolded(path):
        raise ValueError(
            f"{path} is refused: its {os.path.getsize(path):,} bytes unfold to {size:,} bytes or "
            f"more in memory; up to {most_unfolded(path):,} are accepted."
        )


def most_unfolded(path: PathLike) -> int:
    """The most bytes in memory that a file may take."""
    return _UNFOLDED_AT_LEAST + _UNFOLDED_PER_BYTE * os.path.getsize(path)


@contextlib.contextmanager
def reading_arrays(path: PathLike, what: str) -> Iterator[np.lib.npyio.NpzFile]:
    """Opens a `.npz` file, without pickle, as `check_zip` does; errors of the block name it."""
    check_zip(path, what)
    with _naming(path, what), np.load(path) as arrays:
        yield arrays


@contextlib.contextmanager
def _naming(path, what):
    """Names a damaged file in the errors of the block."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # a broken archive or array may raise anything
        raise ValueError(f"{path} is damaged, or is not {what}: {error}") from error


def read_sealed_json(path: Path, again: str) -> dict[str, Any]:
    """Reads the entries of `sealed_json`; the arguments are those of `check_seal`."""
    content = path.read_bytes()
    check_seal(path, content, again)
    entries = json_object(path, content)
    entries.pop(SEAL, None)
    return entries


def json_object(path: PathLike, content: bytes) -> dict[str, Any]:
    """The JSON object in the bytes of a file, which the error names."""
    try:
        value = json.loads(content.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    except RecursionError:
        raise ValueError(f"{path} is damaged: it is nested too deeply.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} is damaged: it holds a {type(value).__name__}, not an object.")
    return value


def refuse_existing(path: PathLike) -> None:
    """Raises `FileExistsError` if a path exists, even as a broken link."""
    if os.path.lexists(path):
        raise FileExistsError(f"{path} exists. Choose another name, or remove it.")


# What a spreadsheet takes for the beginning of a formula, by the rule of OWASP on CSV injection.
FORMULA = "[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"


def csv_cell(value: Any) -> Any:
    """A value for a CSV file; a text that looks like a formula gets an apostrophe in front."""
    is_formula = isinstance(value, str) and re.match(f"'*{FORMULA}", value)
    return f"'{value}" if is_formula else value


def csv_text(cell: str) -> str:
    """The text that `csv_cell` wrote as this cell."""
    return cell[1:] if re.match(f"'+{FORMULA}", cell) else cell


def csv_table(rows: Iterable[Iterable[Any]]) -> str:
    """The content of a CSV file with these rows, each value a `csv_cell`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(csv_cell, row) for row in rows)
    return text.getvalue()


def replace_text(path: PathLike, text: str) -> None:
    """Writes a text file as UTF-8, with `replacing`."""
    # File names that are not Unicode appear in texts as lone surrogates.
    replace_bytes(path, text.encode("utf-8", errors="replace"))


def replace_bytes(path: PathLike, content: bytes) -> None:
    """Writes a file, with `replacing`."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)
