import io
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from gsp_tf.data import (
    FileImages,
    UnreadableImageError,
    evaluation_dataset,
    find_unreadable,
    read_image,
)

COLOURS = np.array(
    [[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[9, 8, 7], [0, 0, 0], [255] * 3]], "uint8"
)


def png_chunk(kind, content):
    body = kind + content
    return len(content).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def jpeg_bytes(size=(64, 64)):
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    Image.fromarray(noise).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "name", ["a.png", "a.bmp", "a.webp", "a.tif", "with space.png", "日本語 ß.png"]
)
def test_lossless_formats_exactly(tmp_path, name):
    path = tmp_path / name
    Image.fromarray(COLOURS).save(path, **({"lossless": True} if name == "a.webp" else {}))
    pixels = read_image(path)
    assert pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels, COLOURS)


def test_jpeg(tmp_path):
    Image.new("RGB", (16, 8), (200, 100, 50)).save(tmp_path / "a.jpg", quality=95)
    pixels = read_image(tmp_path / "a.jpg")
    assert pixels.shape == (8, 16, 3)
    np.testing.assert_allclose(pixels.astype(int), np.full((8, 16, 3), (200, 100, 50)), atol=3)


def test_gif_gives_the_first_frame(tmp_path):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert (read_image(tmp_path / "a.gif") == [255, 0, 0]).all()


def test_grey_becomes_rgb(tmp_path):
    grey = np.array([[0, 100], [200, 255]], np.uint8)
    Image.fromarray(grey).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), np.stack([grey] * 3, -1))
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", channels=1), grey[..., None])


def test_rgb_becomes_grey_by_luma(tmp_path):
    Image.fromarray(COLOURS).save(tmp_path / "a.png")
    grey = read_image(tmp_path / "a.png", channels=1)
    assert grey[0, :, 0].tolist() == [76, 150, 29]


def test_one_bit(tmp_path):
    bits = np.array([[True, False], [False, True]])
    Image.fromarray(bits).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", 1)[..., 0], bits * np.uint8(255))


def test_sixteen_bit_grey_is_scaled(tmp_path):
    values = np.array([[0, 257, 128 * 257], [65535, 1000, 65278]], np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    expected = np.rint(values / 257).astype(np.uint8)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", 1)[..., 0], expected)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", 3)[..., 2], expected)


def test_transparent_sixteen_bit_grey_turns_white(tmp_path):
    header = (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes([16, 0, 0, 0, 0])
    row = b"\0" + (1000).to_bytes(2, "big") + (2570).to_bytes(2, "big")
    (tmp_path / "a.png").write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", header)
        + png_chunk(b"tRNS", (1000).to_bytes(2, "big"))
        + png_chunk(b"IDAT", zlib.compress(row))
        + png_chunk(b"IEND", b"")
    )
    assert read_image(tmp_path / "a.png", 1).ravel().tolist() == [255, 10]


def test_alpha_is_composited_on_white(tmp_path):
    pixels = np.array([[[255, 0, 0, 255], [255, 0, 0, 0], [0, 0, 0, 51]]], np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").tolist() == [[[255, 0, 0], [255] * 3, [204] * 3]]


def test_grey_with_alpha(tmp_path):
    pixels = np.array([[[100, 255], [100, 0], [0, 51]]], np.uint8)
    Image.fromarray(pixels, "LA").save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png", 1).ravel().tolist() == [100, 255, 204]


def test_palette(tmp_path):
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 0])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "plain.png")
    image.save(tmp_path / "transparent.png", transparency=1)
    assert read_image(tmp_path / "plain.png").tolist() == [[[10, 20, 30], [200, 100, 0]]]
    assert read_image(tmp_path / "transparent.png").tolist() == [[[10, 20, 30], [255] * 3]]


def test_transparent_colour_of_an_rgb_png(tmp_path):
    Image.fromarray(COLOURS).save(tmp_path / "a.png", transparency=(9, 8, 7))
    pixels = read_image(tmp_path / "a.png")
    assert pixels[1, 0].tolist() == [255] * 3
    np.testing.assert_array_equal(pixels[0], COLOURS[0])


def test_cmyk(tmp_path):
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "a.tif")
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=100)
    assert (read_image(tmp_path / "a.tif") == [255, 0, 0]).all()
    np.testing.assert_allclose(read_image(tmp_path / "a.jpg")[4, 4], [255, 0, 0], atol=3)
    assert (read_image(tmp_path / "a.tif", 1) == 76).all()


@pytest.mark.parametrize(
    ("orientation", "expected"),
    [
        (1, COLOURS),
        (2, COLOURS[:, ::-1]),
        (3, COLOURS[::-1, ::-1]),
        (6, np.rot90(COLOURS, -1)),
        (8, np.rot90(COLOURS, 1)),
    ],
)
def test_exif_orientation(tmp_path, orientation, expected):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(COLOURS).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), expected)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_32_bit_pixels_are_refused(tmp_path, dtype):
    Image.fromarray(np.ones((2, 2), dtype)).save(tmp_path / "a.tif")
    with pytest.raises(UnreadableImageError, match="32-bit.*accepted are 8-bit"):
        read_image(tmp_path / "a.tif")


def test_unreadable_files(tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.jpg").write_text("not a picture")
    (tmp_path / "cut.jpg").write_bytes(jpeg_bytes()[:-800])
    (tmp_path / "head.jpg").write_bytes(jpeg_bytes()[:10])
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
        "head.jpg": "",
        "folder.png": "not a file",
        "flipped.png": "",
    }
    for name, reason in reasons.items():
        with pytest.raises(UnreadableImageError, match=rf"{name}: .*{reason}") as caught:
            read_image(tmp_path / name)
        assert caught.value.path == str(tmp_path / name)
        assert reason in caught.value.reason
    paths = [str(tmp_path / name) for name in ("fine.png", *reasons)]
    found = find_unreadable(paths)
    assert [error.path for error in found] == paths[1:]
    assert isinstance(found[0], ValueError)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("side", "pixels"),
    [(9_460, "9,460 x 9,460 = 89,491,600 pixels"), (65_000, "more than 178,956,970 pixels")],
)
def test_an_image_that_says_it_is_large_is_refused_unread(tmp_path, side, pixels):
    jpeg, sides = jpeg_bytes(), side.to_bytes(2, "big") * 2
    frame = jpeg.index(b"\xff\xc0")
    (tmp_path / "a.jpg").write_bytes(jpeg[: frame + 5] + sides + jpeg[frame + 9 :])
    header = (side.to_bytes(4, "big") * 2) + bytes([8, 2, 0, 0, 0])
    png = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", b"")
    (tmp_path / "a.png").write_bytes(png)
    said = rf"{pixels}; at most 89,478,485 are decoded"
    for name in ("a.jpg", "a.png"):
        with pytest.raises(UnreadableImageError, match=rf"{name}: .*{said}"):
            read_image(tmp_path / name)
        batches = evaluation_dataset(FileImages([tmp_path / name], [0], ["a"]), 8, batch_size=1)
        with pytest.raises(tf.errors.OpError, match=rf"{name}: .*{said}"):
            next(iter(batches))


def test_channels_must_be_1_or_3(tmp_path):
    with pytest.raises(ValueError, match="1 or 3; received 4"):
        read_image(tmp_path / "a.png", channels=4)
