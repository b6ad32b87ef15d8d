"""Decodes image files, and never returns wrong pixels silently."""

import contextlib
import io
import os
import re
import stat
import warnings
import zlib
from typing import Literal, NamedTuple

import numpy as np
from PIL import ExifTags, Image
from PIL.JpegImagePlugin import JpegImageFile

from gsp_tf._typing import PathLike
from gsp_tf.data.images._formats import (
    FORMATS,
    check_encoding,
    missing_to_decode,
    png_ends_early,
    unread_kind,
)

MAX_PIXELS = 2**28 // 3
"""Larger images are refused before they are decoded, except JPEG files with one scan.

Pillow has the same limit.
"""

PIXEL_LIMIT = f"at most {MAX_PIXELS:,} are decoded"
_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n\x1a\n"
_LARGEST_RATIO = 8  # of JPEG files
_MAX_SCANS = 100  # of a JPEG file; each is a pass over all pixels
_STRIP = 2**22  # pixels converted at once

# For each EXIF orientation, a view of the displayed image that has the layout of the stored one.
_STORED = {
    2: lambda pixels: pixels[:, ::-1],
    3: lambda pixels: pixels[::-1, ::-1],
    4: lambda pixels: pixels[::-1],
    5: lambda pixels: pixels.swapaxes(0, 1),
    6: lambda pixels: pixels[:, ::-1].swapaxes(0, 1),
    7: lambda pixels: pixels[::-1, ::-1].swapaxes(0, 1),
    8: lambda pixels: pixels[::-1].swapaxes(0, 1),
}


class UnreadableImageError(ValueError):
    """A file that cannot be read as an image.

    Args:
        path: The file.
        reason: Its problem, in words.

    Example:
        >>> print(UnreadableImageError("cat.jpg", "the file is empty"))
        cat.jpg: the file is empty
    """

    def __init__(self, path: PathLike, reason: str):
        super().__init__(path, reason)
        self.path = os.fspath(path)
        self.reason = reason

    def __str__(self):
        return f"{self.path}: {self.reason}"


def read_image(
    path: PathLike, channels: Literal[1, 3] = 3, min_side: int | None = None
) -> np.ndarray:
    """Decodes an image file (JPEG, PNG, BMP, GIF, WebP, TIFF, AVIF, HEIC) to 8 bits per channel.

    The EXIF orientation is applied. Transparency is composited on white. Samples of 16 bits are
    divided by 257: grey is rounded, a colour may be one level lower. CMYK and palettes become RGB.
    Colour profiles are not applied. An animation gives its first frame, a TIFF its first page.

    A JPEG with one scan, as cameras write it, and more than `MAX_PIXELS` is decoded at 1/2, 1/4 or
    1/8 of its width and height, whichever is the largest that fits.

    Args:
        path: The file.
        channels: 1 for grey (ITU-R 601 luma) or 3 for RGB.
        min_side: Sufficient length of the shorter side in pixels. The image is reduced by the
            largest integer (2, 4 or 8 for a JPEG) that keeps this length, which saves time and
            memory; `None` does not reduce it.

    Returns:
        uint8 `(H, W, channels)`, the image or its reduction.

    Raises:
        UnreadableImageError: If the file is missing, empty, truncated or not an image; if its
            samples are signed, of 12 or 32 bits or floats; if it has another encoding whose pixels
            would not be those of the standard of its format, such as YCbCr or Lab in a TIFF; or if
            its header states more than `MAX_PIXELS`, except for a JPEG with one scan. A lossless
            JPEG, or one with more than 100 scans, is refused too.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("RGB", (30, 20), "red").save(f"{folder}/red.png")
        ...     image = read_image(f"{folder}/red.png")
        ...     reduced = read_image(f"{folder}/red.png", min_side=10)
        >>> image.shape, reduced.shape
        ((20, 30, 3), (10, 15, 3))
    """
    check_channels(channels)
    with _decoded(_file(path), path, min_side) as (image, factor):
        return _to_array(image, channels, factor)


def decode_image(
    contents: bytes, channels: Literal[1, 3] = 3, name: str = "the image"
) -> np.ndarray:
    """Decodes the bytes of an image file, like `read_image`; errors have the name."""
    check_channels(channels)
    with _decoded(_contents(contents, name), name) as (image, factor):
        return _to_array(image, channels, factor)


def check_image(source: PathLike | bytes, name: str = "the image") -> None:
    """Decodes an image, a file or its bytes with a name, in full and discards its pixels.

    This takes less time and memory than `read_image`: a JPEG is read completely, but only 1/64 of
    its pixels are computed.
    """
    is_bytes = isinstance(source, bytes)
    file = _contents(source, name) if is_bytes else _file(source)
    with _decoded(file, name if is_bytes else source, min_side=1):
        pass


