"""Decodes parts of JPEG files inside a `tf.data` graph."""

import functools
from collections.abc import Callable
from typing import Literal

from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import Tensor
from gsp_tf.data.images.decode import MAX_PIXELS

Window = Callable[[Tensor], Tensor]
"""Maps the size `(2,)` of an image to int32 `(4,)`: top, left, height and width of a part."""

# An orientation other than upright: the EXIF entry 0x0112, short or long, in either byte order,
# with a value from 2 to 8; or any orientation in XMP.
_TURNED = (
    r"(?:\x12\x01[\x03\x04]\x00\x01\x00\x00\x00[\x02-\x08]"
    r"|\x01\x12\x00\x03\x00\x00\x00\x01\x00[\x02-\x08]"
    r"|\x01\x12\x00\x04\x00\x00\x00\x01\x00\x00\x00[\x02-\x08]"
    r"|tiff:Orientation)"
)
_HEADER = 2**14  # bytes; EXIF is at the start of a file
_RATIOS = (1, 2, 4, 8)
_LUMA = (19595, 38470, 7471)  # weights, times 2**16


def is_upright_jpeg(contents: Tensor) -> Tensor:
    """Whether a file is a complete grey or RGB JPEG that needs no rotation or mirroring.

    Args:
        contents: Scalar string, the bytes of the file.

    Returns:
        Scalar bool. If false, Pillow must read the file: it may have another format, an orientation
        in EXIF, CMYK pixels or more than `MAX_PIXELS`, or be cut off.

    Example:
        >>> bool(is_upright_jpeg(tf.io.encode_jpeg(tf.zeros((8, 8, 3), tf.uint8))))
        True
        >>> bool(is_upright_jpeg(tf.io.encode_png(tf.zeros((8, 8, 3), tf.uint8))))
        False
    """
    starts = tf.strings.substr(contents, 0, 3) == b"\xff\xd8\xff"
    ends = tf.strings.substr(contents, tf.maximum(0, tf.strings.length(contents) - 2), 2)
    is_whole = starts & (ends == b"\xff\xd9")
    header = tf.strings.substr(contents, 0, _HEADER)
    is_turned = tf.strings.regex_full_match(header, rf"\C*{_TURNED}\C*")  # \C is a byte

    def is_usual():
        height, width, channels = tf.unstack(tf.io.extract_jpeg_shape(contents, tf.int64))
        return (channels < 4) & (height * width <= MAX_PIXELS)

    return tf.cond(is_whole & ~is_turned, is_usual, lambda: False)


def decode_jpeg_window(
    contents: Tensor, choose: Window, min_side: int, channels: Literal[1, 3]
) -> Tensor:
    """Decodes only a part of a JPEG.

    The part is reduced by 2, 4 or 8 as long as both sides keep `min_side` pixels. Decoding at a
    lower resolution averages pixels and takes less time.

    Args:
        contents: Scalar string, the bytes of a file that passes `is_upright_jpeg`.
        choose: Maps the size `(2,)` to int32 `(4,)`: top, left, height and width of the part.
        min_side: Pixels that each side of the part must keep.
        channels: 1 for grey or 3 for RGB.

    Returns:
        uint8 `(height, width, channels)`, or a reduction of it. Without a reduction, the
        pixels are those that Pillow reads, except for the colours at the border of the part.

    Example:
        >>> contents = tf.io.encode_jpeg(tf.zeros((64, 64, 3), tf.uint8))
        >>> decode_jpeg_window(contents, lambda size: [0, 8, 32, 40], 10, channels=1).shape
        TensorShape([16, 20, 1])
    """
    window = tf.convert_to_tensor(choose(tf.io.extract_jpeg_shape(contents)[:2]))
    side = tf.reduce_min(window[2:])

    def decode(ratio):
        return tf.io.decode_and_crop_jpeg(
            contents, window // ratio, channels=3, ratio=ratio, dct_method="INTEGER_ACCURATE"
        )

    # The largest ratio that keeps `min_side`.
    branch = tf.reduce_sum(tf.cast(side >= min_side * tf.constant(_RATIOS[1:]), tf.int32))
    pixels = tf.switch_case(branch, [functools.partial(decode, ratio) for ratio in _RATIOS])
    return pixels if channels == 3 else to_grey(pixels)


def to_grey(pixels: Tensor) -> Tensor:
    """Converts RGB to ITU-R 601 luma in Pillow's integer arithmetic.

    Args:
        pixels: uint8 `(H, W, 3)`.

    Returns:
        uint8 `(H, W, 1)`.

    Example:
        >>> to_grey(tf.constant([[[255, 0, 0]]], tf.uint8)).numpy().tolist()
        [[[76]]]
    """
    luma = tf.reduce_sum(tf.cast(pixels, tf.int32) * _LUMA, axis=-1, keepdims=True)
    return tf.cast((luma + 2**15) // 2**16, tf.uint8)
