import numpy as np
import pytest

from gsp_tf.layers import AttentiveGrouping
from gsp_tf.visual import overlay_groups, overlay_weights

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
