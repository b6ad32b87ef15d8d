"""Writing files that are never seen half-written."""

import contextlib
import os
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
    temporary = path.with_name(f".{os.getpid()}-{threading.get_ident()}.{path.name}")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


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
