import warnings

import numpy as np
import pytest
from matplotlib.colors import to_hex

from gsp_tf.visual import embedding_map, neighbour_gallery, project, training_curves
from gsp_tf.visual.images import inline_svg
from gsp_tf.visual.style import HIT, MISS


def clusters(classes, each, dim=8, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    return rng.normal(size=(classes, dim))[labels] * 10 + rng.normal(
        size=(len(labels), dim)
    ), labels


def test_gallery_marks_hits_and_misses_by_colour_line_and_sign():
    images = np.random.default_rng(0).integers(0, 256, (6, 10, 10, 3), np.uint8)
    figure = neighbour_gallery(
        images, np.array([0, 0, 1, 1, 2, 2]), [0, 2], [[1, 2], [4, 3]], [[0.1, 0.2], [0.3, 0.4]]
    )
    captions = [text.get_text() for text in figure.axes[0].texts]
    assert captions == ["query", "✓ 0.10", "✗ 0.20", "query", "✗ 0.30", "✓ 0.40"]
    frames = figure.axes[0].patches
    assert to_hex(frames[1].get_edgecolor()) == HIT and frames[1].get_linestyle() == "solid"
    assert to_hex(frames[2].get_edgecolor()) == MISS and frames[2].get_linestyle() != "solid"


@pytest.mark.parametrize("each", [2, 30])
def test_projection_keeps_clusters_and_repeats(each):
    embeddings, labels = clusters(3, each)
    points = project(embeddings, seed=1)
    assert points.shape == (3 * each, 2)
    assert np.array_equal(points, project(embeddings, seed=1))
    distances = np.linalg.norm(points[:, None] - points, axis=2) + np.diag([np.inf] * len(points))
    assert (labels[distances.argmin(axis=1)] == labels).all()


@pytest.mark.parametrize("shape", [(1, 4), (2, 1), (40, 1), (40, 2)])
def test_projection_of_little(shape):
    points = project(np.random.default_rng(0).normal(size=shape))
    assert points.shape == (shape[0], 2) and np.isfinite(points).all()


def test_coincident_embeddings_still_make_a_map():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points = project(np.ones((40, 5)))
        figure = embedding_map(points, np.arange(40) % 4, np.zeros((40, 6, 6, 1), np.uint8))
        assert inline_svg(figure).startswith("<svg")


def test_map_draws_one_picture_a_class_unless_covered():
    images = np.zeros((4, 8, 16, 3), np.uint8)
    apart = embedding_map([[0, 0], [1, 0], [9, 9], [8, 9]], [0, 0, 1, 1], images)
    assert len(apart.axes[0].images) == 2
    together = embedding_map([[0, 0], [9, 9], [0, 0], [9, 9]], [0, 0, 1, 1], images)
    assert len(together.axes[0].images) == 1
    points = [line for line in together.axes[0].lines if line.get_marker() != "None"]
    assert [line.get_marker() for line in points] == ["o", "s"]


def test_curves_have_a_panel_a_quantity_and_a_line_a_run():
    histories = [
        {"loss": [2, 1], "val_loss": [3, 2], "val_map_at_r": [0.1, 0.2], "learning_rate": [1, 1]},
        {"loss": [2.5], "val_map_at_r": [0.3], "val_recall_at_2": [0.5], "val_other": [0.4]},
        {},
    ]
    figures = training_curves(histories)
    assert list(figures) == ["Loss", "MAP@R (%)", "other"]
    assert [len(figure.axes[0].lines) for figure in figures.values()] == [3, 2, 1]
    loss, validation, _ = figures["Loss"].axes[0].lines
    assert loss.get_color() == validation.get_color()
    assert loss.get_linestyle() != validation.get_linestyle()
    assert figures["MAP@R (%)"].axes[0].lines[0].get_ydata().tolist() == [10, 20]


def test_curves_pass_over_what_is_not_finite():
    history = {"loss": [1.0, np.nan, np.inf, 0.5], "val_map_at_r": [np.nan], "val_nmi": [None]}
    figures = training_curves([history])
    assert list(figures) == ["Loss"]
    assert figures["Loss"].axes[0].lines[0].get_xdata().tolist() == [1, 4]


def test_svg_is_inline_and_takes_the_text_colour_of_the_page():
    svg = inline_svg(training_curves([{"loss": [1.0, 2.0]}])["Loss"])
    assert svg.startswith("<svg") and "<metadata" not in svg and "currentColor" in svg
