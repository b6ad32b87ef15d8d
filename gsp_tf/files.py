"""Writing files that are never seen half-written."""

import os
from pathlib import Path


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
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # A file name that is not Unicode reaches a text as lone surrogates.
        temporary.write_text(text, encoding="utf-8", errors="replace")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
