import warnings

import numpy as np
import pytest
from clusters import around_centres
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.visual import class_hulls, embedding_map, inline_svg, project
from gsp_tf.visual.plane import _hull_vertices


@pytest.mark.parametrize("each", [2, 30])
def test_projection_keeps_clusters_and_repeats(each, monkeypatch):
    monkeypatch.setattr("gsp_tf.visual.plane._ITERATIONS", 1000)  # as outside of the tests
    embeddings, labels = around_centres(3, each, dim=8, spread=0.1)
    points = project(embeddings, seed=1)
    assert points.shape == (3 * each, 2)
    assert np.array_equal(points, project(embeddings, seed=1))
    distances = np.linalg.norm(points[:, None] - points, axis=2) + np.diag([np.inf] * len(points))
    assert (labels[distances.argmin(axis=1)] == labels).all()


@pytest.mark.parametrize("shape", [(1, 4), (2, 1), (40, 1)])
def test_projection_of_little(shape):
    points = project(np.random.default_rng(0).normal(size=shape))
    assert points.shape == (shape[0], 2) and np.isfinite(points).all()


def test_coincident_embeddings_still_make_a_map():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points = project(np.ones((40, 5)))
        figure = embedding_map(points, np.arange(40) % 4, np.zeros((40, 6, 6, 1), np.uint8))
        assert inline_svg(figure).startswith("<svg")


def crossed(corners, point):
    """Twice the signed areas that a point spans with the sides of a polygon."""
    sides = np.roll(corners, -1, axis=0) - corners
    offsets = point - corners
    return sides[:, 0] * offsets[:, 1] - sides[:, 1] * offsets[:, 0]


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(3, 12))
def test_a_hull_holds_its_points_and_their_average(seed, count):
    points = np.random.default_rng(seed).normal(size=(count, 2))
    corners = _hull_vertices(points)
    assert {tuple(corner) for corner in corners} <= {tuple(point) for point in points}
    for point in (*points, points.mean(axis=0)):
        assert (crossed(corners, point) >= -1e-12).all()


def test_hulls_are_those_of_the_features():
    points = np.array([[1.0, 1.0], [5.0, 5.0]])
    features = np.array([[0, 0], [4, 0], [0, 4], [1, 1], [5, 4], [5, 6]])
    figure = class_hulls(points, [3, 8], features, [3, 3, 3, 3, 8, 8])
    triangle, segment = (patch.get_xy()[:-1] for patch in figure.axes[0].patches)
    assert {tuple(corner) for corner in triangle} == {(0, 0), (4, 0), (0, 4)}
    assert segment.tolist() == [[5, 4], [5, 6]]
    drawn = [scatter.get_offsets().tolist() for scatter in figure.axes[0].collections]
    assert drawn == [[[1, 1]], [[5, 5]]]
