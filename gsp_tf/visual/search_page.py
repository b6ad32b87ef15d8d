"""One self-contained page about the nearest neighbours of an image."""

from pathlib import Path
from typing import NamedTuple

from gsp_tf._console import show_progress
from gsp_tf._files import replacing
from gsp_tf.data import UnreadableImageError, read_image
from gsp_tf.visual.images import jpeg_uri, png_uri, thumbnail
from gsp_tf.visual.templates import page_template

PIXELS = 240
PAGE_NEIGHBOURS = 500
_SMALL = 64


class Tile(NamedTuple):
    """A picture on a page, or why there is none.

    Args:
        path: path of the file.
        name: name of the file.
        uri: data URI of its thumbnail; `None` if it cannot be read.
        problem: why it cannot be read.
        small: whether it has so few pixels that they are to be shown as they are.
        link: `file:` URL of the file; `None` if it cannot be read.
    """

    path: str
    name: str
    uri: str | None
    problem: str = ""
    small: bool = False
    link: str | None = None


def image_tile(path):
    """The thumbnail of an image file.

    Args:
        path: the file; it may be missing or damaged.

    Returns:
        `Tile`.

    Example:
        >>> image_tile("gone.png").problem
        'there is no such file'
    """
    path = str(path)
    try:
        image = read_image(path, min_side=2 * PIXELS)
    except UnreadableImageError as error:
        return Tile(path, Path(path).name, None, error.reason)
    return array_tile(image, path)._replace(link=Path(path).absolute().as_uri())


def array_tile(image, path):
    """The thumbnail of an image.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`.
        path: path of its file, or what else it is called.

    Returns:
        `Tile`.

    Example:
        >>> import numpy as np
        >>> array_tile(np.zeros((9, 8, 1), np.uint8), "digits/4.png").name
        '4.png'
    """
    small = max(image.shape[:2]) <= _SMALL
    uri = (png_uri if small else jpeg_uri)(thumbnail(image, PIXELS))
    return Tile(path, Path(path).name, uri, small=small)


def write_search_page(path, searches, summary, hint):
    """Writes one HTML page with queries and their neighbours, which requests nothing from anywhere.

    Each picture is read, reduced and written before the next; of more than 500 neighbours of a
    query the page shows the nearest 500.

    Args:
        path: file to write; replaced in one step if it exists.
        searches: list of pairs of the path of an image that was searched and its neighbours, a list
            of `(rank, distance, label, path)`; a label may be `None`.
        summary: what was searched, a line below the heading.
        hint: what the distances are, a line above the neighbours.

    Returns:
        pathlib.Path of the page.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     found = [(1, 0.25, "cat", "b.png")]
        ...     page = write_search_page(f"{folder}/a.html", [("a.png", found)], "1 image", "")
        ...     "1 · cat" in page.read_text("utf-8")
        True
    """
    files = [
        file
        for query, neighbours in searches
        for file in (query, *(found[-1] for found in neighbours[:PAGE_NEIGHBOURS]))
    ]
    tiles = map(image_tile, show_progress(files, "Writing the page", len(files)))
    parts = page_template("search.html").generate(
        title=_title([query for query, _ in searches]),
        summary=summary,
        hint=hint,
        searches=(
            (
                next(tiles),
                (
                    (rank, f"{distance:.4f}", label, next(tiles))
                    for rank, distance, label, _ in neighbours[:PAGE_NEIGHBOURS]
                ),
                len(neighbours),
            )
            for query, neighbours in searches
        ),
        most=PAGE_NEIGHBOURS,
    )
    with replacing(path) as temporary, open(temporary, "wb") as file:
        # A file name that is not Unicode reaches a text as lone surrogates.
        file.writelines(part.encode("utf-8", errors="replace") for part in parts)
    return Path(path)


def _title(queries):
    what = Path(queries[0]).name if len(queries) == 1 else f"{len(queries)} images"
    return f"Neighbours of {what}"
