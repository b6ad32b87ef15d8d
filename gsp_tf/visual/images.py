"""Conversions of images and figures to what a web page embeds."""

import base64
import io

import matplotlib
import numpy as np
from PIL import Image

from gsp_tf.visual.style import INK

NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def rgb(image):
    """Returns a grey or colour image as RGB.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`.

    Returns:
        uint8 `(H, W, 3)`.

    Raises:
        ValueError: for another dtype or shape.

    Example:
        >>> rgb(np.full((2, 4, 1), 7, np.uint8)).shape
        (2, 4, 3)
    """
    image = np.asarray(image)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] not in (1, 3):
        raise ValueError(
            "An image must be uint8 of shape (H, W, 1) or (H, W, 3); "
            f"received {image.dtype} of shape {image.shape}."
        )
    return np.broadcast_to(image, (*image.shape[:2], 3))


def thumbnail(image, size):
    """Returns an image as RGB, reduced so that neither side exceeds `size` pixels.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`.
        size: largest side in pixels; smaller images keep their size.

    Returns:
        uint8 `(h, w, 3)`.

    Example:
        >>> thumbnail(np.zeros((200, 100, 3), np.uint8), 50).shape
        (50, 25, 3)
    """
    picture = Image.fromarray(np.ascontiguousarray(rgb(image)))
    picture.thumbnail((size, size), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def enlarged(image, size):
    """Returns an image as RGB, every pixel of it repeated as often as fits into a size.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`.
        size: largest side in pixels; larger images are reduced to it.

    Returns:
        uint8 `(h, w, 3)`.

    Example:
        >>> enlarged(np.zeros((20, 10, 1), np.uint8), 50).shape
        (40, 20, 3)
    """
    picture = thumbnail(image, size)
    times = size // max(picture.shape[:2])
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def png_uri(image):
    """Returns an image as the data URI of a PNG.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`.

    Returns:
        str.

    Example:
        >>> png_uri(np.zeros((2, 2, 1), np.uint8))[:22]
        'data:image/png;base64,'
    """
    return _data_uri(image, "png", optimize=True)


def jpeg_uri(image):
    """Returns an image as the data URI of a JPEG, a tenth of a PNG for photographs.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`.

    Returns:
        str.

    Example:
        >>> jpeg_uri(np.zeros((2, 2, 1), np.uint8))[:23]
        'data:image/jpeg;base64,'
    """
    return _data_uri(image, "jpeg", quality=85)


def _data_uri(image, kind, **options):
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(rgb(image))).save(buffer, kind.upper(), **options)
    return f"data:image/{kind};base64," + base64.b64encode(buffer.getvalue()).decode()


def inline_svg(figure):
    """Returns a figure as an SVG element whose ink takes the text colour of the page.

    Args:
        figure: matplotlib Figure.

    Returns:
        str: the `<svg>` element, the same for the same figure.

    Example:
        >>> from gsp_tf.visual.style import transparent_figure
        >>> inline_svg(transparent_figure(1, 1))[:4]
        '<svg'
    """
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gsp_tf"}):
        figure.savefig(buffer, format="svg", metadata=NO_METADATA)
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")
