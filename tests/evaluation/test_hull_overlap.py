import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from gsp_tf.evaluation import hull_overlap

SEEDS = st.integers(0, 10**6)
TRIANGLE = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])


def separated(one, other):
    """Separating axes of polygons: whether an edge of either has all of the other outside."""
    return any(
        (points @ hull.equations[:, :-1].T + hull.equations[:, -1] > 0).all(axis=0).any()
        for hull, points in ((ConvexHull(one), other), (ConvexHull(other), one))
    )


@settings(max_examples=30)
@given(seed=SEEDS, spread=st.sampled_from([0.5, 1.0, 2.0]))
def test_polygons_overlap_unless_an_edge_separates_them(seed, spread):
    rng = np.random.default_rng(seed)
    classes = rng.normal(size=(4, 6, 2)) + spread * rng.normal(size=(4, 1, 2))
    classes = classes.astype("float32").astype(float)
    expected = [not separated(a, b) for a, b in itertools.combinations(classes, 2)]
    assert hull_overlap(classes.reshape(-1, 2), np.repeat(range(4), 6)) == np.mean(expected)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ([[1.0, 1.0]], 1.0),  # a point inside
        ([[3.0, 3.0]], 0.0),  # outside, though in the bounding box
        ([[0.5, -1.0], [0.5, 9.0]], 1.0),  # a segment through it, its ends outside
        ([[9.0, -4.0], [-1.0, 9.0]], 0.0),  # a segment past it
        (TRIANGLE / 4 + 0.5, 1.0),  # a triangle inside
        (TRIANGLE, 1.0),
    ],
)
def test_by_hand(other, expected):
    points = np.concatenate([TRIANGLE, other])
    labels = [0] * 3 + [1] * len(other)
    assert hull_overlap(points, labels) == expected
    assert hull_overlap(points * 1e-4 + 0.25, labels) == expected


def test_linked_in_the_plane_but_not_in_space():
    crossing = np.array([[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0]], float)
    assert hull_overlap(crossing, [0, 0, 1, 1]) == 1.0
    crossing[2:, 2] = 0.1
    assert hull_overlap(crossing, [0, 0, 1, 1]) == 0.0
