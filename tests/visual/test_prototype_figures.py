import io

import numpy as np

from gsp_tf.visual import attribute_histograms, correlation_maps, partition_maps

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 4, 50)
IMAGES = np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3), np.uint8)
WHOLE = np.full((2, 30, 20, 1), 128, np.uint8)


def test_bars_are_means_and_spreads_of_each_class():
    attributes = RNG.dirichlet(np.ones(3), len(LABELS))
    figure = attribute_histograms(attributes, LABELS, list("abcd"), classes=[3, 1])
    assert [axes.get_title() for axes in figure.axes] == ["d", "b"]
    for axes, label in zip(figure.axes, (3, 1), strict=True):
        heights = [bar.get_height() for bar in axes.patches]
        (spread,) = axes.collections
        spreads = [np.ptp(segment[:, 1]) / 2 for segment in spread.get_segments()]
        np.testing.assert_allclose(heights, attributes[label == LABELS].mean(axis=0))
        np.testing.assert_allclose(spreads, attributes[label == LABELS].std(axis=0))
        assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > max(np.add(heights, spreads))


def pictures(figure):
    """The pictures of a figure row by row."""
    return [image.get_array().astype(int) for image in figure.axes[0].images]


def test_a_place_has_the_colour_of_its_prototype_and_an_image_keeps_its_luminance():
    white = np.full((1, 16, 16, 1), 255, np.uint8)
    assignments = np.array([[[0, 5], [2, 0]]])
    image, bright = pictures(partition_maps(white, assignments))
    _, dark = pictures(partition_maps(0 * white, assignments))
    assert (image == 255).all()
    corners = [bright[y, x] for y in (0, -1) for x in (0, -1)]
    assert corners[0].tolist() == corners[3].tolist()
    assert np.abs(corners[0] - corners[1]).max() > 40 and np.abs(corners[0] - corners[2]).max() > 40
    assert len(np.unique(bright.reshape(-1, 3), axis=0)) == 3
    assert (bright - dark > 60).all()


def test_colours_do_not_depend_on_the_other_prototypes_and_are_all_different():
    few = partition_maps(IMAGES[:1], np.array([[[3, 40]]]))
    many = partition_maps(IMAGES[:1], np.arange(64).reshape(1, 8, 8))
    legend = [line.get_color() for line in many.axes[0].lines]
    assert len({tuple(color) for color in legend}) == 64
    shown = [line.get_color() for line in few.axes[0].lines]
    np.testing.assert_array_equal(shown, [legend[3], legend[40]])


def test_red_is_positive_blue_is_negative_and_zero_is_the_image():
    correlations = np.zeros((2, 2, 2, 1))
    correlations[0, 0], correlations[0, 1] = 0.2, -0.2
    image, heat, other, untinted, _ = pictures(correlation_maps(WHOLE, correlations))
    assert (image == 128).all() and (other == 128).all() and np.abs(untinted - 128).max() <= 1
    assert heat[0, 0, 0] > heat[0, 0, 2] + 80 and heat[-1, 0, 2] > heat[-1, 0, 0] + 80


def test_prototypes_that_vary_most_come_first():
    ramp = np.linspace(0, 1, 9).reshape(1, 3, 3, 1)
    correlations = np.repeat(ramp * [0.5, 0.0, 0.9, 0.7] + [0, 1, 0, 0], 2, axis=0)
    texts = correlation_maps(WHOLE, correlations, count=3).axes[0].texts
    assert [t.get_text() for t in texts[:3]] == ["prototype 2", "prototype 3", "prototype 0"]


def test_names_are_not_taken_for_mathematics():
    names, attributes = [r"$\foo$", "$5 to $10"], {r"$\bar$": np.eye(2)}
    figure = attribute_histograms(attributes, [0, 1], names)
    figure.savefig(io.BytesIO())
    assert [axes.get_title() for axes in figure.axes] == names
