import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.data import ArrayImages, CollageImages, collage_splits

SIZE = 3


def flat(values, groups=None):
    """Tiles of one grey value each, one class per tile."""
    values = np.asarray(values, np.uint8)
    pixels = np.broadcast_to(values[:, None, None, None], (len(values), SIZE, SIZE, 1))
    return ArrayImages(pixels, range(len(values)), [str(v) for v in values], groups)


def tiles_of(image, grid):
    return image.reshape(grid, SIZE, grid, SIZE).transpose(0, 2, 1, 3).reshape(grid * grid, -1)


def grouped(num_groups=10, classes=10):
    return flat(
        range(num_groups * classes), [f"g{i // classes}" for i in range(num_groups * classes)]
    )


@pytest.mark.parametrize("grid", [1, 2, 3])
def test_exactly_one_tile_is_of_the_label(grid):
    collages = CollageImages(flat([101, 102, 103]), flat([1, 2, 3, 4, 5]), grid)
    assert len(collages) == 3
    assert collages.class_names == ("101", "102", "103")
    for index in range(3):
        image = collages.image(index)
        assert image.shape == (grid * SIZE, grid * SIZE, 1)
        tiles = tiles_of(image, grid)
        assert (tiles == tiles[:, :1]).all()
        (place,) = np.flatnonzero(tiles[:, 0] > 100)
        assert tiles[place, 0] == 101 + index
        assert set(np.delete(tiles[:, 0], place)) <= {1, 2, 3, 4, 5}
        (mask,) = collages.foreground_masks([index])
        assert mask.shape == (grid, grid) and mask.sum() == 1
        assert mask[divmod(place, grid)]


def test_masks_of_all_collages():
    collages = CollageImages(flat([100] * 9), flat(range(5)), 2)
    masks = collages.foreground_masks()
    assert masks.shape == (9, 2, 2) and masks.dtype == bool
    for image, mask in zip(map(collages.image, range(9)), masks, strict=True):
        np.testing.assert_array_equal(image[::SIZE, ::SIZE, 0] == 100, mask)
    np.testing.assert_array_equal(collages.foreground_masks([8, 3]), masks[[8, 3]])
    with pytest.raises(IndexError, match=r"in \[0, 9\); received \[9\]"):
        collages.foreground_masks([1, 9])


def test_evaluation_is_fixed_and_training_varies():
    collages = CollageImages(flat([100] * 2), flat(range(50)), 3)
    np.testing.assert_array_equal(collages.image(0), collages.image(0))
    index = tf.constant(0, tf.int64)
    drawn = {collages.load(index, tf.constant([7, i])).numpy().tobytes() for i in range(20)}
    assert len(drawn) == 20


def test_places_and_background_are_uniform():
    collages = CollageImages(flat([100]), flat(range(5)), 2)
    load = tf.function(lambda i: collages.load(tf.constant(0), tf.stack([1, i])))
    draws = [tiles_of(load(tf.constant(i)).numpy(), 2)[:, 0] for i in range(800)]
    places = np.bincount([np.flatnonzero(tiles == 100)[0] for tiles in draws], minlength=4)
    clutter = np.bincount(
        [value for tiles in draws for value in tiles if value != 100], minlength=5
    )
    np.testing.assert_allclose(places / 800, 1 / 4, atol=0.06)
    np.testing.assert_allclose(clutter / 2400, 1 / 5, atol=0.04)


def test_subset_keeps_the_background():
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
    roles = [
        set(getattr(part, role).class_names)
        for part in parts
        for role in ("foreground", "background")
    ]
    assert sum(map(len, roles)) == len(set().union(*roles)) == 100
    foreground_groups = set().union(*(part.foreground.groups for part in parts))
    background = set().union(*(part.background.groups for part in parts))
    assert len(background) == 2
    assert not foreground_groups & background
    if background_groups:
        assert background == set(background_groups)
    for part in parts:
        assert set(part.foreground.groups) == foreground_groups
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
    assert (
        by_group[0].class_names == by_group[2].class_names == tuple(f"g{i}" for i in range(2, 10))
    )
