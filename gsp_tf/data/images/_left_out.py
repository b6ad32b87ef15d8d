"""Unreadable image files, and one summary of everything left out of a source."""

import contextlib
import hashlib
import os
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import PIL

from gsp_tf._console import bulleted, counted, listed, show_progress
from gsp_tf._files import cache_folder, replacing
from gsp_tf._typing import PathLike
from gsp_tf.data.images._formats import FORMATS, missing_for
from gsp_tf.data.images.decode import UnreadableImageError, check_image

_NAMES = 5
_CHECKED = "checked_images.npy"
_MOST_CHECKED = 2**22  # 32 MiB
_GONE = 0  # the state of a file that does not exist


def find_unreadable(paths: Sequence[PathLike]) -> list[UnreadableImageError]:
    """Decodes every file in full and collects the failures, in the order of the files.

    Files that pass are recorded in the cache folder (`GSP_TF_CACHE`, else `~/.cache/gsp_tf`) and
    decoded again only after their size or modification time changes.
    """
    paths = list(dict.fromkeys(map(os.fspath, paths)))
    states = np.array([_state(path) for path in paths], np.uint64)
    checked = _read_checked()
    waiting = np.flatnonzero(~np.isin(states, checked))
    with ThreadPoolExecutor() as pool:
        outcomes = pool.map(_failure, [paths[i] for i in waiting])
        failures = list(show_progress(outcomes, "Checking images", len(waiting)))
    passed = [i for i, failure in zip(waiting, failures, strict=True) if failure is None]
    if passed:
        _write_checked(np.append(checked, states[passed])[-_MOST_CHECKED:])
    return [failure for failure in failures if failure is not None]


def _state(path: PathLike) -> int:
    """A hash of a file's path, size and modification time, and of the software that reads it."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # ValueError of the character NUL
        return _GONE
    state = f"{status.st_size} {status.st_mtime_ns} {PIL.__version__} {FORMATS}\n".encode()
    digest = hashlib.blake2b(state + os.fsencode(os.path.abspath(path)), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def _read_checked() -> np.ndarray:
    with contextlib.suppress(Exception):  # a damaged file may raise anything
        checked = np.load(cache_folder() / _CHECKED)
        if checked.dtype == np.uint64 and checked.ndim == 1:
            return checked[checked != _GONE]
    return np.empty(0, np.uint64)


def _write_checked(checked: np.ndarray) -> None:
    with contextlib.suppress(OSError, RuntimeError):  # full disk, no permission, no home
        cache_folder().mkdir(parents=True, exist_ok=True)
        with replacing(cache_folder() / _CHECKED) as temporary:
            np.save(temporary, checked)


def _failure(path: PathLike) -> UnreadableImageError | None:
    try:
        check_image(path)
    except UnreadableImageError as error:
        return error
    return None


def refusal(errors: Sequence[UnreadableImageError], num_files: int) -> str:
    """The message that refuses and lists unreadable files."""
    return (
        f"{len(errors):,} of {counted(num_files, 'file')} cannot be read as images; repair or "
        f"remove them, or continue without them (skip_unreadable, --skip-unreadable):\n"
        f"{bulleted(errors)}"
    )


class LeftOut:
    """Collects everything left out of a source of images, to report it at once."""

    def __init__(self):
        self.lines: list[str] = []
        self.problems: list[str] = []

    def add(self, names: Sequence[object], one: str, many: str | None = None) -> None:
        """Adds items of one kind, if there are any."""
        if names:
            self.lines.append(f"{counted(len(names), one, many)}: {listed(names, _NAMES)}")

    def add_other_files(self, names: Sequence[str]) -> None:
        """Adds files that are not read, counted by extension."""
        by_extension: dict[str, list[str]] = {}
        for name in names:
            by_extension.setdefault(os.path.splitext(name)[1], []).append(name)
        kinds = sorted(by_extension.items(), key=lambda kind: (-len(kind[1]), kind[0]))
        counts = [
            f"{len(files):,} {extension or 'without extension'} ({files[0]})"
            for extension, files in kinds
        ]
        if counts:
            self.lines.append(f"{counted(len(names), 'file')} of other kinds: {listed(counts)}")
            self.lines += sorted({missing_for(extension) for extension in by_extension} - {None})

    def add_unreadable(self, files: Sequence[str], skip_unreadable: bool) -> set[str]:
        """Adds and returns the unreadable files; they are a problem unless they are skipped."""
        errors = find_unreadable(files)
        if errors and skip_unreadable:
            self.lines.append(
                f"{len(errors):,} of {counted(len(files), 'file')}, which cannot be read as images:"
                f"\n{bulleted(errors, indent='    ')}"
            )
        elif errors:
            self.problems.append(refusal(errors, len(files)))
        return {error.path for error in errors}

    def add_wrong_lines(self, problems: Sequence[str]) -> None:
        """Adds the problems of lines of a CSV file as one problem, if there are any."""
        if problems:
            self.problems.append(f"{counted(len(problems), 'line')} of it:\n{bulleted(problems)}")

    def add_small_classes(self, sizes: Mapping[str, int], least: int) -> set[str]:
        """Adds and returns the classes with fewer than `least` images."""
        small = {name: size for name, size in sizes.items() if size < least}
        self.add(
            [f"{name} ({size})" for name, size in small.items()],
            f"class with fewer than {counted(least, 'image')}",
            f"classes with fewer than {counted(least, 'image')}",
        )
        return set(small)

    def report(self, source: PathLike, stacklevel: int = 3) -> None:
        """Raises one error that lists all problems, or warns once about everything left out."""
        left_out = f"left out of {source}:\n{bulleted(self.lines)}" if self.lines else ""
        if self.problems:
            items = [f"- {problem}".replace("\n", "\n  ") for problem in self.problems]
            text = "\n".join([f"{source} cannot be used:", *items, left_out]).rstrip()
            raise ValueError(text)
        if left_out:
            warnings.warn(left_out, stacklevel=stacklevel)
