"""Counts and lists in messages, cut to a length that can be read."""

from collections.abc import Sequence

_LIMIT = 20


def counted(number: int, one: str, many: str | None = None) -> str:
    """Returns a number with its noun.

    Example:
        >>> counted(1, "image"), counted(8144, "image"), counted(0, "class")
        ('1 image', '8,144 images', '0 classes')
    """
    many = many or one + ("es" if one.endswith("s") else "s")
    return f"{number:,} {one if number == 1 else many}"


def bulleted(items: Sequence[object], indent: str = "  ") -> str:
    """Returns one line for each of the first 20 items, and how many more there are.

    Example:
        >>> print(bulleted(["cat.png", "dog.png"]))
          cat.png
          dog.png
    """
    return "\n".join(f"{indent}{item}" for item in _shortened(items, _LIMIT))


def listed(items: Sequence[object], limit: int = _LIMIT) -> str:
    """Returns the first items on one line, and how many more there are.

    Example:
        >>> listed(range(22), limit=5)
        '0, 1, 2, 3, 4, and 17 more'
    """
    return ", ".join(_shortened(items, limit))


def _shortened(items: Sequence[object], limit: int) -> list[str]:
    shown = [str(item) for item in items[:limit]]
    more = len(items) - len(shown)
    return [*shown, f"and {more:,} more"] if more else shown
