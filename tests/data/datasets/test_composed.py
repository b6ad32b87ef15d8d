"""Images made of images: canvases with clutter around an image, and collages of tiles."""

import numpy as np
import pytest
from encoded_images import encoded, photo
from miniatures import save_image

from gsp_tf.data import (
    ArrayImages,
    CanvasImages,
    CollageImages,
    EncodedImages,
    FileImages,
    collage_splits,
)


def greys(values, height, width):
    """Images of one grey value each."""
    values = np.asarray(values, np.uint8)[:, None, None, None]
    return np.broadcast_to(values, (len(values), height, width, 1))


OBJECTS = ArrayImages(greys(range(200, 240), 6, 9), np.arange(40) % 4, list("abcd"))
TILES = ArrayImages(greys(range(100), 4, 4), [0] * 100, ["clutter"])


def tiles_of(image, grid):
    side = len(image) // grid
    return image.reshape(grid, side, grid, side).transpose(0, 2, 1, 3).reshape(grid * grid, -1)


@pytest.mark.parametrize(("share", "side"), [(1.0, 20), (0.7, 17), (0.4, 13), (0.01, 2)])
def test_the_image_covers_its_share_and_tiles_the_rest(share, side):
    canvases = CanvasImages(OBJECTS, TILES, 20, share)
    assert canvases.object_side == side
    for index, mask in zip((0, 39), canvases.foreground_masks([0, 39]), strict=True):
        image = canvases.image(index)[..., 0]
        assert image.shape == (20, 20)
        np.testing.assert_array_equal(image >= 200, mask)
        assert mask.sum() == side**2
        assert (image[mask] == 200 + index).all()
        for tile in tiles_of(image, 5):
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


def test_the_identity_of_a_canvas_changes_with_the_picture(tmp_path):
    path = tmp_path / "1.png"
    save_image(path)
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


def test_places_on_canvases_are_uniform_and_differ_between_images():
    pixels = np.zeros((900, 2, 2, 1), np.uint8)
    canvases = CanvasImages(ArrayImages(pixels, [0] * 900, ["a"]), TILES, 6, 0.45)
    counts = canvases.foreground_masks().mean(axis=0)  # 3 x 3 places of a side of 4
    np.testing.assert_allclose(counts[0], [1 / 9, 2 / 9, 1 / 3, 1 / 3, 2 / 9, 1 / 9], atol=0.06)
    np.testing.assert_allclose(counts, counts.T, atol=0.06)


def test_compressed_colour_images_keep_their_places_in_a_subset():
    photographs = [encoded(photo(50 + i, 40)) for i in range(4)]
    images = EncodedImages(photographs, [0, 0, 1, 1], ["a", "b"])
    pixels = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 3), np.uint8)
    tiles = ArrayImages(pixels, [0] * 9, ["clutter"])
    canvases = CanvasImages(images, tiles, 30, 0.3, seed=1).subset([1, 0])
    plain = CanvasImages(images, tiles, canvases.object_side, 1.0).subset([1, 0])
    for index, mask in enumerate(canvases.foreground_masks()):
        shown = canvases.image(index)[mask]
        np.testing.assert_array_equal(shown, plain.image(index).reshape(-1, 3))


SIZE = 3


def flat(values, groups=None):
    """Tiles of one grey value each, one class per tile."""
    pixels = greys(values, SIZE, SIZE)
    return ArrayImages(pixels, range(len(values)), list(map(str, values)), groups)


def grouped(num_groups=10, classes=10):
    numbers = range(num_groups * classes)
    return flat(numbers, [f"g{i // classes}" for i in numbers])


@pytest.mark.parametrize("grid", [1, 2, 3])
def test_exactly_one_tile_is_of_the_label(grid):
    collages = CollageImages(flat([101, 102, 103]), flat([1, 2, 3, 4, 5]), grid)
    assert len(collages) == 3
    assert collages.class_names == ("101", "102", "103")
    masks = collages.foreground_masks()
    assert masks.shape == (3, grid, grid) and masks.dtype == bool
    np.testing.assert_array_equal(collages.foreground_masks([2, 0]), masks[[2, 0]])
    for index, mask in enumerate(masks):
        image = collages.image(index)
        assert image.shape == (grid * SIZE, grid * SIZE, 1)
        tiles = tiles_of(image, grid)
        assert (tiles == tiles[:, :1]).all()
        (place,) = np.flatnonzero(tiles[:, 0] > 100)
        assert tiles[place, 0] == 101 + index
        assert set(np.delete(tiles[:, 0], place)) <= {1, 2, 3, 4, 5}
        assert np.flatnonzero(mask).tolist() == [place]


def test_places_in_collages_and_their_background_are_uniform():
    collages = CollageImages(flat([100]), flat(range(5)), 2)
    draws = [tiles_of(collages.read(0, (1, i)), 2)[:, 0] for i in range(800)]
    places = np.bincount([np.flatnonzero(tiles == 100)[0] for tiles in draws], minlength=4)
    shown = np.concatenate(draws)
    clutter = np.bincount(shown[shown != 100], minlength=5)
    np.testing.assert_allclose(places / 800, 1 / 4, atol=0.06)
    np.testing.assert_allclose(clutter / 2400, 1 / 5, atol=0.04)


def test_a_subset_of_collages_keeps_the_background():
    collages = CollageImages(flat([101, 102, 103]), flat([1, 2]), 2)
    part = collages.subset([2, 0])
    assert part.class_names == ("103", "101")
    assert part.labels.tolist() == [1, 0]
    assert part.image(1).max() == 103
    assert part.background is collages.background
    assert part.grid == 2


@pytest.mark.parametrize("background_groups", [None, ["g3", "g7"]])
def test_splits_are_disjoint(background_groups):
    parts = collage_splits(grouped(), background_groups, (0.4, 0.2, 0.4), grid=2, seed=5)
    used = [name for p in parts for of in (p.foreground, p.background) for name in of.class_names]
    assert len(used) == len(set(used)) == 100
    foreground, background = (set(of.groups) for of in (parts[0].foreground, parts[0].background))
    assert len(background) == 2 and not foreground & background
    assert background_groups is None or background == set(background_groups)
    for part in parts:
        assert set(part.foreground.groups) == foreground
        assert set(part.background.groups) == background
        assert part.grid == 2


def test_without_groups_a_fifth_of_the_classes_is_background():
    train, validation, test = collage_splits(flat(range(100)), fractions=(0.4, 0.2, 0.4))
    assert len(train.background.class_names) == 8
    assert len(validation.background.class_names) == 4
    assert len(test.foreground.class_names) == 32


def test_labels_by_super_class_are_the_same_in_every_part():
    tiles = grouped()
    by_class = collage_splits(tiles, ["g0", "g1"], (0.5, 0.1, 0.4), seed=3)
    by_group = collage_splits(tiles, ["g0", "g1"], (0.5, 0.1, 0.4), seed=3, label="super_class")
    for fine, coarse in zip(by_class, by_group, strict=True):
        np.testing.assert_array_equal(fine.foreground.images, coarse.foreground.images)
        names = [coarse.class_names[label] for label in coarse.labels]
        assert names == [fine.groups[label] for label in fine.labels]
    names = tuple(f"g{i}" for i in range(2, 10))
    assert by_group[0].class_names == by_group[2].class_names == names
