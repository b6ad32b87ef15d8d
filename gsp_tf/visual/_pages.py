"""Web pages: templates, images and figures as text, galleries and neighbours."""

import base64
import functools
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from gsp_tf._console import show_progress
from gsp_tf._files import replacing
from gsp_tf._typing import PathLike
from gsp_tf.visual._style import INK

TILE_PIXELS = 240
"""Longer side of the pictures on a page."""
_SMALL = 64
_MOST, _EXPLAINED = 500, 6  # neighbours on a page, and those with pictures of pairs
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


class Tile(NamedTuple):
    """A picture on a page, or the reason why it is missing."""

    path: str
    name: str
    uri: str | None  # data URI of the thumbnail; None if the file cannot be read
    problem: str = ""  # why it cannot be read
    small: bool = False  # whether the page shows its pixels unsmoothed
    link: str | None = None  # `file:` URL of a readable file


def array_tile(image: np.ndarray, path: PathLike) -> Tile:
    """The tile of an image, uint8 `(H, W, 1)` or `(H, W, 3)`, and of the path of its file."""
    small = max(image.shape[:2]) <= _SMALL
    uri = (png_uri if small else jpeg_uri)(thumbnail(image, TILE_PIXELS))
    return Tile(str(path), Path(path).name, uri, small=small)


def rgb(image: np.ndarray) -> np.ndarray:
    """A grey or colour image, uint8 `(H, W, 1)` or `(H, W, 3)`, as RGB; `ValueError` for others."""
    image = np.asarray(image)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] not in (1, 3):
        raise ValueError(
            "An image must be uint8 of shape (H, W, 1) or (H, W, 3); "
            f"received {image.dtype} of shape {image.shape}."
        )
    return np.broadcast_to(image, (*image.shape[:2], 3))


def thumbnail(image: np.ndarray, size: int) -> np.ndarray:
    """An image as RGB, reduced so that neither side exceeds `size` pixels: uint8 `(h, w, 3)`."""
    picture = Image.fromarray(np.ascontiguousarray(rgb(image)))
    picture.thumbnail((size, size), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def enlarged(image: np.ndarray, size: int) -> np.ndarray:
    """An image as RGB, each pixel repeated as often as `size` allows; larger ones are reduced."""
    picture = thumbnail(image, size)
    times = size // max(picture.shape[:2])
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def png_uri(image: np.ndarray) -> str:
    """An image, uint8 `(H, W, 1)` or `(H, W, 3)`, as the data URI of a PNG."""
    return _data_uri(image, "png", optimize=True)


def jpeg_uri(image: np.ndarray) -> str:
    """An image as the data URI of a JPEG; photographs take a tenth of a PNG."""
    return _data_uri(image, "jpeg", quality=85)


def _data_uri(image, kind, **options):
    """The data URI of an image in a format of Pillow."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(rgb(image))).save(buffer, kind.upper(), **options)
    return f"data:image/{kind};base64," + base64.b64encode(buffer.getvalue()).decode()


def inline_svg(figure: Figure) -> str:
    """A figure as an `<svg>` element in the page's text colour, the same text each time."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gsp_tf"}):
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def page_template(name: str, folder: str = "visual") -> jinja2.Template:
    """A template of a folder of gsp_tf; it escapes every text and raises for unknown names."""
    return _templates(folder).get_template(name)


@functools.cache
def _templates(folder):
    loaders = [jinja2.PackageLoader("gsp_tf", place) for place in (folder, "visual")]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_page(path: PathLike, template: str, **values: object) -> Path:
    """Writes a page from a template part by part; values can be made while it is written."""
    parts = page_template(template).generate(**values)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        # A file name that is not Unicode appears in a text as lone surrogates.
        file.writelines(part.encode("utf-8", errors="replace") for part in parts)
    return Path(path)


def write_gallery_page(
    path: PathLike,
    title: str,
    summary: str,
    sections: Iterable[tuple[str, str, Iterable[tuple[str, str, str, bool]]]],
    tile: Callable[[PathLike], Tile],
    total: int,
) -> Path:
    """Writes one HTML page with sections of pictures; it loads nothing from elsewhere.

    A section is a heading, a hint and pictures: a path, a caption, a line below it, and whether the
    picture has a frame. Pictures are made and written one at a time, by the function `tile` from a
    path. The number of sections, `total`, is for the progress bar. Returns the path of the page.
    """

    def shown():
        for heading, hint, pictures in show_progress(sections, "Writing the page", total):
            yield heading, hint, ((tile(path), *texts) for path, *texts in pictures)

    return write_page(path, "gallery.html", title=title, summary=summary, sections=shown())


def write_search_page(
    path: PathLike,
    searches: Sequence[tuple[PathLike, Sequence[Any]]],
    summary: str,
    hint: str,
    tile: Callable[[PathLike], Tile],
    pairs: Callable[[PathLike, Sequence[str]], Sequence[np.ndarray | None]] | None = None,
) -> Path:
    """Writes one HTML page with queries and their neighbours; it loads nothing from elsewhere.

    Pictures are made and written one at a time. A query has at most its nearest 500 neighbours.

    Args:
        path: file to write; an existing file is replaced in one step.
        searches: pairs of a query's path and its neighbours, as `gsp_tf.search.search` finds them.
            The decision about the first other file is also shown with the query.
        summary: line below the heading that says what was searched.
        hint: line above the neighbours that explains the distances.
        tile: function from a path to its picture.
        pairs: function from a query and the paths of its first neighbours to pictures of what they
            have in common, None for a picture that cannot be made; without it there are none.

    Returns:
        The path of the page.
    """
    found = [(query, of[:_MOST], len(of)) for query, of in searches]
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
