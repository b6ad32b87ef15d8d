"""Progress of long work, for people who watch."""

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.progress import track


def show_progress(items: Iterable, description: str, total: int) -> Iterable:
    """Goes through items and shows how far, if standard error is a terminal.

    Args:
        items: What to go through.
        description: What is being done.
        total: How many items there are.

    Returns:
        The same items.

    Example:
        >>> list(show_progress("ab", "Reading", total=2))
        ['a', 'b']
    """
    return track(
        items,
        description=description,
        total=total,
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
