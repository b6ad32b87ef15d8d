import io

import numpy as np
import pytest
import tensorflow as tf
from encoded_images import ORIENTATION, big_endian_exif, difference, encoded, exif, photo
from PIL import Image

from gsp_tf.data import FileImages, decode_image, read_image
from gsp_tf.data.images._jpeg import decode_jpeg_window, is_upright_jpeg


@pytest.fixture(scope="module")
def photograph():
    return photo(160, 120, "china.jpg")


@pytest.mark.parametrize("window", [(0, 0, 120, 160), (7, 33, 50, 41), (119, 159, 1, 1)])
@pytest.mark.parametrize("options", [{}, {"subsampling": 0}, {"progressive": True}])
def test_the_pixels_are_those_of_pillow(photograph, window, options):
    contents = encoded(photograph, quality=90, **options)
    top, left, height, width = window
    whole = decode_image(contents)
    part = decode_jpeg_window(contents, lambda size: window, 10_000, channels=3)
    difference = np.abs(part.numpy().astype(int) - whole[top : top + height, left : left + width])
    # Colour at the border of a window depends on pixels beyond it, which are not decoded.
    assert difference.max() <= 12 and difference[1:-1, 1:-1].max(initial=0) == 0


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
def test_windows_of_files_of_every_kind(photograph, tmp_path, channels):
    kinds = {
        "plain.jpg": {},
        "turned.jpg": {"exif": exif(6)},
        "grey.jpg": {"convert": "L"},
        "cmyk.jpg": {"convert": "CMYK"},
        "a.png": {},
        "transparent.png": {"convert": "RGBA"},
    }
    for name, options in kinds.items():
        photograph.convert(options.pop("convert", "RGB")).save(tmp_path / name, **options)
    paths = [tmp_path / name for name in kinds]
    images = FileImages(paths, [0] * len(paths), ["a"], channels=channels)

    @tf.function
    def load(index):
        seed = tf.constant([0, 0], tf.int64)
        return images.load_window(
            index, seed, lambda size: [3, 5, size[0] - 10, size[1] - 20], 10_000
        )

    for index, path in enumerate(paths):
        expected = read_image(path, channels)[3:-7, 5:-15].astype(int)
        difference = np.abs(load(tf.constant(index, tf.int64)).numpy() - expected)
        # Grey from a colour JPEG is rounded once more, from a grey one not.
        assert difference[1:-1, 1:-1].max() <= (channels == 1), path
