"""Decoding PNG inside a TensorFlow graph."""

import tensorflow as tf

_HEADER = 26  # bytes: signature, length and name of IHDR, width, height, bit depth, colour type
_GREY, _WITH_ALPHA = 0, 4  # colour types


def is_png(contents: tf.Tensor) -> tf.Tensor:
    """Whether a file begins as a PNG does, header included.

    Args:
        contents: Scalar string, the bytes of the file.

    Returns:
        Scalar bool.

    Example:
        >>> bool(is_png(tf.io.encode_png(tf.zeros((8, 8, 3), tf.uint8))))
        True
    """
    header = tf.strings.substr(contents, 0, _HEADER)
    return tf.strings.regex_full_match(header, r"\CPNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\C{10}")


def png_size(contents: tf.Tensor) -> tf.Tensor:
    """Size of a PNG as its header says; nothing is decoded.

    Args:
        contents: Scalar string, the bytes of a file that `is_png`.

    Returns:
        int64 `(2,)`, height and width.

    Example:
        >>> png_size(tf.io.encode_png(tf.zeros((8, 300, 3), tf.uint8))).numpy().tolist()
        [8, 300]
    """
    header = tf.cast(tf.io.decode_raw(tf.strings.substr(contents, 0, _HEADER), tf.uint8), tf.int64)
    width, height = tf.unstack(
        tf.reduce_sum(tf.reshape(header[16:24], (2, 4)) * [2**24, 2**16, 2**8, 1], axis=1)
    )
    return tf.stack([height, width])


def decode_png(contents: tf.Tensor) -> tf.Tensor:
    """Decodes a PNG to what `read_image` gives: 8 bits, transparency composited on white.

    Grey of 2 or 4 bits with a transparent level is an exception: Pillow takes another level.

    Args:
        contents: Scalar string, the bytes of a file that `is_png`.

    Returns:
        uint8 `(H, W, 3)`.

    Example:
        >>> half_red = tf.constant([[[255, 0, 0, 128]]], tf.uint8)
        >>> decode_png(tf.io.encode_png(half_red)).numpy().tolist()
        [[[255, 127, 127]]]
    """
    header = tf.io.decode_raw(tf.strings.substr(contents, 0, _HEADER), tf.uint8)
    bit_depth, colour_type = header[24], header[25]
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


def _deep_grey(contents: tf.Tensor) -> tf.Tensor:
    """Grey of 16 bits, rounded to 8; one of its values may be transparent."""
    pixels = tf.cast(tf.io.decode_png(contents, channels=4, dtype=tf.uint16), tf.int32)
    return tf.cast(tf.where(pixels[..., 3:] == 0, 255, (pixels[..., :3] + 128) // 257), tf.uint8)


def _on_white(pixels: tf.Tensor) -> tf.Tensor:
    """RGB of RGBA on white, in the integers of Pillow's `alpha_composite`."""
    pixels = tf.cast(pixels, tf.int32)
    alpha = pixels[..., 3:]
    fine = 128 * (pixels[..., :3] * alpha + 255 * (255 - alpha)) + 128 * 128
    return tf.cast((fine // 256 + fine) // 2**15, tf.uint8)
