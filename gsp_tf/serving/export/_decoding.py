"""Decoding the bytes of a JPEG or PNG inside a TensorFlow graph, as evaluation decodes the file.

The size is read first: nothing is decoded of an image with more than `MAX_PIXELS`. Orientation is
that of EXIF; one that is given in XMP alone, or in a PNG as text, is not seen. Bytes that are
neither a JPEG nor a PNG, cut off or broken, or a JPEG in CMYK, raise
`tf.errors.InvalidArgumentError`. A JPEG may come reduced, as `decode_jpeg_window` gives it.
"""

from collections.abc import Callable

import tensorflow as tf

from gsp_tf.data import MAX_PIXELS, decode_jpeg_window, is_upright_jpeg, to_grey

_JPEG_HEADER = 2**16  # bytes; EXIF stands at the beginning of a JPEG, and has at most as many
_PNG_HEADER = 26  # bytes: signature, length and name of IHDR, width, height, bit depth, colour type
_PNG_START = r"\CPNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\C{10}"
_GREY, _WITH_ALPHA = 0, 4  # colour types of a PNG

# The first entry 0x0112 among the entries of 12 bytes of the first directory of EXIF, in either
# byte order; its value is a short or a long. \\C is a byte.
_EXIF = r"(?:Exif\x00\x00|eXIf)"
_ORIENTATIONS = (
    rf"{_EXIF}II\*\x00\x08\x00\x00\x00\C\C(?:\C{{12}})*?"
    r"\x12\x01[\x03\x04]\x00\x01\x00\x00\x00(\C)",
    rf"{_EXIF}MM\x00\*\x00\x00\x00\x08\C\C(?:\C{{12}})*?"
    r"\x01\x12\x00(?:\x03\x00\x00\x00\x01\x00|\x04\x00\x00\x00\x01\x00\x00\x00)(\C)",
)


def decode_window(
    contents: tf.Tensor,
    choose: Callable[[tf.Tensor], tf.Tensor],
    min_side: int,
    channels: int,
    name: str | tf.Tensor,
) -> tf.Tensor:
    """A part of an image, uint8 `(height, width, channels)`: the pixels that `FileImages` gives."""
    is_jpeg = tf.strings.substr(contents, 0, 3) == b"\xff\xd8\xff"
    is_png = tf.strings.regex_full_match(tf.strings.substr(contents, 0, _PNG_HEADER), _PNG_START)
    contents = _require(is_jpeg | is_png, contents, name, "is neither a JPEG nor a PNG file.")
    shape = tf.cond(
        is_jpeg,
        lambda: tf.io.extract_jpeg_shape(contents, tf.int64),
        lambda: tf.concat([_png_size(contents), [3]], axis=0),
    )
    limit = f"pixels; at most {MAX_PIXELS:,} are decoded."
    is_small = shape[0] <= MAX_PIXELS // tf.maximum(shape[1], 1)
    contents = _require(is_small, contents, name, "has height, width", shape[:2], limit)
    is_rgb = shape[2] < 4
    contents = _require(is_rgb, contents, name, "is in CMYK; accepted are grey and RGB.")
    return tf.cond(
        is_upright_jpeg(contents),
        lambda: decode_jpeg_window(contents, choose, min_side, channels),
        lambda: _decode_whole(contents, is_jpeg, choose, channels),
    )


def _require(condition, contents, *message):
    """The contents, which nothing may read before the condition was seen to hold."""
    with tf.control_dependencies([tf.debugging.Assert(condition, message, summarize=2)]):
        return tf.identity(contents)


def _decode_whole(contents, is_jpeg, choose, channels):
    """The part of an image that is decoded in full, as Pillow does it."""
    pixels, header = tf.cond(
        is_jpeg,
        lambda: (
            tf.io.decode_jpeg(contents, channels=3, dct_method="INTEGER_ACCURATE"),
            tf.strings.substr(contents, 0, _JPEG_HEADER),
        ),
        lambda: (_decode_png(contents), contents),
    )
    pixels = _turn(pixels, _orientation(header))
    top, left, height, width = tf.unstack(choose(tf.shape(pixels)[:2]))
    pixels = pixels[top : top + height, left : left + width]
    return pixels if channels == 3 else to_grey(pixels)


def _orientation(header):
    """Orientation by EXIF, 1 (as stored) to 8; 1 without such an entry or with another value."""
    orientation = tf.constant(1)
    for entry in _ORIENTATIONS:
        value = tf.strings.regex_replace(header, rf"^\C*?{entry}\C*$", r"\1")
        found = (tf.strings.length(value) == 1) & tf.strings.regex_full_match(value, "[\x02-\x08]")
        byte = tf.cast(tf.io.decode_raw(value, tf.uint8)[:1], tf.int32)
        orientation = tf.where(found, tf.reduce_sum(byte), orientation)
    return orientation


def _turn(image, orientation):
    """The image, turned and mirrored as its orientation says."""

    def is_one_of(*values):
        return tf.reduce_any(orientation == values)

    image = tf.cond(orientation > 4, lambda: tf.transpose(image, (1, 0, 2)), lambda: image)
    image = tf.cond(is_one_of(2, 3, 6, 7), lambda: tf.reverse(image, [1]), lambda: image)
    return tf.cond(is_one_of(3, 4, 7, 8), lambda: tf.reverse(image, [0]), lambda: image)


def _png_header(contents):
    return tf.io.decode_raw(tf.strings.substr(contents, 0, _PNG_HEADER), tf.uint8)


def _png_size(contents):
    """Height and width of a PNG by its header, int64."""
    sides = tf.reshape(tf.cast(_png_header(contents)[16:24], tf.int64), (2, 4))
    return tf.reverse(tf.reduce_sum(sides * [2**24, 2**16, 2**8, 1], axis=1), [0])


def _decode_png(contents):
    """RGB in 8 bits, transparency composited on white."""
    # Grey of 2 or 4 bits with a transparent level is an exception: Pillow takes another level.
    bit_depth, colour_type = tf.unstack(_png_header(contents)[24:26], 2)
    before_pixels = tf.strings.split([contents], "IDAT", maxsplit=1).values[0]
    is_transparent = (colour_type >= _WITH_ALPHA) | tf.strings.regex_full_match(
        before_pixels, r"\C*tRNS\C*"
    )

    def usual():
        return tf.cond(
            is_transparent,
            lambda: _on_white(tf.io.decode_png(contents, channels=4)),
            lambda: tf.io.decode_png(contents, channels=3),
        )

    is_deep_grey = (bit_depth == 16) & (colour_type == _GREY)
    return tf.cond(is_deep_grey, lambda: _deep_grey(contents), usual)


def _deep_grey(contents):
    """Grey of 16 bits, rounded to 8; one of its values may be transparent."""
    pixels = tf.cast(tf.io.decode_png(contents, channels=4, dtype=tf.uint16), tf.int32)
    return tf.cast(tf.where(pixels[..., 3:] == 0, 255, (pixels[..., :3] + 128) // 257), tf.uint8)


def _on_white(pixels):
    """RGB of RGBA on white, in the integers of Pillow's `alpha_composite`."""
    pixels = tf.cast(pixels, tf.int32)
    alpha = pixels[..., 3:]
    fine = 128 * (pixels[..., :3] * alpha + 255 * (255 - alpha)) + 128 * 128
    return tf.cast((fine // 256 + fine) // 2**15, tf.uint8)
