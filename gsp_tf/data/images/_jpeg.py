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
# The frame, which EXIF is before: its length, 8 bits, height, width, and 1 or 3 channels, without
# its marker: a pattern takes numbers above 127 for characters of UTF-8.
_FRAME = r"(?:\x00\x0b\x08\C{4}\x01|\x00\x11\x08\C{4}\x03)"
_HEADER, _LONG_HEADER = 2**14, 2**22  # bytes in which the frame mostly, or always, begins
_RATIOS = (1, 2, 4, 8)
_LUMA = (19595, 38470, 7471)  # weights, times 2**16


def is_upright_jpeg(contents: Tensor) -> Tensor:
    """Whether a file, a scalar string, is a complete grey or RGB JPEG that needs no rotation.

    If not, Pillow must read it: it may have another format, an orientation in EXIF, CMYK pixels or
    more than `MAX_PIXELS`, or be cut off.
    """
    return traced(_is_upright_jpeg, tf.TensorSpec((), tf.string))(contents)


def _is_upright_jpeg(contents):
    starts = tf.strings.substr(contents, 0, 3) == b"\xff\xd8\xff"
    ends = tf.strings.substr(contents, tf.maximum(0, tf.strings.length(contents) - 2), 2)
    is_whole = starts & (ends == b"\xff\xd9")

    def begins_with(pattern, length):  # \C is a byte
        header = tf.strings.substr(contents, 0, length)
        return tf.strings.regex_full_match(header, rf"\C*{pattern}\C*")

    is_turned = tf.cond(
        begins_with(_FRAME, _HEADER),
        lambda: begins_with(_TURNED, _HEADER),
        lambda: begins_with(_TURNED, _LONG_HEADER),
    )

    def is_usual():
        height, width, channels = tf.unstack(tf.io.extract_jpeg_shape(contents, tf.int64))
        return (channels < 4) & (height * width <= MAX_PIXELS)

    return tf.cond(is_whole & ~is_turned, is_usual, lambda: False)


def decode_jpeg_window(
    contents: Tensor, choose: Window, min_side: int, channels: Literal[1, 3]
) -> Tensor:
    """Decodes only a part of a file that passes `is_upright_jpeg`, as `ImageSet.load_window` does.

    The part is reduced by 2, 4 or 8 as long as both sides keep `min_side` pixels. Decoding at a
    lower resolution averages pixels and takes less time. Without a reduction, the pixels are those
    that Pillow reads, except for the colours at the border of the part.
    """
    window = tf.cast(choose(tf.io.extract_jpeg_shape(contents)[:2]), tf.int32)
    specs = tf.TensorSpec((), tf.string), tf.TensorSpec((4,), tf.int32)
    return traced(_decode_window, *specs, min_side=min_side, channels=channels)(contents, window)


def _decode_window(contents, window, min_side, channels):
    side = tf.reduce_min(window[2:])

    def decode(ratio):
        return tf.io.decode_and_crop_jpeg(
            contents, window // ratio, channels=3, ratio=ratio, dct_method="INTEGER_ACCURATE"
        )

    # The largest ratio that keeps `min_side`.
    branch = tf.reduce_sum(tf.cast(side >= min_side * tf.constant(_RATIOS[1:]), tf.int32))
    pixels = tf.switch_case(branch, [functools.partial(decode, ratio) for ratio in _RATIOS])
    return pixels if channels == 3 else to_grey(pixels)


@functools.cache
def traced(function: Callable, *specs: "tf.TensorSpec", **constants: float) -> Callable:
    """The graph of a function of tensors: one for all pipelines, which would take long to trace."""

    def of_tensors(*tensors):
        return function(*tensors, **constants)

    with tf.init_scope():
        return tf.function(of_tensors, specs, autograph=False).get_concrete_function()


def to_grey(pixels: Tensor) -> Tensor:
    """RGB, uint8 `(H, W, 3)`, as ITU-R 601 luma `(H, W, 1)` in Pillow's integer arithmetic."""
    luma = tf.reduce_sum(tf.cast(pixels, tf.int32) * _LUMA, axis=-1, keepdims=True)
    return tf.cast((luma + 2**15) // 2**16, tf.uint8)
