"""Files written by hand: each has the pixels that its standard gives it, or is refused by name."""

import struct
import zlib

import numpy as np
import pytest
from encoded_images import encoded, png
from PIL import Image

from gsp_tf.data import UnreadableImageError, check_image, decode_image


def tiff(pixels, bits, photometric, byte_order="<", **tags):
    """A TIFF of one strip; `tags` are more entries by number (`t339=...`), each a short or shorts.

    A tag of `None` is left out, and bytes are of the type UNDEFINED.
    """
    height, width = 2, 2
    bits = bits if isinstance(bits, tuple) else (bits,)
    entries = {
        256: width,
        257: height,
        258: bits,
        259: 1,
        262: photometric,
        273: 8,
        277: len(bits),
        278: height,
        279: len(pixels),
        **{int(name[1:]): value for name, value in tags.items()},
    }
    entries = {tag: value for tag, value in sorted(entries.items()) if value is not None}
    start = 8 + len(pixels) + len(pixels) % 2
    place = start + 2 + 12 * len(entries) + 4
    directory, beyond = struct.pack(byte_order + "H", len(entries)), b""
    for tag, value in entries.items():
        value = value if isinstance(value, tuple) else (value,)
        content = struct.pack(f"{byte_order}{len(value)}H", *value)
        directory += struct.pack(byte_order + "HHI", tag, 3, len(value))
        if len(content) > 4:
            directory += struct.pack(byte_order + "I", place + len(beyond))
            beyond += content
        else:
            directory += content.ljust(4, b"\0")
    mark = b"II*\0" if byte_order == "<" else b"MM\0*"
    body = mark + struct.pack(byte_order + "I", start) + pixels
    return body.ljust(start, b"\0") + directory + bytes(4) + beyond


def bmp(width, height, bits, pixels, compression=0, colors=0, palette=b"", masks=b"", size=40):
    fields = size, width, height, 1, bits, compression, 0, 0, 0, colors, 0
    header = struct.pack("<IiiHHIIiiII", *fields) + masks + bytes(max(0, size - 40 - len(masks)))
    offset = 14 + len(header) + len(palette)
    start = struct.pack("<2sIHHI", b"BM", offset + len(pixels), 0, 0, offset)
    return start + header + palette + pixels


def grey_palette(levels):
    return b"".join(bytes([level, level, level, 0]) for level in levels)


def gif(lzw, extent=(0, 0, 2, 2), size=(2, 2), background=0):
    palette = bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9])
    screen = b"GIF89a" + struct.pack("<HHBBB", *size, 0x91, background, 0) + palette
    frame = b"," + struct.pack("<HHHHB", *extent, 0)
    return screen + frame + bytes([2, len(lzw)]) + lzw + b"\0;"


def words(values, byte_order="<", kind="H"):
    return struct.pack(f"{byte_order}{len(values)}{kind}", *values)


def without_adobe(jpeg):
    start = jpeg.index(b"\xff\xee")
    return jpeg[:start] + jpeg[start + 2 + int.from_bytes(jpeg[start + 2 : start + 4], "big") :]


