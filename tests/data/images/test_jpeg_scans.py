import io

import numpy as np
import pytest
from encoded_images import encoded, photo
from PIL import Image

from gsp_tf.data import UnreadableImageError, check_image, decode_image

END = b"\xff\xd9"
KINDS = {
    "baseline": {},
    "grey": {"convert": "L"},
    "cmyk": {"convert": "CMYK"},
    "full colour": {"subsampling": 0},
    "low quality": {"quality": 20},
    "restarts": {"restart_marker_rows": 1},
    "restarts within rows": {"restart_marker_blocks": 3},
    "progressive": {"progressive": True},
    "progressive grey": {"progressive": True, "convert": "L"},
}


def jpeg(kind, size=(160, 120)):
    options = dict(KINDS[kind])
    picture = photo(*size, "china.jpg")
    return encoded(picture.convert(options.pop("convert", "RGB")), **options)


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_that_are_missing_before_the_end_are_an_error(kind):
    whole = jpeg(kind)
    check_image(whole)
    first = whole.index(b"\xff\xda") + 40
    cuts = np.linspace(first, len(whole) - 60, 20).astype(int)
    # Between two scans the image is whole, but coarse.
    cuts = [cut for cut in cuts if b"\xff\xda" not in whole[cut - 2 : cut + 60]]
    assert len(cuts) > 9
    for cut in cuts:
        part = whole[:cut].removesuffix(b"\xff") + END
        for read in (check_image, decode_image):
            with pytest.raises(UnreadableImageError, match="cut off|truncated|broken"):
                read(part)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_files_and_those_with_more_behind_them(kind):
    for size in ((160, 120), (17, 33), (8, 8), (1, 1)):
        whole = jpeg(kind, size)
        pixels = decode_image(whole)
        for more in (b"maker's notes", whole, END):
            check_image(whole + more)
            np.testing.assert_array_equal(decode_image(whole + more), pixels)


@pytest.mark.parametrize("options", [{}, {"restart_marker_blocks": 2}, {"progressive": True}])
def test_a_photograph_that_is_grey_where_it_ends_is_whole(options):
    for size in ((64, 64), (65, 33)):
        check_image(encoded(Image.new("RGB", size, (128, 128, 128)), **options))


def test_too_many_scans():
    whole = jpeg("progressive").removesuffix(END)
    last = whole[whole.rindex(b"\xff\xda") :]
    with pytest.raises(UnreadableImageError, match="it has 110 scans; at most 100 are decoded"):
        check_image(whole + 100 * last + END)


def segment(marker, data):
    return bytes([0xFF, marker]) + (len(data) + 2).to_bytes(2, "big") + data


def test_a_lossless_file_is_refused_before_pillow_reduces_it():
    """Pillow's decoder writes all of its pixels into the buffer of the reduced image."""
    frame = segment(0xC3, bytes([8, 0, 64, 0, 64, 1, 1, 0x11, 0]))
    codes = segment(0xC4, bytes([0, 1, *[0] * 15, 0]))
    scan = segment(0xDA, bytes([1, 1, 0, 1, 0, 0])) + bytes(64 * 64 // 8)
    contents = b"\xff\xd8" + frame + codes + scan + b"\xff\xd9"
    with Image.open(io.BytesIO(contents)) as image:
        assert image.getextrema() == (128, 128)
    for read in (check_image, decode_image):
        with pytest.raises(UnreadableImageError, match="lossless JPEG; convert it to PNG"):
            read(contents)
