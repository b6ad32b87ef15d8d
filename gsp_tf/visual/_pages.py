"""Web pages: templates, and images and figures as text."""

import base64
import functools
import io
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jinja2
import numpy as np
from PIL import Image

from gsp_tf._files import replacing
from gsp_tf._typing import PathLike
from gsp_tf.visual._style import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TILE_PIXELS = 240
"""Longer side of the pictures on a page."""
_SMALL = 64
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
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(rgb(image))).save(buffer, kind.upper(), **options)
    return f"data:image/{kind};base64," + base64.b64encode(buffer.getvalue()).decode()


def inline_svg(figure: "Figure") -> str:
    """A figure as an `<svg>` element in the page's text colour, the same text each time."""
    import matplotlib

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
