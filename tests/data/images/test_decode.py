import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from encoded_images import difference, encoded, exif, photo, png, says_sides
from PIL import Image, ImageOps

from gsp_tf.data import (
    EncodedImages,
    FileImages,
    UnreadableImageError,
    decode_image,
    evaluation_dataset,
    find_unreadable,
    image_size,
    read_image,
)
from gsp_tf.data.images._formats import FORMATS

COLOURS = np.array(
    [[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[9, 8, 7], [0, 0, 0], [255] * 3]], "uint8"
)


def noise():
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))


@pytest.mark.parametrize("name", ["a.bmp", "a.webp", "a.tif", "日本語 ß.png"])
def test_lossless_formats_exactly(tmp_path, name):
    path = tmp_path / name
    Image.fromarray(COLOURS).save(path, **({"lossless": True} if name == "a.webp" else {}))
    pixels = read_image(path)
    assert pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels, COLOURS)


def palette():
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 0])
    image.putpixel((1, 0), 1)
    return image


def array(values, dtype=np.uint8):
    return Image.fromarray(np.array([values], dtype))


WHITE = [255, 255, 255]
GREY_WITH_TRANSPARENT_1000 = png(
    2, 1, 16, 0, struct.pack(">xHH", 1000, 2570), (b"tRNS", struct.pack(">H", 1000))
)


@pytest.mark.parametrize(
    ("image", "options", "channels", "expected"),
    [
        (array([0, 100, 255]), {}, 1, [[0], [100], [255]]),
        (array([0, 100, 255]), {}, 3, [[0] * 3, [100] * 3, WHITE]),
        (array(COLOURS[0]), {}, 1, [[76], [150], [29]]),  # luma
        (array([True, False], bool), {}, 1, [[255], [0]]),
        (array([0, 257, 65535, 1000], np.uint16), {}, 1, [[0], [1], [255], [4]]),
        (array([0, 257, 65535, 1000], np.uint16), {}, 3, [[0] * 3, [1] * 3, WHITE, [4] * 3]),
        (array([[9, 0, 0, 255], [9, 0, 0, 0]]), {}, 3, [[9, 0, 0], WHITE]),
        (array([[100, 255], [100, 0], [0, 51]]), {}, 1, [[100], [255], [204]]),
        (palette(), {}, 3, [[10, 20, 30], [200, 100, 0]]),
        (palette(), {"transparency": 1}, 3, [[10, 20, 30], WHITE]),
        (array(COLOURS[1]), {"transparency": (9, 8, 7)}, 3, [WHITE, [0, 0, 0], WHITE]),
        (GREY_WITH_TRANSPARENT_1000, {}, 1, [[255], [10]]),
    ],
)
def test_pixels_of_every_kind(tmp_path, image, options, channels, expected):
    path = tmp_path / "a.png"
    path.write_bytes(image) if isinstance(image, bytes) else image.save(path, **options)
    assert read_image(path, channels).tolist() == [expected]


def test_cmyk():
    red = encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), quality=100)
    np.testing.assert_allclose(decode_image(red)[4, 4], [255, 0, 0], atol=3)
    np.testing.assert_allclose(decode_image(red, 1), 76, atol=3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(orientation):
    contents = encoded(Image.fromarray(COLOURS), "PNG", exif=exif(orientation))
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(contents)))
    np.testing.assert_array_equal(decode_image(contents), expected)


def test_unreadable_files(tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.jpg").write_text("not a picture")
    (tmp_path / "cut.jpg").write_bytes(encoded(noise())[:-800])
    (tmp_path / "folder.png").mkdir()
    Image.fromarray(COLOURS).save(tmp_path / "fine.png")
    broken = bytearray((tmp_path / "fine.png").read_bytes())
    broken[45] ^= 0xFF
    (tmp_path / "flipped.png").write_bytes(broken)
    reasons = {
        "missing.png": "there is no such file",
        "empty.png": "0 bytes",
        "text.jpg": "not an image",
        "cut.jpg": "truncated",
        "folder.png": "not a file",
        "flipped.png": "",
    }
    for name, reason in reasons.items():
        if name in ("missing.png", "empty.png", "text.jpg", "folder.png"):
            with pytest.raises(UnreadableImageError, match=rf"{name}: .*{reason}"):
                image_size(tmp_path / name)
        with pytest.raises(UnreadableImageError, match=rf"{name}: .*{reason}") as caught:
            read_image(tmp_path / name)
        assert caught.value.path == str(tmp_path / name)
    paths = [str(tmp_path / name) for name in ("fine.png", *reasons)]
    found = find_unreadable(paths)
    assert [error.path for error in found] == paths[1:]


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("side", "pixels"),
    [(9_460, "9,460 x 9,460 = 89,491,600 pixels"), (65_000, "more than 178,956,970 pixels")],
)
def test_an_image_that_says_it_is_large_is_refused_unread(tmp_path, side, pixels):
    (tmp_path / "a.jpg").write_bytes(says_sides(encoded(noise()), side))
    (tmp_path / "a.png").write_bytes(png(side, side, 8, 2, b""))
    said = {
        "a.png": rf"{pixels}; at most 89,478,485 are decoded",
        "a.jpg": f"it is cut off: .* bytes cannot hold {side**2:,} pixels",
    }
    assert image_size(tmp_path / "a.jpg") == (side, side)
    for name, message in said.items():
        with pytest.raises(UnreadableImageError, match=rf"{name}: .*{message}"):
            read_image(tmp_path / name)
        batches = evaluation_dataset(FileImages([tmp_path / name], [0], ["a"]), 8, batch_size=1)
        with pytest.raises(tf.errors.OpError, match=rf"{name}: .*{message}"):
            next(iter(batches))


