import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from encoded_images import ORIENTATION, big_endian_exif, encoded, exif, photo, png, says_sides

from gsp_tf.data import MAX_PIXELS, FileImages
from gsp_tf.export.runs import _decode_window

SIZE = 24


def choose(size):
    """A window off the centre, so that every turn of an image changes it."""
    return tf.stack([size[0] // 3, size[1] // 5, size[0] // 2, size[1] // 2])


@pytest.fixture(scope="module")
def decode():
    """Function from bytes and channels to the window, as a graph computes it."""

    @tf.function(autograph=False)
    def of_channels(contents, channels):
        return _decode_window(contents, choose, SIZE, channels, "Image 7")

    return lambda contents, channels=3: of_channels(tf.constant(contents), channels).numpy()


@pytest.fixture
def check(decode, tmp_path):
    """Function that compares windows of contents with those of files that evaluation reads."""

    def compare(contents, channels=(1, 3)):
        paths = [tmp_path / str(number) for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        seed = tf.constant([0, 0], tf.int64)
        for channel_count in channels:
            images = FileImages(paths, [0] * len(paths), ["a"], channels=channel_count)
            numbers = tf.data.Dataset.range(len(paths))
            windows = numbers.map(lambda i, of=images: of.load_window(i, seed, choose, SIZE))
            for content, window in zip(contents, windows.as_numpy_iterator(), strict=True):
                np.testing.assert_array_equal(decode(content, channel_count), window, content[:60])

    return compare


@pytest.fixture(scope="module")
def photograph():
    return photo(160, 120)


def noise(bit_depth, colour_type, *chunks, size=(33, 27)):
    """A PNG of noise, with further chunks before its pixels."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour_type]
    values = np.random.default_rng(0).integers(0, 256, (27, (33 * channels * bit_depth + 7) // 8))
    rows = b"".join(b"\x00" + row.tobytes() for row in values.astype(np.uint8))
    return png(*size, bit_depth, colour_type, rows, *chunks)


def test_jpeg(photograph, check):
    contents = [
        encoded(photograph),
        encoded(photograph, progressive=True),
        encoded(photograph, subsampling=0),
        encoded(photograph.convert("L")),
        encoded(photograph) + b"maker's notes",
    ]
    check(contents)


def test_orientation(photograph, check):
    contents = []
    for orientation in range(10):
        little, big = exif(orientation), big_endian_exif(orientation, is_long=orientation % 2 == 0)
        contents += [encoded(photograph, exif=little), encoded(photograph, exif=big)]
        contents.append(encoded(photograph, "PNG", exif=little))
    check(contents, channels=[3])


def tiff(first, entries, thumbnail=()):
    """A TIFF with its first directory at an offset, and one for the thumbnail."""

    def directory(tags, following):
        shorts = b"".join(struct.pack("<HHII", tag, 3, 1, value) for tag, value in tags)
        return struct.pack("<H", len(tags)) + shorts + struct.pack("<I", following)

    second = first + 6 + 12 * len(entries) + 6
    start = b"II*\x00" + struct.pack("<I", first) + b"\x00" * (first - 8)
    return start + directory(entries, second) + b"\x00" * 6 + directory(thumbnail, 0)


def with_segments(jpeg, *segments):
    """A JPEG with segments before all others, by marker."""
    parts = (b"\xff" + marker + struct.pack(">H", len(of) + 2) + of for marker, of in segments)
    return jpeg[:2] + b"".join(parts) + jpeg[2:]


def test_only_the_first_directory_has_the_orientation_wherever_it_lies(photograph, check):
    turned, of_thumbnail = [(ORIENTATION, 6)], ([(0x0128, 2)], [(ORIENTATION, 6)])
    profile = b"\xe2", b"ICC_PROFILE\x00" + b"\x07" * (2**16 - 15)
    blocks = [
        tiff(8, turned),
        tiff(10, turned),
        tiff(8, *of_thumbnail),
        tiff(8, []),
        b"II*\x00\xff",
    ]
    segments = [(b"\xe1", b"Exif\x00\x00" + block) for block in blocks]
    jpeg = encoded(photograph)
    contents = [with_segments(jpeg, segment) for segment in segments]
    contents += [with_segments(jpeg, profile, segment) for segment in segments]
    contents += [noise(8, 2, (b"eXIf", block)) for block in blocks[:-1]]
    check(contents, channels=[3])


COLOURS = np.random.default_rng(1).integers(0, 256, 768).astype(np.uint8).tobytes()
PALETTES = {depth: (b"PLTE", COLOURS[: 3 * 2**depth]) for depth in (1, 2, 4, 8)}


def test_png(check):
    contents = [
        *(noise(depth, 0) for depth in (1, 2, 4, 8, 16)),
        *(noise(depth, colour) for depth in (8, 16) for colour in (2, 4, 6)),
        noise(1, 0, (b"tRNS", b"\x00\x01")),
        noise(2, 0, (b"tRNS", b"\x00\x02")),
        noise(4, 0, (b"tRNS", b"\x00\x00")),
        noise(4, 0, (b"tRNS", b"\x00\x0b")),
        noise(8, 0, (b"tRNS", b"\x00\x09")),
        noise(16, 0, (b"tRNS", b"\x12\x34")),
        noise(8, 2, (b"tRNS", bytes([0, 1, 0, 2, 0, 3]))),
        *(noise(depth, 3, palette) for depth, palette in PALETTES.items()),
        noise(8, 3, PALETTES[8], (b"tRNS", bytes(range(0, 250, 5)))),
        noise(2, 3, PALETTES[2], (b"tRNS", b"\x00\x80")),
        noise(8, 2, (b"tEXt", b"Comment\x00" + b"long " * 9000)),
    ]
    check(contents)


XMP = b'<x:xmpmeta tiff:Orientation="%s"/>'
COMPRESSED_XMP = b"XML:com.adobe.xmp\x00\x01\x00\x00\x00" + zlib.compress(XMP % b"6")


def test_the_orientation_of_exif_counts_before_that_of_xmp(photograph, check):
    contents = [encoded(photograph, exif=exif(value), xmp=XMP % b"3") for value in (1, 6)]
    check([*contents, encoded(photograph, xmp=XMP % b"1")], channels=[3])


def test_what_is_refused(photograph, decode):
    side = int(MAX_PIXELS**0.5) + 1
    refused = {
        b"": "Image 7.*neither a JPEG nor a PNG",
        b"\xff": "neither a JPEG nor a PNG",
        b"\x89PNG\r\n\x1a\n": "neither a JPEG nor a PNG",
        encoded(photograph, "GIF"): "neither a JPEG nor a PNG",
        encoded(photograph.convert("CMYK")): "Image 7.*in CMYK; accepted are grey and RGB",
        encoded(photograph)[:900]: "Invalid JPEG",
        encoded(photograph)[:9]: "Invalid JPEG",
        noise(8, 2)[:-30]: "Invalid PNG",
        noise(8, 2, size=(side, side)): rf"Image 7.*\[{side} {side}\].*at most 89,478,485",
        noise(8, 2, size=(2**32 - 1, 2**32 - 1)): "at most 89,478,485",
        noise(16, 2, (b"tRNS", bytes(6))): "Image 7.*one transparent colour of 16 bits",
        encoded(photograph, xmp=XMP % b"6"): "Image 7.*orientation outside of EXIF",
        noise(8, 2, (b"iTXt", COMPRESSED_XMP)): "Image 7.*orientation outside of EXIF",
        noise(8, 2, (b"zTXt", b"Raw profile type exif\x00")): "orientation outside of EXIF",
        says_sides(encoded(photograph), 65_000): r"Image 7.*\[65000 65000\].*at most 89,478,485",
    }
    for contents, message in refused.items():
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            decode(contents)
