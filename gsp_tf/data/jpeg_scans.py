"""The scans of a JPEG file, and whether they hold all of its pixels."""

import io
import re
import zlib
from typing import NamedTuple

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_LOSSLESS = (0xC3, 0xC7, 0xCB, 0xCF)  # frames without a cosine transform
# Outside of pixels every marker, among pixels those that end them: FF 00 is the byte FF, and RST
# markers divide the pixels. \x01 is a marker without a segment.
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
_RESTART = re.compile(rb"\xff[\xd0-\xd7]")
# Bytes that decode to something other than what a decoder assumes after an early end.
_FILLER = bytes(range(7, 247, 13)) + bytes(range(241, 11, -11)) + bytes(range(3, 250, 17))
_SMALLEST = 8  # JPEG files are decoded at 1/8 at least
_GREY = range(126, 131)
_STRIP = 256  # rows


class Scans(NamedTuple):
    """Where the pixels of a JPEG file are.

    Args:
        count: How many passes over the image there are: 1, or more if it is progressive.
        end: Where the end marker is; `None` if there is none, or if it cuts off a segment.
        lossless: Whether it is a lossless JPEG. libjpeg cannot reduce one, and Pillow's buffer
            overflows if it is asked to.
    """

    count: int
    end: int | None
    lossless: bool = False


def find_scans(contents: bytes) -> Scans:
    """Finds the scans of a JPEG file by its markers; no pixel is decoded.

    Args:
        contents: The bytes of the file. What follows its end marker is not looked at.

    Returns:
        `Scans`.

    Example:
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (8, 8)).save(file, "JPEG")
        >>> find_scans(file.getvalue() + b"more").count
        1
    """
    count, position, lossless = 0, 0, False
    while match := _MARKER.search(contents, position):
        marker, position = contents[match.end() - 1], match.end()
        if marker == _END:
            return Scans(count, match.start(), lossless)
        count += marker == _SCAN
        lossless |= marker in _LOSSLESS
        if marker not in (0x01, _START):
            position += int.from_bytes(contents[position : position + 2], "big")
    return Scans(count, None, lossless)


def ends_early(contents: bytes, image: Image.Image) -> bool:
    """Whether pixels are missing before the end marker of a JPEG file.

    A decoder makes the missing pixels grey and does not say so. If bytes before the end marker
    change the image, the pixels did not end there.

    Args:
        contents: The bytes of the file.
        image: The image that was decoded of them, at any scale.

    Returns:
        Whether they are missing. What is not seen: in a file with one scan the loss of a part of
        its last block, in a progressive one that of whole scans, which leaves the image coarse.

    Example:
        >>> file = io.BytesIO()
        >>> image = Image.radial_gradient("L")
        >>> image.save(file, "JPEG")
        >>> ends_early(file.getvalue(), image)
        False
    """
    scans = find_scans(contents)
    if scans.end is None:
        return True
    if scans.count == 1:
        corner = image.getpixel((image.width - 1, image.height - 1))
        if image.mode in ("L", "RGB") and not _is_grey(corner):
            return False
    scale = 1 if scans.count > 1 else _SMALLEST
    seen = [*_RESTART.finditer(contents, 0, scans.end)][-1:]
    restart = 0xD0 + (contents[seen[0].end() - 1] + 1) % 8 if seen else 0xD0
    filler = _FILLER + bytes([0xFF, restart]) + _FILLER
    filled = contents[: scans.end] + filler + bytes([0xFF, _END])
    return _checksum(decode_reduced(contents, scale)) != _checksum(decode_reduced(filled, scale))


def decode_reduced(contents: bytes, scale: int) -> Image.Image:
    """Decodes a JPEG file at a fraction of its size.

    Args:
        contents: The bytes of the file.
        scale: 1, 2, 4 or 8, by which its sides are divided.

    Returns:
        The image.

    Example:
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (20, 50)).save(file, "JPEG")
        >>> decode_reduced(file.getvalue(), 4).size
        (5, 13)
    """
    image = JpegImageFile(io.BytesIO(contents))
    set_scale(image, scale)
    image.load()
    return image


def set_scale(image: JpegImageFile, scale: int) -> None:
    """Has a JPEG file decoded at a fraction of its size; `scale` is 1, 2, 4 or 8."""
    image.draft(None, tuple(max(side // scale, 1) for side in image.size))


def _checksum(image: Image.Image) -> int:
    checksum = 0
    for top in range(0, image.height, _STRIP):
        strip = image.crop((0, top, image.width, min(top + _STRIP, image.height)))
        checksum = zlib.crc32(strip.tobytes(), checksum)
    return checksum


def _is_grey(pixel: int | tuple[int, ...]) -> bool:
    if isinstance(pixel, int):
        return pixel in _GREY
    red, green, blue = pixel
    return round(0.299 * red + 0.587 * green + 0.114 * blue) in _GREY
