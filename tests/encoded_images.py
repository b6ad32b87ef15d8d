"""Images encoded as file bytes, and what they are made of."""

import io
import struct
import zlib

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

ORIENTATION = 0x0112


def photo(width, height, name="flower.jpg"):
    """A photograph, resized."""
    return Image.fromarray(load_sample_image(name)).resize((width, height))


def difference(pixels, expected):
    """Mean difference of the values of two images of one shape."""
    assert np.shape(pixels) == np.shape(expected)
    return np.abs(np.subtract(pixels, expected, dtype=int)).mean()


def encoded(image, kind="JPEG", **options):
    """File bytes of a Pillow image."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def exif(orientation):
    """EXIF with the orientation between other tags."""
    tags = Image.Exif()
    tags[0x010F] = "a maker before it"
    tags[ORIENTATION] = orientation
    tags[0x0131] = "software after it"
    return tags


def big_endian_exif(orientation, is_long):
    """EXIF in the other byte order, with the orientation as a short or a long."""
    value = orientation.to_bytes(4, "big") if is_long else bytes([0, orientation, 0, 0])
    maker = b"\x01\x0f\x00\x02\x00\x00\x00\x04abc\x00"
    entry = b"\x01\x12" + bytes([0, 4 if is_long else 3]) + b"\x00\x00\x00\x01" + value
    return b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x02" + maker + entry + b"\x00" * 4


def png(width, height, depth, kind, rows, *chunks, interlace=0):
    """File bytes of a PNG of rows as they are before compression, with more chunks."""

    def chunk(name, content):
        body = name + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlace)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def says_sides(jpeg, side):
    """A JPEG whose header says that it has another width and height."""
    frame = jpeg.index(b"\xff\xc0")
    return jpeg[: frame + 5] + side.to_bytes(2, "big") * 2 + jpeg[frame + 9 :]
