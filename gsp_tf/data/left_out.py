"""What is left out of the images that a user names, told in one summary."""

import os
import warnings
from collections.abc import Mapping, Sequence

from gsp_tf._console import bulleted, counted, listed
from gsp_tf.data.decode import UnreadableImageError
from gsp_tf.data.formats import missing_for

_NAMES = 5


class LeftOut:
    """Collects what is left out, to be told at once.

    Attributes:
        lines: One for each kind of thing: how many there are, the first names, the reason.

    Example:
        >>> left_out = LeftOut()
        >>> left_out.add(["cats/.thumbnails"], "hidden folder")
        >>> left_out.lines
        ['1 hidden folder: cats/.thumbnails']
    """

    def __init__(self):
        self.lines: list[str] = []

    def add(self, names: Sequence[object], one: str, many: str | None = None) -> None:
        """Adds things of one kind; none are no line."""
        if names:
            self.lines.append(f"{counted(len(names), one, many)}: {listed(names, _NAMES)}")

    def add_other_files(self, names: Sequence[str]) -> None:
        """Adds files that are not read, counted by their extension."""
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

    def add_unreadable(self, errors: Sequence[UnreadableImageError], num_files: int) -> None:
        """Adds files that cannot be read as images, each with what is wrong."""
        if errors:
            self.lines.append(
                f"{len(errors):,} of {counted(num_files, 'file')}, which cannot be read as images:"
                f"\n{bulleted(errors, indent='    ')}"
            )

    def add_small_classes(self, sizes: Mapping[str, int], least: int) -> None:
        """Adds the classes that have fewer than `least` images."""
        self.add(
            [f"{name} ({size})" for name, size in sizes.items() if size < least],
            f"class with fewer than {counted(least, 'image')}",
            f"classes with fewer than {counted(least, 'image')}",
        )

    def text(self, source: str | os.PathLike) -> str:
        """The summary; empty if nothing is left out."""
        return f"left out of {source}:\n{bulleted(self.lines)}" if self.lines else ""

    def warn(self, source: str | os.PathLike, stacklevel: int = 3) -> None:
        """Warns of all of it at once."""
        if self.lines:
            warnings.warn(self.text(source), stacklevel=stacklevel)

    def refusal(self, source: str | os.PathLike, problems: Sequence[str]) -> ValueError:
        """The error about all that makes a source useless, with what is left out beside it."""
        items = [f"- {problem}".replace("\n", "\n  ") for problem in problems]
        text = "\n".join([f"{source} cannot be used:", *items])
        return ValueError(f"{text}\n{self.text(source)}" if self.lines else text)
