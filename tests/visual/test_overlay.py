import numpy as np
import pytest

from gsp_tf.visual import overlay_weights
from gsp_tf.visual.overlay import color_scale

IMAGE = np.random.default_rng(0).integers(0, 256, (30, 20, 1), np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(1, 1), (4, 3), (64, 64)])
def test_uniform_weights_leave_the_grey_image(channels, size):
    image = np.repeat(IMAGE, channels, axis=-1)
    overlay = overlay_weights(image, np.full(size, 1 / np.prod(size)))
    assert overlay.shape == (30, 20, 3) and overlay.dtype == np.uint8
    assert np.abs(overlay.astype(int) - IMAGE).max() <= 1


def test_more_weight_is_red_and_less_is_blue():
    overlay = overlay_weights(np.full((16, 16, 1), 128, np.uint8), [[1.0, 0.0], [0.0, 0.0]])
    red, _, blue = overlay.astype(int).transpose(2, 0, 1)
    assert red[0, 0] > blue[0, 0] + 80
    assert blue[-1, -1] > red[-1, -1] + 80


def test_colour_depends_on_the_ratio_to_uniform_alone():
    weights = np.array([[0.4, 0.1], [0.3, 0.2]])
    assert np.array_equal(overlay_weights(IMAGE, weights), overlay_weights(IMAGE, 7 * weights))


def test_scale_runs_from_blue_to_red():
    assert len(color_scale(5)) == 5
    assert color_scale()[0] == "#3b4cc0" and color_scale()[-1] == "#b40426"


@pytest.mark.parametrize(
    "weights, message",
    [
        (np.ones(4), r"shape \(4,\)"),
        ([[1.0, -1.0]], "1 negative or NaN"),
        ([[1.0, np.nan]], "1 negative or NaN"),
        ([[1.0, np.inf]], "finite"),
        ([[0.0, 0.0]], "positive sum"),
    ],
)
def test_refuses_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        overlay_weights(IMAGE, weights)


@pytest.mark.parametrize("image", [IMAGE / 255, IMAGE[..., 0], np.zeros((4, 4, 4), np.uint8)])
def test_refuses_images(image):
    with pytest.raises(ValueError, match=r"uint8 of shape \(H, W, 1\) or \(H, W, 3\)"):
        overlay_weights(image, np.ones((2, 2)))
