import numpy as np
import pytest

from gsp_tf.visual import partition_maps

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3), np.uint8)


def pictures(figure):
    return [image.get_array().astype(int) for image in figure.axes[0].images]


def test_a_place_has_the_colour_of_its_prototype_and_an_image_keeps_its_luminance():
    white = np.full((1, 16, 16, 1), 255, np.uint8)
    assignments = np.array([[[0, 5], [2, 0]]])
    (image, bright), (_, dark) = (
        pictures(partition_maps(i, assignments)) for i in (white, 0 * white)
    )
    assert (image == 255).all()
    corners = [bright[y, x] for y in (0, -1) for x in (0, -1)]
    assert corners[0].tolist() == corners[3].tolist()
    assert np.abs(corners[0] - corners[1]).max() > 40 and np.abs(corners[0] - corners[2]).max() > 40
    assert len(np.unique(bright.reshape(-1, 3), axis=0)) == 3
    assert (bright - dark > 60).all()


def test_bars_are_the_histograms():
    assignments = np.array([[[0, 0], [0, 7]], [[7, 7], [7, 7]]])
    figure = partition_maps(IMAGES, assignments)
    assert [bar.get_width() for bar in figure.axes[0].patches] == [0.75, 0.25, 1.0]
    colors = [bar.get_facecolor() for bar in figure.axes[0].patches]
    assert colors[1] == colors[2] != colors[0]


def test_colours_do_not_depend_on_the_other_prototypes_and_are_all_different():
    few = partition_maps(IMAGES[:1], np.array([[[3, 40]]]))
    many = partition_maps(IMAGES[:1], np.arange(64).reshape(1, 8, 8))
    legend = [line.get_color() for line in many.axes[0].lines]
    assert len({tuple(color) for color in legend}) == 64
    shown = [line.get_color() for line in few.axes[0].lines]
    np.testing.assert_array_equal(shown, [legend[3], legend[40]])


def test_images_keep_their_shape():
    figure = partition_maps(IMAGES, np.zeros((2, 2, 3), int))
    width, height = figure.get_size_inches()
    axes = figure.axes[0]
    inches_a_unit = width / np.ptp(axes.get_xlim()), height / np.ptp(axes.get_ylim())
    assert inches_a_unit[0] == pytest.approx(inches_a_unit[1])
    for image in axes.images:
        left, right, bottom, top = image.get_extent()
        assert (bottom - top) / (right - left) == pytest.approx(20 / 30)


@pytest.mark.parametrize("shape", [(2, 4), (1, 2, 2), (2, 2, 2, 1)])
def test_refuses_assignments_of_another_shape(shape):
    with pytest.raises(ValueError, match=r"\(N, h, w\) of the 2 images; received shape"):
        partition_maps(IMAGES, np.zeros(shape, int))


def test_refuses_assignments_that_are_no_indices():
    with pytest.raises(ValueError, match="non-negative"):
        partition_maps(IMAGES, np.full((2, 2, 2), -1))
    with pytest.raises(TypeError, match="integers; received dtype float64"):
        partition_maps(IMAGES, np.zeros((2, 2, 2)))
