"""Decoding the bytes of an image inside a TensorFlow graph, as evaluation decodes its file."""

import tensorflow as tf

from gsp_tf.data.decode import MAX_PIXELS, PIXEL_LIMIT
from gsp_tf.data.jpeg import decode_jpeg_window, is_upright_jpeg
from gsp_tf.data.orientation import exif_orientation, turn
from gsp_tf.data.png import decode_png, is_png, png_size

_HEADER = 2**16  # bytes; EXIF stands at the beginning of a JPEG, and has at most as many
_LUMA = (19595, 38470, 7471)  # ITU-R 601, in Pillow's integers


def decode_window(
    contents: tf.Tensor, choose, min_side: int, channels: int, name: str | tf.Tensor = "The image"
) -> tf.Tensor:
    """Decodes a part of a JPEG or PNG to the pixels that `FileImages` gives for such a file.

    The size is read first: nothing is decoded of an image with more than `MAX_PIXELS`. Orientation
    is that of EXIF; one that is given in XMP alone, or in a PNG as text, is not seen.

    Args:
        contents: Scalar string, the bytes of the file.
        choose: Function from the size `(2,)` of the image as it is shown, height and width, to
            int32 `(4,)`: top, left, height and width of the part.
        min_side: Pixels that each side of the part has to keep, as in `decode_jpeg_window`.
        channels: 1 for grey or 3 for RGB.
        name: What error messages call it.

    Returns:
        uint8 `(height, width, channels)`, or a reduction of it.

    Raises:
        tf.errors.InvalidArgumentError: If the bytes are neither a JPEG nor a PNG, are cut off or
            broken, or are a JPEG in CMYK, or the image is too large.

    Example:
        >>> contents = tf.io.encode_png(tf.zeros((64, 64, 3), tf.uint8))
        >>> decode_window(contents, lambda size: [0, 8, 32, 40], 10, channels=1).shape
        TensorShape([32, 40, 1])
    """
    is_jpeg = tf.strings.substr(contents, 0, 3) == b"\xff\xd8\xff"
    contents = _require(
        is_jpeg | is_png(contents), contents, [name, "is neither a JPEG nor a PNG file."]
    )
    shape = tf.cond(is_jpeg, lambda: _jpeg_shape(contents), lambda: _png_shape(contents))
    size = [name, "has height, width", shape[:2], f"pixels; {PIXEL_LIMIT}."]
    contents = _require(shape[0] <= MAX_PIXELS // tf.maximum(shape[1], 1), contents, size)
    contents = _require(shape[2] < 4, contents, [name, "is in CMYK; accepted are grey and RGB."])
    return tf.cond(
        is_upright_jpeg(contents),
        lambda: decode_jpeg_window(contents, choose, min_side, channels),
        lambda: _whole(contents, is_jpeg, choose, channels),
    )


def _require(condition, contents, message):
    """The contents, of which nothing is done before the condition was seen to hold."""
    with tf.control_dependencies([tf.debugging.Assert(condition, message, summarize=2)]):
        return tf.identity(contents)


def _jpeg_shape(contents):
    return tf.io.extract_jpeg_shape(contents, tf.int64)


def _png_shape(contents):
    """Height, width, and 3 for its channels: whatever a PNG has, it becomes RGB."""
    return tf.concat([png_size(contents), [3]], axis=0)


def _whole(contents, is_jpeg, choose, channels):
    """The part of an image that is decoded in full, as Pillow does it."""
    pixels, header = tf.cond(
        is_jpeg,
        lambda: (
            tf.io.decode_jpeg(contents, channels=3, dct_method="INTEGER_ACCURATE"),
            tf.strings.substr(contents, 0, _HEADER),
        ),
        lambda: (decode_png(contents), contents),
    )
    pixels = turn(pixels, exif_orientation(header))
    top, left, height, width = tf.unstack(choose(tf.shape(pixels)[:2]))
    pixels = pixels[top : top + height, left : left + width]
    if channels == 3:
        return pixels
    luma = tf.reduce_sum(tf.cast(pixels, tf.int32) * _LUMA, axis=-1, keepdims=True)
    return tf.cast((luma + 2**15) // 2**16, tf.uint8)
