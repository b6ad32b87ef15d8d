"""The scans of a JPEG file, and whether they hold all its pixels."""

import io
import re
import zlib
from typing import NamedTuple

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_LOSSLESS = (0xC3, 0xC7, 0xCB, 0xCF)  # frames without a cosine transform
# Every marker outside pixel data; inside pixel data, only the markers that end it. There, FF 00 is
# the byte FF, and RST markers divide the data. \x01 is a marker without a segment.
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
_RESTART = re.compile(rb"\xff[\xd0-\xd7]")
# Bytes that decode to pixels other than those a decoder fills in after an early end.
_FILLER = bytes(range(7, 247, 13)) + bytes(range(241, 11, -11)) + bytes(range(3, 250, 17))
_SMALLEST = 8  # JPEG files are decoded at 1/8 or more
_GREY = range(126, 131)
_STRIP = 256  # rows


class Scans(NamedTuple):
    """The number of scans of a JPEG file, and the place of its end marker if there is one."""

    count: int
    end: int | None
    lossless: bool = False  # must not be reduced: Pillow's buffer would overflow


def find_scans(contents: bytes) -> Scans:
    """Finds the scans of a JPEG file up to its end marker, without decoding pixels."""
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


def ends_early(contents: bytes, scans: Scans, image: Image.Image) -> bool:
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
    scale = 1 if scans.count > 1 else _SMALLEST
    seen = [*_RESTART.finditer(contents, 0, scans.end)][-1:]
    restart = 0xD0 + (contents[seen[0].end() - 1] + 1) % 8 if seen else 0xD0
    filler = _FILLER + bytes([0xFF, restart]) + _FILLER
    filled = contents[: scans.end] + filler + bytes([0xFF, _END])
    return _checksum(_decode_reduced(contents, scale)) != _checksum(_decode_reduced(filled, scale))


def _decode_reduced(contents: bytes, scale: int) -> Image.Image:
    """Decodes a JPEG file with its sides divided by 1, 2, 4 or 8."""
    image = JpegImageFile(io.BytesIO(contents))
    set_scale(image, scale)
    image.load()
    return image


def set_scale(image: JpegImageFile, scale: int) -> None:
    """Makes Pillow decode a JPEG file with its sides divided by 1, 2, 4 or 8."""
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
