import numpy as np
from matplotlib.colors import to_hex

from gsp_tf.visual import group_gallery, neighbour_gallery, overlay_groups, strongest_images
from gsp_tf.visual._style import HIT, MISS


def test_gallery_marks_hits_and_misses_by_colour_line_and_sign():
    images = np.random.default_rng(0).integers(0, 256, (6, 10, 10, 3), np.uint8)
    labels, found = np.array([0, 0, 1, 1, 2, 2]), [[1, 2], [4, 3]]
    figure = neighbour_gallery(images, labels, [0, 2], found, [[0.1, 0.2], [0.3, 0.4]])
    captions = [text.get_text() for text in figure.axes[0].texts]
    assert captions == ["query", "✓ 0.10", "✗ 0.20", "query", "✗ 0.30", "✓ 0.40"]
    frames = figure.axes[0].patches
    assert to_hex(frames[1].get_edgecolor()) == HIT and frames[1].get_linestyle() == "solid"
    assert to_hex(frames[2].get_edgecolor()) == MISS and frames[2].get_linestyle() != "solid"


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
