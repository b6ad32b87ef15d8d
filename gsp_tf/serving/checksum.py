"""The checksum of a file."""

import hashlib

_BLOCK = 1 << 20


def file_sha256(path):
    """SHA-256 of the bytes of a file, as `sha256sum` prints it.

    Args:
        path: the file.

    Returns:
        str of 64 hexadecimal digits.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.txt").write_bytes(b"hello")
        ...     file_sha256(f"{folder}/a.txt")[:8]
        '2cf24dba'
    """
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
