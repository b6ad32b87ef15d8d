"""Text for the terminal: counts and lists in messages, and progress bars."""

import shlex
import sys
from collections.abc import Iterable, Sequence

_LIMIT = 20


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: "1 image", "8,144 images", "0 classes"."""
    many = many or one + ("es" if one.endswith("s") else "s")
    return f"{number:,} {one if number == 1 else many}"


def printable(text: object) -> str:
    """The text, with characters replaced that a terminal takes for a command or cannot show."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def as_cell(text: object) -> str:
    """The text for a table of rich, which takes words in brackets for styles."""
    from rich.markup import escape  # here: most commands print no table

    return escape(printable(text))


def bulleted(items: Sequence[object], indent: str = "  ") -> str:
    """The first 20 items, one per line, and the number of further items."""
    return "\n".join(f"{indent}{item}" for item in _shortened(items, _LIMIT))


def listed(items: Sequence[object], limit: int = _LIMIT) -> str:
    """The first items on one line, and the number of further items."""
    return ", ".join(_shortened(items, limit))


def _shortened(items: Sequence[object], limit: int) -> list[str]:
    shown = [str(item) for item in items[:limit]]
    more = len(items) - len(shown)
    return [*shown, f"and {more:,} more"] if more else shown


def one_line(error: Exception) -> str:
    """The message of an error on one line of at most 300 characters; its type without one."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def command_line(*words: object) -> str:
    """A command of gsp-tf to copy into a shell, with quotes around words that need them."""
    return shlex.join(["gsp-tf", *map(str, words)])


def to_install(extra: str) -> str:
    """Ends a sentence with how to install an extra of `pyproject.toml`."""
    return f'pip install ".[{extra}]" in a checkout of gsp_tf'


def show_progress(items: Iterable, description: str, total: int) -> Iterable:
    """Yields the items, and shows a progress bar if standard error is a terminal."""
    from rich.console import Console
    from rich.progress import track

    return track(
        items,
        description=description,
        total=total,
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
