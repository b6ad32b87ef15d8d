import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from gsp_tf.evaluation import _cells, distances_of_pairs, joined_groups, near_duplicate_groups


def are_together(groups):
    """Matrix `(N, N)` of pairs in one group; each embedding is with itself."""
    return (groups[:, None] == groups) & (groups >= 0) | np.eye(len(groups), dtype=bool)


def connected(near):
    """The pairs that a chain of near pairs joins."""
    return are_together(connected_components(near, directed=False)[1])


def use_small_cells(patch):
    """Few embeddings have cells, and few are compared at once."""
    patch.setattr(_cells, "_FEWEST", 8)
    patch.setattr(_cells, "_BLOCK", 16)
    patch.setattr(_cells, "_MOST_COMPARED", 40)


@pytest.fixture
def small_cells(monkeypatch):
    use_small_cells(monkeypatch)


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 120),
    st.integers(1, 6),
    st.integers(0, 4),
    st.sampled_from(["euclidean", "cosine"]),
)
def test_groups_are_those_of_all_pairs(seed, count, dim, distance, metric):
    rng = np.random.default_rng(seed)
    embeddings = rng.integers(-4, 5, (count, dim)).astype("float32")
    if metric == "euclidean":
        near = cdist(embeddings, embeddings) <= distance
        embeddings = 1000 + 0.5 * embeddings  # far from the origin, as many embeddings are
        distance = 0.5 * distance
    else:
        lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
        units = embeddings / np.where(lengths, lengths, 1)
        distance = 0.05 * distance + 1e-6
        near = 1 - units @ units.T.astype("float64") <= distance
        near |= cdist(embeddings, embeddings) == 0  # zero vectors too
    with pytest.MonkeyPatch.context() as patch:
        use_small_cells(patch)
        found = near_duplicate_groups(embeddings, distance, metric, most_cells=1000)
    assert found.recall == 1
    np.testing.assert_array_equal(are_together(found.groups), connected(near))
    first = [np.flatnonzero(found.groups == group)[0] for group in range(found.count)]
    assert first == sorted(first) and all(np.bincount(found.groups[found.groups >= 0]) > 1)


def test_a_search_of_few_cells_says_what_it_finds(small_cells):
    embeddings = np.random.default_rng(0).normal(size=(900, 3)).astype("float32")
    near = np.triu(cdist(embeddings, embeddings) <= 0.4, 1)
    found = np.zeros_like(near)
    for rows in _cells.Cells(embeddings, "euclidean", 1, 0).pairs_within(0.4):
        found[rows] = True
    assert near[found].all()
    share = near_duplicate_groups(embeddings, 0.4, most_cells=1).recall
    assert share == pytest.approx(found.sum() / near.sum(), abs=0.1) and share < 0.9
    # Pairs that are far nearer than their cells are wide need no further cells.
    assert near_duplicate_groups(embeddings, 1e-4, most_cells=12).recall == 1


def test_pairs_of_nearly_equal_directions_are_found(small_cells):
    noise = 1e-4 * np.random.default_rng(0).normal(size=(600, 8))
    embeddings = (1 + noise).astype("float32")
    units = embeddings / np.linalg.norm(embeddings.astype("float64"), axis=1, keepdims=True)
    distances = cdist(units, units, "sqeuclidean") / 2  # 1 - cos
    distance = np.partition(distances[np.triu_indices(600, 1)], [199, 200])[199:201].mean()
    found = near_duplicate_groups(embeddings, distance, "cosine", most_cells=1000)
    assert found.recall == 1
    np.testing.assert_array_equal(are_together(found.groups), connected(distances <= distance))


def test_an_outlier_first_costs_no_pair():
    """Vectors are differences from the first embedding, so all others are far from zero."""
    rng = np.random.default_rng(0)
    embeddings = 3000 + rng.normal(size=(6000, 16)).astype("float32")
    embeddings[3001:] = embeddings[1:3000] + rng.choice([-0.0625, 0.0625], size=(2999, 16))
    embeddings[0] = 0
    found = near_duplicate_groups(embeddings, 0.2625)
    assert found.recall == 1 and found.count == 2999
    np.testing.assert_array_equal(found.groups[1:3000], found.groups[3001:])


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_distances_of_pairs(metric):
    embeddings = np.random.default_rng(3).normal(size=(40, 5)).astype("float32")
    rows = np.random.default_rng(4).integers(0, 40, (2, 100))
    expected = cdist(embeddings.astype(float), embeddings.astype(float), metric)[tuple(rows)]
    found = distances_of_pairs(embeddings, *rows, metric)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_copies_are_grouped_at_distance_0(metric):
    points = np.random.default_rng(0).normal(size=(30, 64)) + 100
    groups = near_duplicate_groups(np.concatenate([points, points]), 0.0, metric).groups
    np.testing.assert_array_equal(groups, np.arange(60) % 30)


def test_joined_groups_are_connected():
    rng = np.random.default_rng(2)
    parts = rng.integers(-1, 15, (2, 60))
    near = are_together(parts[0]) | are_together(parts[1])
    np.testing.assert_array_equal(are_together(joined_groups(*parts)), connected(near))


@pytest.mark.parametrize("scale", [1e-40, 1.0])
def test_a_distance_far_beyond_all_embeddings_joins_them(scale):
    embeddings = scale * np.arange(12.0).reshape(6, 2)
    assert near_duplicate_groups(embeddings, 1e30).groups.tolist() == [0] * 6
