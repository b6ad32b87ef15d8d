import numpy as np
import pytest

from gsp_tf.visual import correlation_maps

IMAGES = np.full((2, 30, 20, 1), 128, np.uint8)


def pictures(figure):
    """The pictures of a figure row by row; the colour scale is the last image of its axes."""
    return [image.get_array().astype(int) for image in figure.axes[0].images[:-1]]


def test_red_is_positive_blue_is_negative_and_zero_is_the_image():
    correlations = np.zeros((2, 2, 2, 1))
    correlations[0, 0], correlations[0, 1] = 0.2, -0.2
    image, heat, other, untinted = pictures(correlation_maps(IMAGES, correlations))
    assert (image == 128).all() and (other == 128).all() and np.abs(untinted - 128).max() <= 1
    assert heat[0, 0, 0] > heat[0, 0, 2] + 80 and heat[-1, 0, 2] > heat[-1, 0, 0] + 80


def test_one_scale_for_the_figure():
    correlations = np.full((2, 3, 3, 2), 0.1)
    correlations[1] *= [4.0, -2.0]
    figure = correlation_maps(IMAGES, correlations, prototypes=[1, 0])
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == ["prototype 1", "prototype 0", "-0.40", "0", "0.40"]
    _, weak, same, _, blue, strong = (p[0, 0, 0] - p[0, 0, 2] for p in pictures(figure))
    assert 0 < weak == same < strong and blue < -weak


def test_prototypes_that_vary_most_come_first():
    ramp = np.linspace(0, 1, 9).reshape(1, 3, 3, 1)
    correlations = np.repeat(ramp * [0.5, 0.0, 0.9, 0.7] + [0, 1, 0, 0], 2, axis=0)
    texts = correlation_maps(IMAGES, correlations, count=3).axes[0].texts
    assert [t.get_text() for t in texts[:3]] == ["prototype 2", "prototype 3", "prototype 0"]


@pytest.mark.parametrize(
    "correlations", [np.zeros((2, 3, 3)), np.zeros((1, 3, 3, 2)), np.full((2, 3, 3, 1), np.nan)]
)
def test_refuses_correlations(correlations):
    with pytest.raises(ValueError, match=r"finite \(N, h, w, K\) of the 2 images; received shape"):
        correlation_maps(IMAGES, correlations)
