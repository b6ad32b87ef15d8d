import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.data import ArrayImages, CanvasImages, EncodedImages, FileImages

OBJECTS = ArrayImages(
    np.broadcast_to(np.arange(200, 240, dtype=np.uint8)[:, None, None, None], (40, 6, 9, 1)),
    np.arange(40) % 4,
    list("abcd"),
)
TILES = ArrayImages(
    np.broadcast_to(np.arange(100, dtype=np.uint8)[:, None, None, None], (100, 4, 4, 1)),
    np.zeros(100, int),
    ["clutter"],
)


@pytest.mark.parametrize(("share", "side"), [(1.0, 20), (0.7, 17), (0.4, 13), (0.01, 2)])
def test_the_image_covers_its_share_and_tiles_the_rest(share, side):
    canvases = CanvasImages(OBJECTS, TILES, 20, share)
    assert canvases.object_side == side
    for index in (0, 39):
        image = canvases.image(index)[..., 0]
        assert image.shape == (20, 20)
        (mask,) = canvases.foreground_masks([index])
        np.testing.assert_array_equal(image >= 200, mask)
        assert mask.sum() == side**2
        assert (image[mask] == 200 + index).all()
        for row in range(0, 20, 4):
            for column in range(0, 20, 4):
                tile = image[row : row + 4, column : column + 4]
                assert len(set(tile[tile < 200])) <= 1


def test_an_image_has_one_canvas_whatever_the_draw_and_the_subset():
    canvases = CanvasImages(OBJECTS, TILES, 20, 0.4, seed=3)
    first = canvases.read(6, (0, 6))
    np.testing.assert_array_equal(canvases.read(6, (5, 77)), first)
    part = canvases.subset([3, 2])
    place = np.flatnonzero(np.flatnonzero(canvases.labels >= 2) == 6)[0]
    assert part.class_names == ("d", "c")
    np.testing.assert_array_equal(part.image(place), first)
    np.testing.assert_array_equal(part.subset([1]).image(place // 2), first)
    np.testing.assert_array_equal(part.foreground_masks([place]), canvases.foreground_masks([6]))
    other = CanvasImages(OBJECTS, TILES, 20, 0.4, seed=4)
    assert any((other.image(i) != canvases.image(i)).any() for i in range(3))


def test_identities_change_with_the_picture(tmp_path):
    path = tmp_path / "1.png"
    path.write_bytes(tf.io.encode_png(np.zeros((4, 4, 1), np.uint8)).numpy())
    files = FileImages([path] * 2, [0, 1], ["a", "b"], channels=1)

    def made(images=files, tiles=TILES, side=9, share=0.4, seed=0):
        return CanvasImages(images, tiles, side, share, seed)

    known = made().identity(1)
    assert made().identity(1) == made().subset([1]).identity(0) == known
    others = [made(side=8), made(share=0.5), made(seed=1)]
    changed = ArrayImages(np.where(TILES.images == 7, 8, TILES.images), TILES.labels, ["clutter"])
    others += [made(tiles=changed), made(images=OBJECTS)]
    assert known not in {other.identity(1) for other in others}
    assert made().identity(0) != known
    path.write_bytes(path.read_bytes() + b"changed")
    assert made().identity(1) != known


def test_places_are_uniform_and_differ_between_images():
    pixels = np.zeros((900, 2, 2, 1), np.uint8)
    canvases = CanvasImages(ArrayImages(pixels, [0] * 900, ["a"]), TILES, 6, 0.45)
    counts = canvases.foreground_masks().mean(axis=0)  # 3 x 3 places of a side of 4
    np.testing.assert_allclose(counts[0], [1 / 9, 2 / 9, 1 / 3, 1 / 3, 2 / 9, 1 / 9], atol=0.06)
    np.testing.assert_allclose(counts, counts.T, atol=0.06)


def test_compressed_colour_images_keep_their_places_in_a_subset():
    rng = np.random.default_rng(0)
    photographs = [
        tf.io.encode_jpeg(
            rng.integers(0, 256, (40, 50 + i, 3), np.uint8), quality=95, chroma_downsampling=False
        ).numpy()
        for i in range(4)
    ]
    images = EncodedImages(photographs, [0, 0, 1, 1], ["a", "b"])
    tiles = ArrayImages(rng.integers(0, 256, (9, 8, 8, 3), np.uint8), [0] * 9, ["clutter"])
    canvases = CanvasImages(images, tiles, 30, 0.3, seed=1).subset([1, 0])
    plain = CanvasImages(images, tiles, canvases.object_side, 1.0).subset([1, 0])
    for index in range(4):
        canvas, (mask,) = canvases.image(index), canvases.foreground_masks([index])
        assert canvas.dtype == np.uint8
        shown = plain.image(index).reshape(-1, 3)
        np.testing.assert_array_equal(canvas[mask], shown)


def test_masks_of_other_images_are_refused():
    with pytest.raises(IndexError, match=r"in \[0, 40\); received \[40\]"):
        CanvasImages(OBJECTS, TILES, 20, 0.4).foreground_masks([40])
