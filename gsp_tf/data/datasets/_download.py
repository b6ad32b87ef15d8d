"""Downloads official files, each completely or not at all."""

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

from gsp_tf._files import replacing
from gsp_tf._typing import PathLike

_BROKEN = (BadGzipFile, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


class Remote(NamedTuple):
    """A file to download; `md5` is its published checksum, `folder` the result of unpacking."""

    url: str
    name: str
    md5: str | None = None
    folder: str | None = None

    @property
    def target(self) -> str:
        """The file or folder that the data set needs in the end."""
        return self.folder or self.name


def download_file(remote: Remote, folder: PathLike) -> Path:
    """Downloads a file into a folder, and unpacks it if `remote.folder` is set."""
    # An unpacked folder, or a file with the right checksum, is kept if it exists. New content is
    # made in a hidden folder and renamed at the end: a stopped process leaves nothing incomplete
    # under the official name, and the slower of two processes discards its work.
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
    with replacing(file) as temporary:
        try:
            keras.utils.get_file(
                remote.name,
                remote.url,
                cache_dir=temporary.parent,
                cache_subdir="",
                file_hash=remote.md5,
            )
        # get_file raises plain Exception.
        except Exception as error:
            raise OSError(
                f"{remote.url} could not be downloaded ({error}). Try again, or put the file at "
                f"{file} by hand."
            ) from error
    return file


def _check_md5(file: Path, remote: Remote) -> None:
    if remote.md5 is None:
        return
    with open(file, "rb") as content:
        md5 = hashlib.file_digest(content, "md5").hexdigest()
    if md5 != remote.md5:
        raise ValueError(
            f"{file} is not the official file: its MD5 is {md5}, "
            f"expected {remote.md5}. Remove it to have it downloaded from {remote.url}."
        )


def _unpack(archive: Path, target: Path) -> None:
    """Unpacks the folder `target` of an archive."""
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
