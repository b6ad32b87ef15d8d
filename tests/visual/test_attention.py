import numpy as np
import pytest

from gsp_tf.layers import AttentiveGrouping
from gsp_tf.visual import group_gallery, overlay_groups, overlay_weights, strongest_images

IMAGE = np.random.default_rng(0).integers(0, 256, (30, 20, 1), np.uint8)


def test_one_picture_a_group():
    features = np.random.default_rng(1).normal(size=(1, 5, 4, 8)).astype("float32")
    maps = AttentiveGrouping(3, 4, 2).attention_maps(features)[0]
    pictures = overlay_groups(IMAGE, maps)
    assert pictures.shape == (3, 30, 20, 3) and pictures.dtype == np.uint8
    for picture, weights in zip(pictures, np.moveaxis(maps, -1, 0), strict=True):
        np.testing.assert_array_equal(picture, overlay_weights(IMAGE, weights))
    assert not np.array_equal(pictures[0], pictures[1])


def test_a_group_is_red_where_it_looks():
    top_and_bottom = np.eye(2)[:, None]
    pictures = overlay_groups(np.full((16, 16, 1), 128, np.uint8), top_and_bottom)
    red_less_blue = pictures[..., 0].astype(int) - pictures[..., 2]
    assert red_less_blue[0, 0, 8] > 30 > -30 > red_less_blue[0, -1, 8]
    np.testing.assert_array_equal(pictures[1], pictures[0, ::-1])


@pytest.mark.parametrize("shape", [(4,), (4, 3), (1, 4, 3, 2)])
def test_refuses_what_is_no_stack_of_maps(shape):
    with pytest.raises(ValueError, match=r"maps must be \(h, w, groups\); received shape"):
        overlay_groups(IMAGE, np.ones(shape))


def test_the_images_of_a_group_are_those_of_its_largest_values():
    maps = np.random.default_rng(0).dirichlet(np.ones(12), (20, 3)).transpose(0, 2, 1)
    maps = maps.reshape(20, 3, 4, 3)
    chosen = strongest_images(maps, 5)
    assert chosen.shape == (3, 5)
    for group, indices in enumerate(chosen):
        largest = sorted((maps[i, ..., group].max() for i in range(20)), reverse=True)[:5]
        assert [maps[i, ..., group].max() for i in indices] == largest
    assert strongest_images(maps).shape == (3, 12)
    assert strongest_images(maps, 99).shape == (3, 20)


def test_every_picture_of_the_gallery_is_an_image_or_its_map():
    images = np.random.default_rng(1).integers(0, 256, (6, 40, 20, 1), np.uint8)
    maps = np.random.default_rng(2).dirichlet(np.ones(8), (6, 2)).transpose(0, 2, 1)
    maps = maps.reshape(6, 4, 2, 2)
    drawn = group_gallery(images, maps, count=3).axes[0].images
    assert len(drawn) == 2 * 2 * 3
    chosen = strongest_images(maps, 3)
    for number, index in enumerate(chosen.ravel()):
        image, overlay = (drawn[2 * number + i].get_array() for i in (0, 1))
        np.testing.assert_array_equal(image, np.repeat(images[index], 3, axis=-1))
        expected = overlay_groups(images[index], maps[index])[number // 3]
        np.testing.assert_array_equal(overlay, expected)


def test_the_gallery_refuses_maps_of_other_images():
    with pytest.raises(ValueError, match=r"maps must be \(N, h, w, groups\); received shape"):
        strongest_images(np.ones((4, 3, 2)))
    with pytest.raises(ValueError, match="maps must be of the 1 images; received 2 maps"):
        group_gallery(IMAGE[None], np.ones((2, 3, 3, 2)))
