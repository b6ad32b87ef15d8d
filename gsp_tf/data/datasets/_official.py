"""Sources, lists and content checks that the loaders of published data sets share."""

import hashlib
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from gzip import BadGzipFile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import keras

from gsp_tf._console import bulleted, counted
from gsp_tf._files import replacing
from gsp_tf._typing import PathLike
from gsp_tf.data.images._left_out import LeftOut
from gsp_tf.data.images.encoded_images import FileImages, labelled_files
from gsp_tf.data.images.image_set import ImageSet

_BROKEN = (BadGzipFile, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


class Remote(NamedTuple):
    """A file to download; `md5` is its published checksum, `folder` the result of unpacking."""

    url: str
    md5: str
    folder: str | None = None

    @property
    def name(self) -> str:
        """The name of the file, which ends its address."""
        return self.url.rsplit("/", 1)[-1]

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


Counts = Mapping[str, tuple[int, int]]


class Source(NamedTuple):
    """Where a data set comes from, and how many classes and images each of its sets has."""

    name: str
    page: str  # official web page
    content: str  # what the user's folder must hold
    counts: Counts
    remotes: tuple[Remote, ...] = ()  # files that can be downloaded

    @classmethod
    def of_archive(cls, name: str, page: str, url: str, md5: str, folder: str, counts: Counts):
        """A data set whose folder is in one archive."""
        remote = Remote(url, md5, folder)
        content = f"the folder {folder} that {remote.name} unpacks to"
        return cls(name, page, content, counts, (remote,))

    def where(self, folder: PathLike) -> str:
        """Says which files the folder needs, and how to get them."""
        way = (
            f"get it from {self.page} or have it downloaded (download=True, --data.download true)"
            if self.remotes
            else f"it has to be fetched by hand from {self.page}"
        )
        return f"{self.name} needs {self.content} in {folder}; {way}."

    def obtain(self, folder: PathLike, may_download: bool = False) -> Path:
        """Requires the downloadable files, and downloads missing ones if allowed."""
        folder = Path(folder)
        for remote in self.remotes:
            if may_download and not (folder / remote.target).exists():
                download_file(remote, folder)
            self.require(folder, folder / remote.target)
        return folder

    def require(self, folder: PathLike, path: PathLike) -> None:
        """Raises `FileNotFoundError` with the text of `where` if a path does not exist."""
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path} does not exist. {self.where(folder)}")

    def advice(self, folder: PathLike) -> str:
        """Says what to do about content that differs from the published one."""
        return f"Unpack it again, or remove it and download it again. {self.where(folder)}"

    def broken(self, problem: str, folder: PathLike) -> ValueError:
        """The error about a file that differs from the published one."""
        return ValueError(f"{problem} {self.advice(folder)}")

    def check_counts(
        self, folder: PathLike, sets: Mapping[str, ImageSet], counts: Counts | None
    ) -> None:
        """Compares the numbers of classes and images with `counts` or the published ones."""
        found = {split: (len(images.class_names), len(images)) for split, images in sets.items()}
        wrong = [
            f"{split}: {_counted(found.get(split, (0, 0)))}, expected {_counted(expected)}"
            for split, expected in (self.counts if counts is None else counts).items()
            if found.get(split) != tuple(expected)
        ]
        if wrong:
            raise ValueError(
                f"{self.name} in {folder} is not what was published:\n{bulleted(wrong)}\n"
                f"{self.advice(folder)}"
            )

    def checked(
        self,
        folder: PathLike,
        sets: Mapping[str, FileImages],
        counts: Counts | None,
        skip_unreadable: bool,
    ) -> dict[str, FileImages]:
        """Checks counts, disjoint classes and every file; leaves out unreadable files if asked."""
        self.check_counts(folder, sets, counts)
        tested = {name for split in sets.keys() - {"train"} for name in sets[split].class_names}
        shared = tested.intersection(sets["train"].class_names)
        if shared:
            raise ValueError(
                f"the lists of {self.name} in {folder} have training and test images of the same "
                f"classes:\n{bulleted(sorted(shared))}\nDownload them again. {self.where(folder)}"
            )
        paths = [path for images in sets.values() for path in images.paths]
        missing = [path for path in paths if not os.path.isfile(path)]
        if missing:
            raise FileNotFoundError(
                f"{len(missing)} of the {len(paths)} images that {self.name} lists are missing:\n"
                f"{bulleted(missing)}\n{self.where(folder)}"
            )
        left_out = LeftOut()
        unreadable = left_out.add_unreadable(paths, skip_unreadable)
        left_out.report(folder, stacklevel=4)
        if not unreadable:
            return dict(sets)
        return {split: _without(images, unreadable) for split, images in sets.items()}


def _counted(counts: tuple[int, int]) -> str:
    return f"{counted(counts[0], 'class', 'classes')} and {counted(counts[1], 'image')}"


def _without(images: FileImages, unreadable: set[str]) -> FileImages:
    kept = [i for i, path in enumerate(images.paths) if path not in unreadable]
    paths = [images.paths[i] for i in kept]
    labels = images.labels[kept]
    return FileImages(paths, labels, images.class_names, images.groups, images.channels)


def read_table(
    path: PathLike, columns: Mapping[str, Callable[[str], object]], heading: int = 0
) -> list[tuple]:
    """Reads a text file of columns, given by name and type, after `heading` lines."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: {error}.") from error
    if heading and (len(lines) < heading or lines[heading - 1].split() != list(columns)):
        raise ValueError(
            f"{path}, line {heading}: expected {' '.join(columns)!r}; received "
            f"{lines[heading - 1] if len(lines) >= heading else 'the end of the file'!r}."
        )
    rows = []
    for number, line in enumerate(lines[heading:], heading + 1):
        fields = line.split()
        try:
            if fields:
                rows.append(
                    tuple(kind(field) for kind, field in zip(columns.values(), fields, strict=True))
                )
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: expected {' '.join(columns)!r}; received {line!r}."
            ) from error
    return rows


def halved(
    listed: Sequence[tuple[str, int]], names: Mapping[int, str], num_training: int, channels: int
) -> dict[str, FileImages]:
    """A training set of the first classes and a test set of the others."""
    classes = [(key, (name, "")) for key, name in names.items()]
    return {
        "train": labelled_files(listed, dict(classes[:num_training]), channels),
        "test": labelled_files(listed, dict(classes[num_training:]), channels),
    }