@pytest.fixture
def small_limit(monkeypatch):
    """A limit of 3,000 pixels, in the place of one that takes seconds to reach."""
    monkeypatch.setattr("gsp_tf.data.images.decode.MAX_PIXELS", 3_000)


@pytest.mark.parametrize(
    ("size", "reduced"), [((60, 50), (60, 50)), ((61, 50), (31, 25)), ((400, 200), (50, 25))]
)
@pytest.mark.parametrize("orientation", [1, 6])
def test_a_large_jpeg_is_decoded_at_a_fraction(small_limit, size, reduced, orientation):
    picture = photo(*size)
    pixels = decode_image(encoded(picture, exif=exif(orientation), quality=95))
    expected = picture.resize(reduced, Image.Resampling.BOX)
    assert difference(pixels, np.rot90(expected, -1 if orientation == 6 else 0)) < 6


def test_the_window_of_a_large_jpeg(small_limit, monkeypatch):
    monkeypatch.setattr("gsp_tf.data.images._jpeg.MAX_PIXELS", 3_000)
    picture = photo(400, 200)
    contents = encoded(picture, quality=95)
    (batch, _), *_ = evaluation_dataset(EncodedImages([contents], [0], ["a"]), 8, batch_size=1)
    expected = picture.resize((8, 8), Image.Resampling.BOX, box=(100, 0, 300, 200))
    assert np.abs(batch[0].numpy() - expected).mean() < 8


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "a.tif"])
@pytest.mark.parametrize(("min_side", "side"), [(None, 120), (200, 120), (60, 60), (8, 8)])
def test_min_side_reduces(tmp_path, name, min_side, side):
    picture = photo(160, 120)
    picture.save(tmp_path / name, quality=95)
    pixels = read_image(tmp_path / name, min_side=min_side)
    side = 15 if (name, side) == ("a.jpg", 8) else side  # 1/8 is the least
    assert min(pixels.shape[:2]) == side
    assert difference(pixels, picture.resize(pixels.shape[1::-1], Image.Resampling.BOX)) < 6


def test_conversion_in_strips(monkeypatch, tmp_path):
    picture = photo(50, 61)
    picture.putalpha(picture.convert("L"))
    picture.save(tmp_path / "a.png")
    whole = [read_image(tmp_path / "a.png", channels, 20) for channels in (1, 3)]
    monkeypatch.setattr("gsp_tf.data.images.decode._STRIP", 200)
    for expected in whole:
        pixels = read_image(tmp_path / "a.png", expected.shape[-1], 20)
        np.testing.assert_array_equal(pixels, expected)


@pytest.mark.parametrize("extension", ["heic", "avif"])
def test_heic_and_avif(tmp_path, extension):
    picture, tags = photo(96, 64), exif(6)
    picture.save(tmp_path / f"a.{extension}", quality=95, exif=tags.tobytes())
    whole = (tmp_path / f"a.{extension}").read_bytes()
    expected = decode_image(encoded(picture, "PNG", exif=tags))
    assert difference(decode_image(whole), expected) < 3
    for length in (20, len(whole) // 2, len(whole) - 10):
        with pytest.raises(UnreadableImageError):
            decode_image(whole[:length])


@pytest.mark.parametrize(("extension", "name"), [("heic", "HEIF"), ("avif", "AVIF")])
def test_a_format_that_needs_another_installation(tmp_path, monkeypatch, extension, name):
    Image.new("RGB", (8, 8)).save(tmp_path / f"a.{extension}")
    for module in ("_formats", "decode"):
        formats = tuple(f for f in FORMATS if f != name)
        monkeypatch.setattr(f"gsp_tf.data.images.{module}.FORMATS", formats)
    with pytest.raises(UnreadableImageError, match=r"is read .* \(pip install"):
        read_image(tmp_path / f"a.{extension}")
