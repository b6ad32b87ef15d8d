"""A self-contained page about the nearest neighbours of images."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gsp_tf._console import show_progress
from gsp_tf._typing import PathLike
from gsp_tf.visual.page_parts import Tile, jpeg_uri, write_page

_MOST = 500
_EXPLAINED = 6


class _Neighbour(NamedTuple):
    """A neighbour on the page."""

    rank: int
    distance: float
    label: str | None
    path: str
    decision: str | None = None
    cost: float | None = None
    is_query: bool = False


def write_search_page(
    path: PathLike,
    searches: Sequence[tuple[PathLike, Sequence[tuple]]],
    summary: str,
    hint: str,
    tile: Callable[[PathLike], Tile],
    pairs: Callable[[PathLike, Sequence[str]], Sequence[np.ndarray | None]] | None = None,
) -> Path:
    """Writes one HTML page with queries and their neighbours; it loads nothing from elsewhere.

    Pictures are made and written one at a time. The page shows at most the nearest 500 neighbours
    of a query.

    Args:
        path: file to write; an existing file is replaced in one step.
        searches: pairs of a query's path and its neighbours, `(rank, distance, label, path)`. What
            was decided about a neighbour, such as "match", the cost that gave the order, and
            whether it is the query's own file may follow and are shown with the distance. The
            decision about the first other file is also shown with the query.
        summary: line below the heading that says what was searched.
        hint: line above the neighbours that explains the distances.
        tile: function from a path to its picture.
        pairs: function from a query and the paths of its first neighbours to pictures of what they
            have in common, None for a picture that cannot be made; without it there are none.

    Returns:
        The path of the page.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     searches = [("a.png", [(1, 0.25, "cat", "b.png")])]
        ...     def tile(path):
        ...         return Tile(path, path, None, "there is no such file")
        ...     page = write_search_page(f"{folder}/a.html", searches, "1 image", "", tile)
        ...     "1 · cat" in page.read_text("utf-8")
        True
    """
    found = [(query, [_Neighbour(*one) for one in of[:_MOST]], len(of)) for query, of in searches]
    files = [file for query, of, _ in found for file in (query, *(one.path for one in of))]
    tiles = map(tile, show_progress(files, "Writing the page", len(files)))
    return write_page(
        path,
        "search.html",
        title=_title([query for query, _ in searches]),
        summary=summary,
        hint=hint,
        searches=(
            (
                next(tiles),
                next((one.decision for one in of if not one.is_query), None),
                ((one, next(tiles)) for one in of),
                count,
                _pairs(pairs, query, of),
            )
            for query, of, count in found
        ),
        most=_MOST,
    )


def _pairs(pairs, query, neighbours):
    """The first neighbours, and pictures of each beside the query."""
    if pairs is None:
        return []
    first = neighbours[:_EXPLAINED]
    pictures = pairs(query, [one.path for one in first])
    return [
        (one, jpeg_uri(picture))
        for one, picture in zip(first, pictures, strict=True)
        if picture is not None
    ]


def _title(queries):
    """The heading of the page."""
    what = Path(queries[0]).name if len(queries) == 1 else f"{len(queries)} images"
    return f"Neighbours of {what}"
