"""Decodes the bytes of a JPEG or PNG in a TensorFlow graph, as evaluation decodes the file.

The size is read first; an image with more than `MAX_PIXELS` is not decoded. The orientation comes
from EXIF. `tf.errors.InvalidArgumentError` refuses a file that is neither a JPEG nor a PNG, a
truncated or broken file, a JPEG in CMYK, a PNG of 16-bit colours of which one is transparent, and
an orientation that EXIF does not give but XMP, or compressed text in a PNG, may. A JPEG may be
decoded at reduced size by `decode_jpeg_window`.
"""

from collections.abc import Callable

import tensorflow as tf

from gsp_tf.data import MAX_PIXELS, decode_jpeg_window, is_upright_jpeg, to_grey

_JPEG_HEADER = 2**16  # bytes; EXIF lies at the start of a JPEG and is at most this long
_PNG_HEADER = 26  # bytes: signature, length and name of IHDR, width, height, bit depth, colour type
_PNG_START = r"\CPNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\C{10}"
_GREY, _COLOUR, _WITH_ALPHA = 0, 2, 4  # PNG colour types
# Where Pillow also looks for the orientation.
_HIDDEN_ORIENTATION = (
    r"tiff:Orientation(?:=\"|>)[2-8]|Raw profile type exif\x00|XML:com\.adobe\.xmp\x00\x01"
)

# Matches the first entry 0x0112 (orientation) of the first EXIF directory, in either byte order.
# Entries have 12 bytes; the value is a short or a long. \\C matches one byte.
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
    """A window of an image, uint8 `(height, width, channels)`, with the pixels of `FileImages`."""
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
    is_told = _orientation(_header(contents, is_jpeg)) > 0
    is_plain = ~_holds(_header(contents, is_jpeg), _HIDDEN_ORIENTATION)
    limit = "may have an orientation outside of EXIF; accepted is one in EXIF."
    contents = _require(is_told | is_plain, contents, name, limit)
    is_read = is_jpeg | ~_is_deep_colour_with_key(contents)
    limit = "has one transparent colour of 16 bits; accepted are 8 bits, or an alpha channel."
    contents = _require(is_read, contents, name, limit)
    return tf.cond(
        is_upright_jpeg(contents),
        lambda: decode_jpeg_window(contents, choose, min_side, channels),
        lambda: _decode_whole(contents, is_jpeg, choose, channels),
    )


def _require(condition, contents, *message):
    """Returns the contents only if the condition holds; otherwise raises with the message."""
    with tf.control_dependencies([tf.debugging.Assert(condition, message, summarize=2)]):
        return tf.identity(contents)


def _decode_whole(contents, is_jpeg, choose, channels):
    """Decodes the whole image as Pillow does, then cuts out the window."""
    pixels = tf.cond(
        is_jpeg,
        lambda: tf.io.decode_jpeg(contents, channels=3, dct_method="INTEGER_ACCURATE"),
        lambda: _decode_png(contents),
    )
    pixels = _turn(pixels, _orientation(_header(contents, is_jpeg)))
    top, left, height, width = tf.unstack(choose(tf.shape(pixels)[:2]))
    pixels = pixels[top : top + height, left : left + width]
    return pixels if channels == 3 else to_grey(pixels)


def _header(contents, is_jpeg):
    """The part of a file that may hold its orientation; of a PNG, the whole."""
    return tf.strings.substr(contents, 0, tf.where(is_jpeg, _JPEG_HEADER, 2**31 - 1))


def _holds(contents, pattern):
    return tf.strings.regex_full_match(contents, rf"\C*(?:{pattern})\C*")


def _orientation(header):
    """EXIF orientation, 1 (as stored) to 8; 0 if the entry is missing or invalid."""
    orientation = tf.constant(0)
    for entry in _ORIENTATIONS:
        value = tf.strings.regex_replace(header, rf"^\C*?{entry}\C*$", r"\1")
        found = (tf.strings.length(value) == 1) & tf.strings.regex_full_match(value, "[\x01-\x08]")
        byte = tf.cast(tf.io.decode_raw(value, tf.uint8)[:1], tf.int32)
        orientation = tf.where(found, tf.reduce_sum(byte), orientation)
    return orientation


def _turn(image, orientation):
    """Turns and mirrors an image according to its EXIF orientation."""

    def is_one_of(*values):
        return tf.reduce_any(orientation == values)

    image = tf.cond(orientation > 4, lambda: tf.transpose(image, (1, 0, 2)), lambda: image)
    image = tf.cond(is_one_of(2, 3, 6, 7), lambda: tf.reverse(image, [1]), lambda: image)
    return tf.cond(is_one_of(3, 4, 7, 8), lambda: tf.reverse(image, [0]), lambda: image)


def _png_header(contents):
    return tf.io.decode_raw(tf.strings.substr(contents, 0, _PNG_HEADER), tf.uint8)


def _png_size(contents):
    """Height and width from the header of a PNG, int64."""
    sides = tf.reshape(tf.cast(_png_header(contents)[16:24], tf.int64), (2, 4))
    return tf.reverse(tf.reduce_sum(sides * [2**24, 2**16, 2**8, 1], axis=1), [0])


def _has_key(contents):
    """Whether a PNG has a transparent colour, or palette entries with an alpha."""
    return _holds(tf.strings.split([contents], "IDAT", maxsplit=1).values[0], "tRNS")


def _is_deep_colour_with_key(contents):
    """Whether a PNG has 16-bit colours, one of them transparent, which Pillow does not read."""
    header = _png_header(contents)
    header = tf.pad(header, [[0, tf.maximum(0, _PNG_HEADER - tf.size(header))]])
    return (header[24] == 16) & (header[25] == _COLOUR) & _has_key(contents)


def _decode_png(contents):
    """Decodes a PNG to 8-bit RGB, with transparency composited on white."""
    bit_depth, colour_type = tf.unstack(_png_header(contents)[24:26], 2)
    is_transparent = (colour_type >= _WITH_ALPHA) | _has_key(contents)

    def usual():
        return tf.cond(
            is_transparent,
            lambda: _on_white(tf.io.decode_png(contents, channels=4)),
            lambda: tf.io.decode_png(contents, channels=3),
        )

    is_deep_grey = (bit_depth == 16) & (colour_type == _GREY)
    return tf.cond(is_deep_grey, lambda: _deep_grey(contents), usual)


def _deep_grey(contents):
    """16-bit grey rounded to 8 bits; one of its values may be transparent."""
    pixels = tf.cast(tf.io.decode_png(contents, channels=4, dtype=tf.uint16), tf.int32)
    return tf.cast(tf.where(pixels[..., 3:] == 0, 255, (pixels[..., :3] + 128) // 257), tf.uint8)


def _on_white(pixels):
    """Composites RGBA on white with the integer arithmetic of Pillow's `alpha_composite`."""
    pixels = tf.cast(pixels, tf.int32)
    alpha = pixels[..., 3:]
    fine = 128 * (pixels[..., :3] * alpha + 255 * (255 - alpha)) + 128 * 128
    return tf.cast((fine // 256 + fine) // 2**15, tf.uint8)
