"""Reading image files without ever returning wrong pixels in silence."""

import io
import os

import numpy as np
from PIL import Image, ImageOps

from gsp_tf.data.formats import FORMATS, missing_to_decode

MAX_PIXELS = 2**28 // 3
"""Larger images are refused unread. As RGB a quarter of a GiB; Pillow warns of larger ones."""

PIXEL_LIMIT = f"at most {MAX_PIXELS:,} are decoded"


class UnreadableImageError(ValueError):
    """A file that cannot be read as an image.

    Args:
        path: The file.
        reason: What is wrong with it.

    Example:
        >>> print(UnreadableImageError("cat.jpg", "the file is empty"))
        cat.jpg: the file is empty
    """

    def __init__(self, path: str | os.PathLike, reason: str):
        super().__init__(path, reason)
        self.path = os.fspath(path)
        self.reason = reason

    def __str__(self):
        return f"{self.path}: {self.reason}"


def read_image(path: str | os.PathLike, channels: int = 3) -> np.ndarray:
    """Decodes an image file (JPEG, PNG, BMP, GIF, WebP, TIFF, AVIF, HEIC) to 8 bits.

    The EXIF orientation is applied, transparency is composited on white, 16-bit grey is scaled to
    8 bits, CMYK and palettes become RGB, and of an animation the first frame is taken.

    Args:
        path: The file.
        channels: 1 for grey (ITU-R 601 luma) or 3 for RGB.

    Returns:
        uint8 `(H, W, channels)`.

    Raises:
        UnreadableImageError: If the file is missing, empty, truncated, not an image, holds 32-bit
            integers or floats, whose range is unknown, or says that it has more than `MAX_PIXELS`;
            such a file is not decoded.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("RGB", (3, 2), "red").save(f"{folder}/red.png")
        ...     read_image(f"{folder}/red.png")[0, 0]
        array([255,   0,   0], dtype=uint8)
    """
    _check_channels(channels)
    if not os.path.exists(path):
        raise UnreadableImageError(path, "there is no such file")
    if not os.path.isfile(path):
        raise UnreadableImageError(path, "it is not a file")
    if os.path.getsize(path) == 0:
        raise UnreadableImageError(path, "the file is empty (0 bytes)")
    return _decode(path, path, channels)


def decode_image(contents: bytes, channels: int = 3, name: str = "the image") -> np.ndarray:
    """Decodes the bytes of an image file to what `read_image` gives for the file.

    Args:
        contents: The bytes of a file.
        channels: 1 for grey (ITU-R 601 luma) or 3 for RGB.
        name: What errors call it.

    Returns:
        uint8 `(H, W, channels)`.

    Raises:
        UnreadableImageError: As `read_image`.

    Example:
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (3, 2), "red").save(file, "PNG")
        >>> decode_image(file.getvalue()).shape
        (2, 3, 3)
    """
    _check_channels(channels)
    if not contents:
        raise UnreadableImageError(name, "the file is empty (0 bytes)")
    return _decode(io.BytesIO(contents), name, channels)


def _check_channels(channels):
    if channels not in (1, 3):
        raise ValueError(f"channels must be 1 or 3; received {channels!r}.")


def _decode(file, name, channels):
    """The pixels of a path or an open file; errors call it by its name."""
    try:
        with Image.open(file, formats=FORMATS) as image:
            check_pixels(image.size)
            return _to_array(ImageOps.exif_transpose(image), channels)
    except Image.UnidentifiedImageError as error:
        reason = f"not an image of an accepted format ({', '.join(FORMATS)})"
        reason = missing_to_decode(_header(file)) or reason
        raise UnreadableImageError(name, reason) from error
    except Image.DecompressionBombError as error:
        reason = f"it has more than {2 * Image.MAX_IMAGE_PIXELS:,} pixels; {PIXEL_LIMIT}"
        raise UnreadableImageError(name, reason) from error
    # A decoder that meets a broken file may raise anything: OSError, SyntaxError, struct.error...
    except Exception as error:
        raise UnreadableImageError(name, str(error) or type(error).__name__) from error


def _header(file: str | os.PathLike | io.BytesIO) -> bytes:
    if isinstance(file, io.BytesIO):
        return file.getvalue()[:12]
    with open(file, "rb") as opened:
        return opened.read(12)


def check_pixels(size: tuple[int, int]) -> None:
    """Refuses images that would take too much memory, before they are decoded.

    Args:
        size: Width and height in pixels, as the header of the file says.

    Raises:
        ValueError: If they are more than `MAX_PIXELS`.

    Example:
        >>> check_pixels((4000, 3000))
        >>> check_pixels((40000, 30000))
        Traceback (most recent call last):
            ...
        ValueError: it has 40,000 x 30,000 = 1,200,000,000 pixels; at most 89,478,485 are decoded
    """
    width, height = size
    if width * height > MAX_PIXELS:
        raise ValueError(
            f"it has {width:,} x {height:,} = {width * height:,} pixels; {PIXEL_LIMIT}"
        )


def _to_array(image: Image.Image, channels: int) -> np.ndarray:
    if image.mode in ("I", "F"):
        raise ValueError(
            f"its pixels are 32-bit (mode {image.mode}) and their range is unknown; accepted are "
            "8-bit images and 16-bit grey ones"
        )
    if image.mode.startswith("I;16"):
        image = _reduce_16_bit(image)
    elif image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    elif image.mode not in ("1", "L"):
        image = image.convert("RGB")
    pixels = np.array(image.convert("L" if channels == 1 else "RGB"))
    return pixels.reshape(image.height, image.width, channels)


def _reduce_16_bit(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.uint32)
    pixels = ((values + 128) // 257).astype(np.uint8)
    transparent = image.info.get("transparency")
    if transparent is not None:
        pixels[values == transparent] = 255
    return Image.fromarray(pixels)
