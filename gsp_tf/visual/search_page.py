"""One self-contained page about the nearest neighbours of an image."""

from pathlib import Path
from typing import NamedTuple

from gsp_tf.data import UnreadableImageError, read_image
from gsp_tf.files import replace_text
from gsp_tf.visual.images import png_uri, thumbnail
from gsp_tf.visual.templates import page_template

PIXELS = 240
_SMALL = 64


class Tile(NamedTuple):
    """A picture on a page, or why there is none.

    Args:
        path: path of the file.
        name: name of the file.
        uri: data URI of its thumbnail; `None` if it cannot be read.
        problem: why it cannot be read.
        small: whether it has so few pixels that they are to be shown as they are.
    """

    path: str
    name: str
    uri: str | None
    problem: str = ""
    small: bool = False


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
        image = read_image(path, min_side=PIXELS)
    except UnreadableImageError as error:
        return Tile(path, Path(path).name, None, error.reason)
    return array_tile(image, path)


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
    picture = png_uri(thumbnail(image, PIXELS))
    return Tile(path, Path(path).name, picture, small=max(image.shape[:2]) <= _SMALL)


def write_search_page(path, query, neighbours, summary, hint):
    """Writes one HTML page with a query and its neighbours, which requests nothing from anywhere.

    Args:
        path: file to write; replaced in one step if it exists.
        query: path of the image that was searched.
        neighbours: list of `(rank, distance, label, path)`; a label may be `None`.
        summary: what was searched, a line below the heading.
        hint: what the distances are, a line above the neighbours.

    Returns:
        pathlib.Path of the page.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     found = [(1, 0.25, "cat", "b.png")]
        ...     page = write_search_page(f"{folder}/a.html", "a.png", found, "1 image", "")
        ...     "1 · cat" in page.read_text("utf-8")
        True
    """
    page = page_template("search.html").render(
        title=f"Neighbours of {Path(query).name}",
        summary=summary,
        hint=hint,
        query=image_tile(query),
        neighbours=[
            (rank, f"{distance:.4f}", label, image_tile(file))
            for rank, distance, label, file in neighbours
        ],
    )
    replace_text(path, page)
    return Path(path)