CMYK = without_adobe(encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0))))
GREYS = words([0, 257, 2570, 65535])
WHITE, RED, GREEN, BLUE, BLACK = [255] * 3, [255, 0, 0], [0, 255, 0], [0, 0, 255], [0] * 3
CORNERS = bytes(RED + GREEN + BLUE + BLACK)
READ = {
    # photometric interpretation 0 is white at 0
    "fill order": (tiff(b"\x01\x02", 1, 1, t266=2), [[255, 0], [0, 255]]),
    "white is 0, 4 bits": (tiff(b"\x0f\x12", 4, 0), [[255, 0], [238, 221]]),
    "16 bits, deflated":
        (tiff(zlib.compress(words([0, 257, 2570, 65535], ">")), 16, 1, ">", t259=8),
         [[0, 1], [10, 255]]),
    "colour of 16 bits":
        (tiff(words([257 * value for value in CORNERS]), (16,) * 3, 2),
         [[RED, GREEN], [BLUE, BLACK]]),
    "planes": (
        tiff(bytes([255, 0, 0, 0, 0, 255, 0, 0, 0, 0, 255, 0]), (8,) * 3, 2, t284=2, t278=2,
             t273=(8, 12, 16), t279=(4, 4, 4)),
        [[RED, GREEN], [BLUE, BLACK]],
    ),
    "an alpha that is not multiplied":
        (tiff(bytes([255, 0, 0, 255, 0, 0, 0, 0] * 2), (8,) * 4, 2, t338=2), [[RED, WHITE]] * 2),
    "a multiplied alpha":
        (tiff(bytes([51, 0, 0, 51, 0, 0, 0, 255] * 2), (8,) * 4, 2, t338=1),
         [[[255, 204, 204], BLACK]] * 2),
    "a sample beyond":
        (tiff(bytes([255, 0, 0, 7, 0, 0, 255, 0] * 2), (8,) * 4, 2, t338=0), [[RED, BLUE]] * 2),
    "CMYK": (tiff(bytes([0, 255, 255, 0, 0, 0, 0, 0] * 2), (8,) * 4, 5), [[RED, WHITE]] * 2),
    "turned": (tiff(bytes([0, 1, 200, 255]), 8, 1, t274=6), [[200, 0], [255, 1]]),
    "PNG of 16 bits with alpha":
        (png(2, 1, 16, 4, b"\0" + words([2570, 65535, 5, 0], ">")), [[10, 255]]),
    "PNG, 2 bits, one level transparent":
        (png(2, 1, 2, 0, b"\0\x90", (b"tRNS", b"\0\2")), [[255, 85]]),
    "PNG, 4 bits, one level transparent":
        (png(2, 1, 4, 0, b"\0\x2f", (b"tRNS", b"\0\2")), [[255, 255]]),
    "PNG, 4 bits, level 0 transparent":
        (png(2, 1, 4, 0, b"\0\x20", (b"tRNS", b"\0\0")), [[34, 255]]),
    "PNG of black": (png(2, 2, 8, 0, bytes(6)), [[0, 0]] * 2),
    "interlaced PNG of black": (png(2, 2, 8, 0, bytes(7), interlace=1), [[0, 0]] * 2),
    "BMP with 5, 6 and 5 bits":
        (bmp(2, 1, 16, words([0xF800, 0x07E0]), 3, masks=words([0xF800, 0x7E0, 0x1F], kind="I")),
         [[RED, GREEN]]),
    "BMP of 1 bit":
        (bmp(2, 1, 1, b"\x40\0\0\0", colors=2, palette=grey_palette([0, 255])), [[0, 255]]),
    "BMP of 8 bits and all levels":
        (bmp(2, 1, 8, b"\x07\xf0\0\0", palette=grey_palette(range(256))), [[7, 240]]),
    "GIF": (gif(b"\x44\x34\x05"), [[RED, GREEN], [BLUE, [9] * 3]]),
}  # fmt: skip
REFUSED = {
    "signed 8 bits": tiff(bytes(4), 8, 1, t339=2),
    "32 bits": tiff(bytes(16), 32, 1),
    "12 bits": tiff(b"\xff\xff\xff\0\0\0", 12, 1),
    "white is 0, 16 bits": tiff(GREYS, 16, 0),
    "no photometric interpretation": tiff(bytes(4), 8, None),
    "YCbCr": tiff(bytes(16), (8,) * 3, 6, t530=(1, 1)),
    "Lab": tiff(bytes(12), (8,) * 3, 8),
    "an extra sample that is not described": tiff(bytes(16), (8,) * 4, 2),
    "inks other than CMYK": tiff(bytes(16), (8,) * 4, 5, t332=2),
    "planes of 16 bits":
        tiff(bytes(24), (16,) * 3, 2, t284=2, t273=(8, 16, 24), t279=(8, 8, 8)),
    "a plane of white at 0": tiff(bytes(4), 8, 0, t284=2),
    "multiplied planes":
        tiff(bytes(16), (8,) * 4, 2, t338=1, t284=2, t273=(8, 12, 16, 20), t279=(4,) * 4),
    "a strip is missing": tiff(bytes(2), 8, 1, t278=1),
    "a strip without a place": tiff(bytes(4), 8, 1, t273=0),
    "a strip that is too short": tiff(bytes(4), 8, 1, t279=2),
    "fill order of bytes": tiff(bytes(4), 8, 1, t266=2),
    "old JPEG": tiff(bytes(4), 8, 1, t259=6),
    "a thumbnail first": tiff(bytes(4), 8, 1, t254=1),
    "PNG, 16-bit colours, one transparent":
        png(1, 1, 16, 2, b"\0" + words([1, 2, 3], ">"), (b"tRNS", words([1, 2, 3], ">"))),
    "PNG without its last rows": png(2, 4, 8, 0, bytes([0, 7, 7, 0, 9, 9])),
    "interlaced PNG without its last pass": png(2, 2, 8, 0, bytes([0, 7, 0, 7]), interlace=1),
    "BMP of 8 bits in black and white":
        bmp(2, 1, 8, b"\0\1\0\0", colors=2, palette=grey_palette([0, 255])),
    "BMP with runs of 4 bits":
        bmp(4, 1, 4, b"\0\3\x12\x30\0\1", 2, 16, grey_palette(range(240, 256))),
    "BMP with masks of 0": bmp(1, 1, 32, bytes(4), 3, masks=bytes(16), size=56),
    "BMP of 16 bits with alpha":
        bmp(1, 1, 16, bytes(4), 3, masks=words([0x7C00, 0x3E0, 0x1F, 0x8000], kind="I"), size=56),
    "JPEG in CMYK without the marker of Adobe": CMYK,
    "GIF without its last pixels": gif(b"\x44\x05"),
    "GIF on a background": gif(b"\x44\x34\x05", size=(3, 3), background=3),
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_the_pixels_of_the_standard(kind):
    content, expected = READ[kind]
    expected = np.array(expected, np.uint8)
    expected = expected if expected.ndim == 3 else expected[..., None].repeat(3, axis=-1)
    check_image(content)
    np.testing.assert_allclose(decode_image(content).astype(int), expected, atol=1)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_would_be_read_wrongly_is_refused(kind):
    for read in (check_image, decode_image):
        with pytest.raises(UnreadableImageError, match=r"^cat\.tif: \w.{15}"):
            read(REFUSED[kind], name="cat.tif")
