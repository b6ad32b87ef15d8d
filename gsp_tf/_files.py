"""Writing files that are never seen half-written."""

import contextlib
import errno
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import stat
from pathlib import Path

from filelock import FileLock, Timeout

LOCK_NAME = ".lock"
_PARTIAL = ".partial"
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "it would be larger than a file may be here",
}


class DiskFullError(OSError):
    """There is no room for a file: on the disk, in a quota or below a limit of file size.

    Attributes:
        advice: what is kept and how to continue; follows the message.

    Example:
        >>> raise DiskFullError("model.keras cannot be written: the disk is full.")
        Traceback (most recent call last):
            ...
        gsp_tf._files.DiskFullError: model.keras cannot be written: the disk is full.
    """

    advice = ""

    def __str__(self):
        return f"{super().__str__()} {self.advice}".rstrip()


@contextlib.contextmanager
def advising(advice):
    """Say what is kept and how to continue if there is no room for a file in the block.

    Errors of other libraries that are about a full disk become `DiskFullError` too.

    Args:
        advice: function that gives a str when it is needed.

    Returns:
        context manager.

    Example:
        >>> with advising(lambda: "Free some space and start again."):
        ...     raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "model.keras")
        Traceback (most recent call last):
            ...
        gsp_tf._files.DiskFullError: model.keras cannot be written: the disk is full. Free some ...
    """
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


def full_disk(error):
    """What an error of any library says of a full disk.

    Args:
        error: exception.

    Returns:
        `DiskFullError`; `None` if the error is about something else.

    Example:
        >>> print(full_disk(RuntimeError("{{node SaveV2}} logs/a; No space left on device")))
        The disk is full: logs/a; No space left on device.
        >>> full_disk(ValueError("epochs must be 1 or more"))
    """
    if isinstance(error, DiskFullError):
        return error
    reason = _reason(error)
    if reason is None:
        return None
    if getattr(error, "filename", None):
        return DiskFullError(f"{os.fsdecode(error.filename)} cannot be written: {reason}.")
    line = next(line for line in str(error).splitlines() if line.strip())
    line = re.sub(r"\{\{.*?\}\} ?| ?\[Op:.*?\]", "", line).strip(" .")
    return DiskFullError(f"{reason[0].upper()}{reason[1:]}: {line}.")


def _reason(error):
    """What an error says of a full disk, `None` if it says nothing; most libraries quote it."""
    text = str(error).lower()
    for code, reason in _FULL.items():
        if getattr(error, "errno", None) == code or os.strerror(code).lower() in text:
            return reason
    return None