def image_size(path: PathLike) -> tuple[int, int]:
    """The width and height of an image file as stored, in pixels, from its header alone."""
    with _opened(path) as file, _naming(path, path), warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # no pixel is decoded
        is_jpeg = file.peek(3)[:3] == _JPEG  # Image.open refuses large ones
        with JpegImageFile(file) if is_jpeg else Image.open(file, formats=FORMATS) as image:
            return image.size


@contextlib.contextmanager
def _opened(path):
    """Yields the open file of a path."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise UnreadableImageError(path, "it is not a file")
        with open(path, "rb") as file:
            if not file.peek(1):
                raise UnreadableImageError(path, "the file is empty (0 bytes)")
            yield file
    except FileNotFoundError as error:
        raise UnreadableImageError(path, "there is no such file") from error
    except OSError as error:
        raise UnreadableImageError(path, error.strerror) from error
    except UnreadableImageError:
        raise
    except ValueError as error:  # a path with the character NUL
        raise UnreadableImageError(path, str(error)) from error


def _file(path: PathLike) -> PathLike | io.BytesIO:
    """The input for Pillow: the bytes of a JPEG or PNG, the path of any other file."""
    with _opened(path) as file:
        return io.BytesIO(file.read()) if file.peek(8).startswith((_JPEG, _PNG)) else path


def _contents(contents: bytes, name: PathLike) -> io.BytesIO:
    if not contents:
        raise UnreadableImageError(name, "the file is empty (0 bytes)")
    return io.BytesIO(contents)


def check_channels(channels: int) -> None:
    """Refuses all but grey and RGB, which image files are converted to."""
    if channels not in (1, 3):
        raise ValueError(f"channels must be 1 or 3; received {channels!r}.")


@contextlib.contextmanager
def _decoded(file, name, min_side=None):
    """Yields the decoded image, and the factor by which it must still be reduced."""
    with _naming(file, name):
        if isinstance(file, io.BytesIO) and file.getvalue().startswith(_JPEG):
            yield _decoded_jpeg(file.getvalue(), min_side), 1
            return
        with Image.open(file, formats=FORMATS) as image:
            check_pixels(image.size)
            check_encoding(image)
            image.load()
            if image.format == "PNG" and png_ends_early(file.getvalue(), image):
                raise ValueError("it is cut off: its last pixels are missing")
            yield image, max(1, min(image.size) // (min_side or min(image.size)))


@contextlib.contextmanager
def _naming(file, name):
    """Raises `UnreadableImageError` with a name for all that a decoder may raise."""
    try:
        yield
    except Image.UnidentifiedImageError as error:
        reason = f"not an image of an accepted format ({', '.join(FORMATS)})"
        header = _header(file)
        if kind := unread_kind(header):
            reason = f"its header is broken, or of a kind of {kind} that is not read"
        reason = missing_to_decode(header[:12]) or reason
        raise UnreadableImageError(name, reason) from error
    except Image.DecompressionBombError as error:
        reason = f"it has more than {2 * Image.MAX_IMAGE_PIXELS:,} pixels; {PIXEL_LIMIT}"
        raise UnreadableImageError(name, reason) from error
    # A decoder that meets a broken file may raise anything: OSError, SyntaxError, struct.error...
    except Exception as error:
        raise UnreadableImageError(name, str(error) or type(error).__name__) from error


def _decoded_jpeg(contents: bytes, min_side: int | None) -> Image.Image:
    image = JpegImageFile(io.BytesIO(contents))  # Image.open refuses large ones
    pixels = image.width * image.height
    scans = _find_scans(contents)
    if scans.lossless:
        raise ValueError("it is a lossless JPEG; convert it to PNG")
    if scans.count != 1:
        check_pixels(image.size)  # all stay in memory until the last scan
    if scans.count > _MAX_SCANS:
        raise ValueError(f"it has {scans.count:,} scans; at most {_MAX_SCANS} are decoded")
    if image.mode == "CMYK" and "adobe" not in image.info:
        raise ValueError("it is in CMYK and does not say which values are ink (no Adobe marker)")
    if pixels > max(MAX_PIXELS, 512 * len(contents)):  # 64 pixels take at least a bit
        raise ValueError(f"it is cut off: {len(contents):,} bytes cannot hold {pixels:,} pixels")
    sufficient = max(1, min(image.size) // (min_side or min(image.size)))
    ratios = [
        ratio
        for ratio in (1, 2, 4, _LARGEST_RATIO)
        if ratio <= sufficient or pixels > MAX_PIXELS * (ratio // 2) ** 2 > 0
    ]
    _set_scale(image, ratios[-1])
    image.load()
    if _ends_early(contents, scans, image):
        raise ValueError("it is cut off: pixels are missing before its end marker")
    return image


def _header(file: PathLike | io.BytesIO) -> bytes:
    if isinstance(file, io.BytesIO):
        return file.getvalue()[:16]
    with open(file, "rb") as opened:
        return opened.read(16)


def check_pixels(size: tuple[int, int]) -> None:
    """Refuses images that would take too much memory, by the size in their header."""
    width, height = size
    if width * height > MAX_PIXELS:
        raise ValueError(
            f"it has {width:,} x {height:,} = {width * height:,} pixels; {PIXEL_LIMIT}"
        )


def _to_array(image: Image.Image, channels: int, factor: int = 1) -> np.ndarray:
    """The pixels as displayed, converted in strips to avoid a second whole image."""
    width, height = image.size
    rows = max(1, _STRIP // (width * factor)) * factor
    orientation = image.getexif().get(ExifTags.Base.Orientation)
    size = -(-height // factor), -(-width // factor)
    pixels = np.empty((*(size[::-1] if orientation in (5, 6, 7, 8) else size), channels), np.uint8)
    stored = _STORED.get(orientation, lambda pixels: pixels)(pixels)
    for top in range(0, height, rows):
        strip = image.crop((0, top, width, min(top + rows, height)))
        strip = _opaque(strip).convert("L" if channels == 1 else "RGB").reduce(factor)
        part = stored[top // factor :][: strip.height]
        part[...] = np.asarray(strip).reshape(part.shape)
    return pixels


def _opaque(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        return _reduce_16_bit(image)
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    return image if image.mode in ("1", "L") else image.convert("RGB")


def _reduce_16_bit(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.uint32)
    pixels = ((values + 128) // 257).astype(np.uint8)
    transparent = image.info.get("transparency")
    if transparent is not None:
        pixels[values == transparent] = 255
    return Image.fromarray(pixels)


_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_LOSSLESS = (0xC3, 0xC7, 0xCB, 0xCF)  # frames without a cosine transform
# Every marker outside pixel data; inside pixel data, only the markers that end it. There, FF 00 is
# the byte FF, and RST markers divide the data. \x01 is a marker without a segment.
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
_RESTART = re.compile(rb"\xff[\xd0-\xd7]")
# Bytes that decode to pixels other than those a decoder fills in after an early end.
_FILLER = bytes(range(7, 247, 13)) + bytes(range(241, 11, -11)) + bytes(range(3, 250, 17))
_GREY = range(126, 131)


class _Scans(NamedTuple):
    """The number of scans of a JPEG file, and the place of its end marker if there is one."""

    count: int
    end: int | None
    lossless: bool = False  # must not be reduced: Pillow's buffer would overflow


def _find_scans(contents: bytes) -> _Scans:
    """Finds the scans of a JPEG file up to its end marker, without decoding pixels."""
    count, position, lossless = 0, 0, False
    while match := _MARKER.search(contents, position):
        marker, position = contents[match.end() - 1], match.end()
        if marker == _END:
            return _Scans(count, match.start(), lossless)
        count += marker == _SCAN
        lossless |= marker in _LOSSLESS
        if marker not in (0x01, _START):
            position += int.from_bytes(contents[position : position + 2], "big")
    return _Scans(count, None, lossless)


def _ends_early(contents: bytes, scans: _Scans, image: Image.Image) -> bool:
    """Whether pixels are missing before the end marker; `image` is the decoded file."""
    # A decoder silently makes missing pixels grey. If extra bytes before the end marker change the
    # image, the pixels ended too early. Two losses go unnoticed: a part of the last block of a file
    # with one scan, and whole scans of a progressive file, which only leave the image coarse.
    if scans.end is None:
        return True
    if scans.count == 1:
        corner = image.getpixel((image.width - 1, image.height - 1))
        if image.mode in ("L", "RGB") and not _is_grey(corner):
            return False
    scale = 1 if scans.count > 1 else _LARGEST_RATIO
    seen = [*_RESTART.finditer(contents, 0, scans.end)][-1:]
    restart = 0xD0 + (contents[seen[0].end() - 1] + 1) % 8 if seen else 0xD0
    filler = _FILLER + bytes([0xFF, restart]) + _FILLER
    filled = contents[: scans.end] + filler + bytes([0xFF, _END])
    return _checksum(_decode_reduced(contents, scale)) != _checksum(_decode_reduced(filled, scale))


def _decode_reduced(contents: bytes, scale: int) -> Image.Image:
    """Decodes a JPEG file with its sides divided by 1, 2, 4 or 8."""
    image = JpegImageFile(io.BytesIO(contents))
    _set_scale(image, scale)
    image.load()
    return image


def _set_scale(image: JpegImageFile, scale: int) -> None:
    """Makes Pillow decode a JPEG file with its sides divided by 1, 2, 4 or 8."""
    image.draft(None, tuple(max(side // scale, 1) for side in image.size))


def _checksum(image: Image.Image) -> int:
    checksum = 0
    rows = max(1, _STRIP // image.width)
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        checksum = zlib.crc32(strip.tobytes(), checksum)
    return checksum


def _is_grey(pixel: int | tuple[int, ...]) -> bool:
    if isinstance(pixel, int):
        return pixel in _GREY
    red, green, blue = pixel
    return round(0.299 * red + 0.587 * green + 0.114 * blue) in _GREY
