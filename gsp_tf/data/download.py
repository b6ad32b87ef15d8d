"""Official files from the net: whole or not there."""

import hashlib
import os
import tarfile
import tempfile
import zipfile
import zlib
from gzip import BadGzipFile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import keras

_BROKEN = (BadGzipFile, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
_BLOCK = 2**20


class Remote(NamedTuple):
    """A file to download.

    Args:
        url: Its official address.
        name: Its official name.
        md5: Its published checksum; `None` if there is none.
        folder: The folder that it unpacks to, if it is an archive to unpack.

    Example:
        >>> Remote("https://example.org/birds.tgz", "birds.tgz", folder="birds").target
        'birds'
    """

    url: str
    name: str
    md5: str | None = None
    folder: str | None = None

    @property
    def target(self) -> str:
        """What has to lie in the folder of the data set in the end."""
        return self.folder or self.name


def download_file(remote: Remote, folder: str | os.PathLike) -> Path:
    """Downloads a file, and unpacks it if it is an archive to unpack.

    What is there already is kept: an unpacked folder, or a file of the right checksum. The work is
    done in a hidden folder beside the target, which is renamed at the end. So a process that is
    stopped leaves nothing half done under the official name, and of two processes at a time the
    slower one throws its work away.

    Args:
        remote: The file.
        folder: Where to put it; made if it does not exist.

    Returns:
        The file, or the folder it unpacked to.

    Raises:
        OSError: If it cannot be downloaded.
        ValueError: If a file of that name has another checksum, or the archive is broken, does not
            hold the folder or would write outside of it.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "notes.txt").write_text("kept")
        ...     remote = Remote("https://example.org/notes.txt", "notes.txt")
        ...     download_file(remote, folder).read_text()
        'kept'
    """
    folder = Path(folder)
    target = folder / remote.target
    if remote.folder and target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    file = _fetch(remote, folder)
    if remote.folder:
        _unpack(file, target)
    return target


def _fetch(remote: Remote, folder: Path) -> Path:
    file = folder / remote.name
    if file.exists():
        _check_md5(file, remote)
        return file
    with tempfile.TemporaryDirectory(prefix=f".{remote.name}-", dir=folder) as temporary:
        try:
            keras.utils.get_file(
                remote.name, remote.url, cache_dir=temporary, cache_subdir="", file_hash=remote.md5
            )
        # get_file raises Exception itself.
        except Exception as error:
            raise OSError(
                f"{remote.url} could not be downloaded ({error}). Try again, or put the file at "
                f"{file} by hand."
            ) from error
        os.replace(Path(temporary, remote.name), file)
    return file


def _check_md5(file: Path, remote: Remote) -> None:
    if remote.md5 is None:
        return
    digest = hashlib.md5(usedforsecurity=False)
    with open(file, "rb") as content:
        while block := content.read(_BLOCK):
            digest.update(block)
    if digest.hexdigest() != remote.md5:
        raise ValueError(
            f"{file} is not the official file: its MD5 is {digest.hexdigest()}, "
            f"expected {remote.md5}. Remove it to have it downloaded from {remote.url}."
        )


def _unpack(archive: Path, target: Path) -> None:
    """Unpacks one folder of an archive, `target`, beside the archive."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as temporary:
        try:
            _extract(archive, temporary)
        except _BROKEN as error:
            raise ValueError(
                f"{archive} is broken or unsafe ({error}). Remove it and download it again."
            ) from error
        unpacked = Path(temporary, target.name)
        if not unpacked.is_dir():
            raise ValueError(f"{archive} holds no folder {target.name}; is it another file?")
        try:
            os.rename(unpacked, target)
        except OSError:
            # Another process was faster.
            if not target.is_dir():
                raise


def _extract(archive: Path, folder: str) -> None:
    if archive.suffix != ".zip":
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        return
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            path = PurePosixPath(name.replace("\\", "/"))
            if path.is_absolute() or ".." in path.parts:
                raise zipfile.BadZipFile(f"{name!r} would be written outside of the folder")
        file.extractall(folder)