@contextlib.contextmanager
def replacing(path):
    """A place for a file, from which it is moved to its path when the block ends well.

    Whatever happens - an error, a full disk, a killed process - the file is the old one or the new
    one, on the disk. Several threads or processes may write the file at once: the last one to end
    wins. The place is in the hidden folder `.NAME.partial` beside the file. An error removes that
    folder. A killed process leaves it to the next one that writes the file, or locks its folder.

    Args:
        path: file to write; replaced in one step if it exists.

    Returns:
        context manager that gives a `pathlib.Path` of the same name.

    Raises:
        DiskFullError: if there is no room for it.
        IsADirectoryError: if it is a folder.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with replacing(Path(folder) / "note.txt") as temporary:
        ...         _ = temporary.write_text("hello")
        ...     [file.name for file in Path(folder).iterdir()]
        ['note.txt']
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected a file to write.")
    with _partial(path) as temporary:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)


class HashingWriter(io.BufferedWriter):
    """A binary file that is written from its start to its end, with a checksum.

    Args:
        path: file to write.

    Attributes:
        size: number of bytes that were given to it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, HashingWriter(f"{folder}/a.txt") as file:
        ...     _ = file.write(b"hello")
        ...     file.size, file.sha256[:8]
        (5, '2cf24dba')
    """

    def __init__(self, path):
        super().__init__(io.FileIO(path, "w"))
        self.size = 0
        self._digest = hashlib.sha256()

    @property
    def sha256(self):
        """SHA-256 of what was given to it, in 64 hexadecimal digits."""
        return self._digest.hexdigest()

    def seekable(self):
        """Whether a part can be written again: no."""
        return False

    def write(self, data):
        """Write bytes; gives their number."""
        self._digest.update(data)
        self.size += memoryview(data).nbytes
        return super().write(data)


@contextlib.contextmanager
def hashing(path):
    """A file to write that takes the place of another one when the block ends well.

    As `replacing`, for what is written through a file object: its size and checksum are those of
    the bytes that were meant, and the file has them all.

    Args:
        path: file to write; replaced in one step if it exists.

    Returns:
        context manager that gives a `HashingWriter`.

    Raises:
        DiskFullError: if there is no room for it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with hashing(Path(folder) / "note.txt") as file:
        ...         _ = file.write(b"hello")
        ...     file.size, (Path(folder) / "note.txt").read_bytes()
        (5, b'hello')
    """
    with replacing(path) as temporary, HashingWriter(temporary) as file:
        yield file


@contextlib.contextmanager
def new_folder(path):
    """A place for a new folder, which is moved to its path when the block ends well.

    Whatever happens, the folder is not there or it is whole. The place is as that of `replacing`.

    Args:
        path: folder to make; the folder that it goes into is made if needed.

    Returns:
        context manager that gives the `pathlib.Path` of an empty folder.

    Raises:
        DiskFullError: if there is no room for it.
        FileExistsError: if something of that name exists, before or after the block.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with new_folder(Path(folder) / "notes") as temporary:
        ...         _ = (temporary / "note.txt").write_text("hello")
        ...     [file.name for file in (Path(folder) / "notes").iterdir()]
        ['note.txt']
    """
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


def remove_partial(folder):
    """Remove what processes that were killed were writing into a folder.

    What a living process writes is left: it has locked the place it writes to.

    Args:
        folder: `pathlib.Path` of the folder.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     (Path(folder) / ".note.txt.partial").mkdir()
        ...     remove_partial(Path(folder))
        ...     list(Path(folder).iterdir())
        []
    """
    for place in folder.glob(f".*{_PARTIAL}"):
        with contextlib.suppress(OSError):  # somebody else's
            lock = _claimed(place)
            if lock is not None:
                _remove(place, lock)


@contextlib.contextmanager
def _partial(path):
    """A path in a hidden folder beside a file, which this process has locked and then removes."""
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
        reason = _reason(error)
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


def _claimed(place):
    """The lock of a hidden folder, made if needed and emptied; `None` if another writer has it."""
    while True:
        with contextlib.suppress(FileExistsError):  # `exist_ok` is wrong about one just removed
            place.mkdir()
        lock = FileLock(place / LOCK_NAME)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        except (FileExistsError, FileNotFoundError):  # another writer was just removing it
            if _is_no_folder(place):
                raise
            continue
        _empty(place)
        return lock


def _is_no_folder(place):
    """Whether something other than a folder has a name."""
    try:
        return not stat.S_ISDIR(place.lstat().st_mode)
    except FileNotFoundError:
        return False


def _empty(place):
    for written in place.iterdir():
        if written.is_dir() and not written.is_symlink():
            shutil.rmtree(written, ignore_errors=True)
        elif written.name != LOCK_NAME:
            written.unlink(missing_ok=True)


def _remove(place, lock):
    """Remove a hidden folder, the lock last, so that nobody takes what is not removed yet."""
    with contextlib.suppress(OSError):  # another writer has made it again, or it cannot be removed
        _empty(place)
        (place / LOCK_NAME).unlink(missing_ok=True)
        place.rmdir()
    lock.release()


def _sync(path):
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path):
    """Read a file that holds a JSON object.

    Args:
        path: `pathlib.Path` of the file.

    Returns:
        dict.

    Raises:
        ValueError: naming the file, if it holds anything else.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.json"
        ...     replace_text(path, '{"count": 3}')
        ...     read_json(path)
        {'count': 3}
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    except RecursionError:
        raise ValueError(f"{path} is damaged: it is nested too deeply.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} is damaged: it holds a {type(value).__name__}, not an object.")
    return value


def refuse_existing(path):
    """Refuse a name that is taken.

    Args:
        path: file or folder.

    Raises:
        FileExistsError: if it exists, be it a link to nowhere.

    Example:
        >>> refuse_existing("no/such/file")
    """
    if os.path.lexists(path):
        raise FileExistsError(f"{path} exists. Choose another name, or remove it.")


def replace_text(path, text):
    """Write a text file under a temporary name beside it, then rename it.

    Args:
        path: file to write; replaced in one step if it exists.
        text: its new content, written as UTF-8.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     replace_text(Path(folder) / "note.txt", "hello")
        ...     (Path(folder) / "note.txt").read_text()
        'hello'
    """
    with replacing(path) as temporary:
        # A file name that is not Unicode reaches a text as lone surrogates.
        temporary.write_text(text, encoding="utf-8", errors="replace")
