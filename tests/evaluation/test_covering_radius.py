import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.evaluation import covering_radius_curve

SEEDS = st.integers(0, 10**6)


def radius(points, centres):
    return np.linalg.norm(points[:, None] - points[list(centres)], axis=2).min(axis=1).max()


def test_by_hand():
    # From 2: 11 is farthest (9), then 6 (4), then 0 (2), then 1 (1).
    points = [[2.0], [0.0], [1.0], [6.0], [11.0]]
    assert covering_radius_curve(points, 5).tolist() == [9.0, 4.0, 2.0, 1.0, 0.0]


@settings(max_examples=20)
@given(seed=SEEDS)
def test_every_centre_is_the_point_farthest_from_those_before(seed):
    points = np.random.default_rng(seed).normal(size=(30, 3)).astype(np.float32).astype(float)
    chosen = [0]
    for _ in range(11):
        apart = np.linalg.norm(points[:, None] - points[chosen], axis=2).min(axis=1)
        chosen.append(int(apart.argmax()))
    expected = [radius(points, chosen[: k + 1]) for k in range(12)]
    np.testing.assert_allclose(covering_radius_curve(points, 12), expected, atol=1e-12)


@settings(max_examples=30)
@given(seed=SEEDS, count=st.sampled_from([1, 5, 8]))
def test_never_increases_and_is_at_most_twice_the_best(seed, count):
    points = np.random.default_rng(seed).integers(-4, 5, (count, 2)).astype(float)
    radii = covering_radius_curve(points, count)
    assert radii.shape == (count,)
    assert (np.diff(radii) <= 0).all()
    assert radii[-1] == 0
    for k in range(1, count + 1):
        best = min(radius(points, c) for c in itertools.combinations(range(count), k))
        assert radii[k - 1] <= 2 * best


@settings(max_examples=30)
@given(seed=SEEDS, scale=st.sampled_from([2.0**-99, 1.0, 2.0**99]))
def test_moves_with_the_points(seed, scale):
    rng = np.random.default_rng(seed)
    points = rng.integers(-50, 51, (25, 4)).astype(float)
    turned = points[:, rng.permutation(4)] * rng.choice([-1, 1], 4) + rng.integers(-99, 100, 4)
    curve = covering_radius_curve(points, 10)
    np.testing.assert_array_equal(covering_radius_curve(turned * scale, 10), curve * scale)


@settings(max_examples=30)
@given(seed=SEEDS)
def test_order_of_all_but_the_first_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(25, 4))
    shuffled = points[np.r_[0, 1 + rng.permutation(24)]]
    curve = covering_radius_curve(points, 10)
    np.testing.assert_array_equal(covering_radius_curve(shuffled, 10), curve)


@pytest.mark.parametrize("num_centers", [0, -1, 5])
def test_refuses_numbers_out_of_range(num_centers):
    with pytest.raises(ValueError, match=f"between 1 and 4, .* received {num_centers}"):
        covering_radius_curve(np.eye(4), num_centers)
