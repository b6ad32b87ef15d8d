import numpy as np
import pytest
from matplotlib.colors import to_rgb

from gsp_tf.visual import dominant_prototypes, draw_matches, overlay_groups, overlay_weights
from gsp_tf.visual._style import CLASS_COLORS

RNG = np.random.default_rng(0)
IMAGE = RNG.integers(0, 256, (30, 20, 1), np.uint8)
GREY = np.full((40, 40, 3), 128, np.uint8)


@pytest.mark.parametrize(("size", "channels"), [((1, 1), 1), ((4, 3), 3), ((64, 64), 1)])
def test_uniform_weights_leave_the_grey_image(channels, size):
    image = np.repeat(IMAGE, channels, axis=-1)
    overlay = overlay_weights(image, np.full(size, 1 / np.prod(size)))
    assert overlay.shape == (30, 20, 3) and overlay.dtype == np.uint8
    assert np.abs(overlay.astype(int) - IMAGE).max() <= 1


def test_colour_depends_on_the_ratio_to_uniform_alone():
    weights = np.array([[0.4, 0.1], [0.3, 0.2]])
    assert np.array_equal(overlay_weights(IMAGE, weights), overlay_weights(IMAGE, 7 * weights))


def test_one_picture_per_group():
    maps = np.random.default_rng(1).dirichlet(np.ones(20), 3).T.reshape(5, 4, 3)
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


@pytest.mark.parametrize("channels", [1, 3])
def test_places_have_the_colour_of_their_prototype(channels):
    images = np.full((2, 12, 10, channels), 100, np.uint8)
    maps = RNG.uniform(0, 0.1, (2, 3, 2, 12))
    winners = RNG.integers(0, 12, (2, 3, 2))
    np.put_along_axis(maps, winners[..., None], 0.5, axis=-1)
    pictures = dominant_prototypes(images, maps)
    assert pictures.shape == (2, 12, 10, 3) and pictures.dtype == np.uint8
    weights = maps.sum(axis=-1)
    for i, row, column in np.ndindex(winners.shape):
        share = 0.75 * min(1, weights[i, row, column] / weights[i].mean())
        color = 255 * np.array(to_rgb(CLASS_COLORS[winners[i, row, column]]))
        cell = pictures[i, 4 * row : 4 * row + 4, 5 * column : 5 * column + 5]
        assert np.abs(cell - (share * color + (1 - share) * 100)).max() <= 1


def test_lines_join_the_centres_of_matched_cells():
    plan = np.zeros((2, 3))
    plan[0, 2], plan[1, 0] = 0.3, 0.1  # cells 0 and 7, and cells 3 and 1
    picture = draw_matches(GREY, GREY, plan, [0, 3], [1, 2, 7], grid=(4, 2), pixels=160)
    assert picture.shape == (160, 160 + 20 + 160, 3)
    colored = (picture.max(-1).astype(int) - picture.min(-1)) > 20
    start, end = (20, 40), (140, 180 + 120)  # rows and columns of cell 0 and cell 7
    top = 80 - round(0.15 * 260), 170  # of an arc
    for y, x in (start, end, top):
        assert colored[y, x]
    assert colored[60, 120] and colored[20, 180 + 120]  # cells 3 and 1
    few = draw_matches(GREY, GREY, plan, [0, 3], [1, 2, 7], grid=(4, 2), lines=1, pixels=160)
    is_new = (few.max(-1).astype(int) - few.min(-1)) > 20
    assert is_new[start] and not is_new[60, 120]
    none = draw_matches(GREY, GREY, 0 * plan, [0, 3], [1, 2, 7], grid=(4, 2), pixels=160)
    assert np.ptp(none.astype(int), axis=-1).max() == 0  # no colours
