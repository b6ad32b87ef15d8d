"""Writing files that are never seen half-written."""

import contextlib
import os
import shutil
import threading
from pathlib import Path


@contextlib.contextmanager
def replacing(path):
    """A temporary name beside a file, which is renamed to it when the block ends well.

    Whatever happens - an error, a full disk, a killed process - the file is the old one or the new
    one. An error removes the temporary file. Several threads or processes may write the file at
    once: the last one to end wins.

    Args:
        path: file to write; replaced in one step if it exists.

    Returns:
        context manager that gives a `pathlib.Path` with all suffixes of `path`.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with replacing(Path(folder) / "note.txt") as temporary:
        ...         _ = temporary.write_text("hello")
        ...     [file.name for file in Path(folder).iterdir()]
        ['note.txt']
    """
    path = Path(path)
    temporary = _temporary(path)
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(path):
    """A temporary folder beside a new one, which is renamed to it when the block ends well.

    Whatever happens, the folder is not there or it is whole. An error removes the temporary one.

    Args:
        path: folder to make; the folder that it goes into is made if needed.

    Returns:
        context manager that gives the `pathlib.Path` of an empty folder.

    Raises:
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
    temporary = _temporary(path)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        refuse_existing(path)
        os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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


def _temporary(path):
    return path.with_name(f".{os.getpid()}-{threading.get_ident()}.{path.name}")


def _flush(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())


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
