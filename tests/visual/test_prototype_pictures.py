import numpy as np
import pytest
from matplotlib.colors import to_rgb

from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.visual import attribute_histograms, dominant_prototypes
from gsp_tf.visual.style import CLASS_COLORS, transparent_figure

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 4, 50)
NAMES = ["a", "b", "c", "d"]


def histograms(dim=3):
    return RNG.dirichlet(np.ones(dim), len(LABELS))


def drawn(axes):
    heights = [bar.get_height() for bar in axes.patches]
    (spread,) = axes.collections
    return heights, [np.ptp(segment[:, 1]) / 2 for segment in spread.get_segments()]


def test_bars_are_means_and_spreads_of_each_class():
    attributes = histograms()
    figure = attribute_histograms(attributes, LABELS, NAMES, classes=[3, 1])
    assert [axes.get_title() for axes in figure.axes] == ["d", "b"]
    for axes, label in zip(figure.axes, (3, 1), strict=True):
        heights, spreads = drawn(axes)
        np.testing.assert_allclose(heights, attributes[label == LABELS].mean(axis=0))
        np.testing.assert_allclose(spreads, attributes[label == LABELS].std(axis=0))
        assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > max(np.add(heights, spreads))
        colors = [bar.get_facecolor()[:3] for bar in axes.patches]
        np.testing.assert_allclose(colors, [to_rgb(c) for c in CLASS_COLORS[:3]])


def test_long_names_are_folded():
    names = ["CANADIAN SYLLABICS NASKAPI SWA", "Greek\ncharacter07"]
    figure = attribute_histograms(np.full((2, 3), 1 / 3), [0, 1], names)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["CANADIAN SYLLABICS\nNASKAPI SWA", "Greek\ncharacter07"]


def test_a_row_for_each_model_in_a_given_figure():
    first, second = histograms(), histograms(14)
    whole = transparent_figure(8, 6)
    part = whole.subfigures(1, 2)[1]
    models = {"with": first, "without": second}
    assert attribute_histograms(models, LABELS, NAMES, count=2, figure=part) is part
    panels = np.reshape(whole.axes, (2, 2))
    assert [axes.get_ylabel() for axes in panels[:, 0]] == ["with", "without"]
    np.testing.assert_allclose(drawn(panels[1, 1])[0], second[LABELS == 1].mean(axis=0))


def test_histograms_refuse():
    with pytest.raises(ValueError, match=r"shape \(50,\) and 50 labels"):
        attribute_histograms(np.ones(50), LABELS, NAMES)
    with pytest.raises(ValueError, match=r"received \[7\] without any"):
        attribute_histograms(histograms(), LABELS, NAMES, classes=[0, 7])


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
        np.testing.assert_allclose(
            cell, np.broadcast_to(share * color + (1 - share) * 100, cell.shape), atol=1
        )


def test_maps_of_the_layer():
    pooling = GeneralizedSumPooling(num_prototypes=2, transport_ratio=0.5, entropy_smoothing=50.0)
    features = np.zeros((1, 2, 2, 3), "float32")
    features[0, 0] = [[1, 0, 0], [0, 1, 0]]
    features[0, 1] = [0, 0, -1]
    pooling.build(features.shape)
    pooling.prototypes.assign([[0, 1, 0], [1, 0, 0]])
    (picture,) = dominant_prototypes(
        np.full((1, 2, 2, 1), 90, np.uint8), pooling.attribute_maps(features)
    )
    first, second = (0.75 * 255 * np.array(to_rgb(c)) + 0.25 * 90 for c in CLASS_COLORS[:2])
    np.testing.assert_allclose(picture[0], [second, first], atol=1)
    np.testing.assert_allclose(picture[1], 90, atol=1)


@pytest.mark.parametrize(
    "maps, message",
    [
        (np.ones((2, 2, 3)), r"of the 1 images; received shape \(2, 2, 3\)"),
        (np.ones((2, 2, 2, 3)), "of the 1 images"),
        (-np.ones((1, 2, 2, 3)), "not negative"),
        (np.full((1, 2, 2, 3), np.nan), "finite"),
        (np.zeros((1, 2, 2, 3)), "positive sums"),
    ],
)
def test_maps_that_are_refused(maps, message):
    with pytest.raises(ValueError, match=message):
        dominant_prototypes(np.zeros((1, 4, 4, 1), np.uint8), maps)
