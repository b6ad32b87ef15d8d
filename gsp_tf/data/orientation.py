"""Which way up an encoded image is to be shown, read inside a TensorFlow graph."""

import tensorflow as tf

# The first entry 0x0112 among the entries of 12 bytes of the first directory of EXIF, in either
# byte order; its value is a short or a long. \\C is a byte.
_START = r"(?:Exif\x00\x00|eXIf)"
_ENTRIES = (
    rf"{_START}II\*\x00\x08\x00\x00\x00\C\C(?:\C{{12}})*?"
    r"\x12\x01[\x03\x04]\x00\x01\x00\x00\x00(\C)",
    rf"{_START}MM\x00\*\x00\x00\x00\x08\C\C(?:\C{{12}})*?"
    r"\x01\x12\x00(?:\x03\x00\x00\x00\x01\x00|\x04\x00\x00\x00\x01\x00\x00\x00)(\C)",
)


def exif_orientation(header: tf.Tensor) -> tf.Tensor:
    """Orientation of a JPEG or PNG by its EXIF.

    Args:
        header: Scalar string, the bytes of the file, or those of its beginning.

    Returns:
        Scalar int32, 1 (as stored) to 8; 1 without such an entry or with another value.

    Example:
        >>> entry = b"\\x12\\x01\\x03\\x00\\x01\\x00\\x00\\x00\\x06\\x00\\x00\\x00"
        >>> int(exif_orientation(b"Exif\\0\\0II*\\0\\x08\\0\\0\\0\\x01\\0" + entry))
        6
    """
    orientation = tf.constant(1)
    for entry in _ENTRIES:
        value = tf.strings.regex_replace(header, rf"^\C*?{entry}\C*$", r"\1")
        found = (tf.strings.length(value) == 1) & tf.strings.regex_full_match(value, "[\x02-\x08]")
        byte = tf.cast(tf.io.decode_raw(value, tf.uint8)[:1], tf.int32)
        orientation = tf.where(found, tf.reduce_sum(byte), orientation)
    return orientation


def turn(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """Turns and mirrors an image as its orientation says.

    Args:
        image: `(H, W, channels)`, as it is stored.
        orientation: Scalar int32, 1 to 8.

    Returns:
        `(H, W, channels)`, or `(W, H, channels)` from orientation 5 on.

    Example:
        >>> turn(tf.reshape(tf.range(6), (2, 3, 1)), tf.constant(6))[..., 0].numpy().tolist()
        [[3, 0], [4, 1], [5, 2]]
    """

    def one_of(*values):
        return tf.reduce_any(orientation == values)

    image = tf.cond(orientation > 4, lambda: tf.transpose(image, (1, 0, 2)), lambda: image)
    image = tf.cond(one_of(2, 3, 6, 7), lambda: tf.reverse(image, [1]), lambda: image)
    return tf.cond(one_of(3, 4, 7, 8), lambda: tf.reverse(image, [0]), lambda: image)
