import io

import numpy as np
import pytest
import tensorflow as tf
from encoded_images import ORIENTATION, big_endian_exif, difference, encoded, exif, photo
from PIL import Image

from gsp_tf.data import (
    EncodedImages,
    FileImages,
    UnreadableImageError,
    check_image,
    decode_image,
    read_image,
)
from gsp_tf.data.images._jpeg import decode_jpeg_window, is_upright_jpeg


@pytest.fixture(scope="module")
def photograph():
    return photo(160, 120, "china.jpg")


@pytest.mark.parametrize(
    ("min_side", "shape"),
    [(97, (96, 128)), (48, (48, 64)), (33, (48, 64)), (24, (24, 32)), (3, (12, 16))],
)
def test_a_part_comes_reduced_as_far_as_its_sides_allow(photograph, min_side, shape):
    contents = encoded(photograph, quality=95)
    part = decode_jpeg_window(contents, lambda size: [16, 24, 96, 128], min_side, channels=3)
    expected = photograph.resize(shape[::-1], Image.Resampling.BOX, box=(24, 16, 152, 112))
    assert difference(part.numpy(), expected) < 4


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned_images_are_left_to_pillow(photograph, orientation):
    turned = orientation != 1
    assert is_upright_jpeg(encoded(photograph, exif=exif(orientation))) == (not turned)
    for is_long in (False, True):
        tags = big_endian_exif(orientation, is_long)
        whole = encoded(photograph, exif=tags)
        before = b"\xff\xed" + (60_000).to_bytes(2, "big") + bytes(59_998)  # of Photoshop
        for contents in (whole, whole[:2] + before + whole[2:]):
            assert Image.open(io.BytesIO(contents)).getexif()[ORIENTATION] == orientation
            assert is_upright_jpeg(contents) == (not turned)


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_only_what_is_before_the_frame_turns_an_image(photograph, mode):
    upright = encoded(photograph.convert(mode))
    later = upright[:-2] + bytes(2**14) + big_endian_exif(6, False) + upright[-2:]
    assert ORIENTATION not in Image.open(io.BytesIO(later)).getexif()
    assert is_upright_jpeg(later)


def test_other_files_are_left_to_pillow(photograph):
    whole = encoded(photograph)
    for contents in (whole, encoded(photograph.convert("L"))):
        assert is_upright_jpeg(contents)
    turned = encoded(photograph, xmp=b'<x tiff:Orientation="6"/>')
    others = encoded(photograph.convert("CMYK")), encoded(photograph, "PNG"), turned
    for contents in (*others, whole[:-50], b"", b"\xff\xd8"):
        assert not is_upright_jpeg(contents), contents[:60]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("source", [FileImages, EncodedImages])
def test_windows_of_files_of_every_kind(photograph, tmp_path, source, channels):
    kinds = {
        "plain.jpg": {},
        "progressive.jpg": {"progressive": True},
        "turned.jpg": {"exif": exif(6)},
        "grey.jpg": {"convert": "L"},
        "cmyk.jpg": {"convert": "CMYK"},
        "a.png": {},
        "transparent.png": {"convert": "RGBA"},
    }
    for name, options in kinds.items():
        picture = photograph.convert(options.pop("convert", "RGB"))
        picture.save(tmp_path / name, quality=90, **options)
    paths = [tmp_path / name for name in kinds]
    files = paths if source is FileImages else [path.read_bytes() for path in paths]
    images = source(files, [0] * len(paths), ["a"], channels=channels)

    @tf.function
    def load(index):
        seed = tf.constant([0, 0], tf.int64)
        return images.load_window(
            index, seed, lambda size: [3, 5, size[0] - 10, size[1] - 20], 10_000
        )

    for index, path in enumerate(paths):
        whole = read_image(path, channels)
        np.testing.assert_array_equal(images.image(index), whole)
        window = load(tf.constant(index, tf.int64)).numpy().astype(int)
        difference = np.abs(window - whole[3:-7, 5:-15])
        # Grey from a colour JPEG is rounded once more, from a grey one not. Colour at the border of
        # a window depends on pixels beyond it, which are not decoded.
        assert difference.max() <= 12 and difference[1:-1, 1:-1].max() <= (channels == 1), path


END = b"\xff\xd9"
KINDS = {
    "baseline": {},
    "grey": {"convert": "L"},
    "cmyk": {"convert": "CMYK"},
    "full colour": {"subsampling": 0},
    "restarts": {"restart_marker_blocks": 3},
    "progressive": {"progressive": True},
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
