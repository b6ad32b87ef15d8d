"""Parts of web pages: templates, and images and figures as text for a page."""

import base64
import functools
import io
from pathlib import Path
from typing import NamedTuple

import jinja2
import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from gsp_tf._files import replacing
from gsp_tf._typing import PathLike
from gsp_tf.visual.style import INK

TILE_PIXELS = 240
"""Longer side of the pictures on a page."""
_SMALL = 64
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


class Tile(NamedTuple):
    """A picture on a page, or the reason why it is missing.

    Attributes:
        path: path of the file.
        name: name of the file.
        uri: data URI of the thumbnail; `None` if the file cannot be read.
        problem: why the file cannot be read.
        small: whether the picture is so small that the page shows its pixels unsmoothed.
        link: `file:` URL of the file; `None` if the file cannot be read.

    Example:
        >>> Tile("/photos/gone.png", "gone.png", None, "there is no such file").small
        False
    """

    path: str
    name: str
    uri: str | None
    problem: str = ""
    small: bool = False
    link: str | None = None


def array_tile(image: np.ndarray, path: PathLike) -> Tile:
    """Makes a tile from an image array.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`.
        path: path of its file, or another name.

    Example:
        >>> import numpy as np
        >>> array_tile(np.zeros((9, 8, 1), np.uint8), "digits/4.png").name
        '4.png'
    """
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
    """Converts an image to RGB and reduces it so that neither side exceeds `size` pixels.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`; smaller images keep their size.
        size: largest side in pixels.

    Returns:
        uint8 `(h, w, 3)`.

    Example:
        >>> thumbnail(np.zeros((200, 100, 3), np.uint8), 50).shape
        (50, 25, 3)
    """
    picture = Image.fromarray(np.ascontiguousarray(rgb(image)))
    picture.thumbnail((size, size), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def enlarged(image: np.ndarray, size: int) -> np.ndarray:
    """Converts an image to RGB and repeats every pixel as often as `size` allows.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`; larger images are reduced to `size`.
        size: largest side in pixels.

    Returns:
        uint8 `(h, w, 3)`.

    Example:
        >>> enlarged(np.zeros((20, 10, 1), np.uint8), 50).shape
        (40, 20, 3)
    """
    picture = thumbnail(image, size)
    times = size // max(picture.shape[:2])
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def png_uri(image: np.ndarray) -> str:
    """Encodes an image as the data URI of a PNG.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`.

    Example:
        >>> png_uri(np.zeros((2, 2, 1), np.uint8))[:22]
        'data:image/png;base64,'
    """
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
    """Renders a figure as an `<svg>` element that uses the page's text colour.

    Args:
        figure: any figure; the same figure always gives the same text.

    Example:
        >>> from gsp_tf.visual import transparent_figure
        >>> inline_svg(transparent_figure(1, 1))[:4]
        '<svg'
    """
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gsp_tf"}):
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def page_template(name: str, folder: str = "visual") -> jinja2.Template:
    """Loads a template; it escapes every text and raises for unknown names.

    Args:
        name: file name.
        folder: folder of gsp_tf that contains it; it can build on templates of `visual`.

    Example:
        >>> page_template("page.html").render(title="a < b").count("a &lt; b")
        1
    """
    return _templates(folder).get_template(name)


@functools.cache
def _templates(folder):
    """The templates of a folder, which are compiled once."""
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
