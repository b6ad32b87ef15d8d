import numpy as np
import pytest
from gradients import compiled, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from gsp_tf.ops import greedy_k_center


@pytest.mark.parametrize(("k", "jit_compile"), [(0, False), (1, None), (2, None), (1, True)])
def test_equals_the_authors_selection(oracle, k, jit_compile):
    case = oracle("k_center")
    pool, initial, selected = (case[f"k{k}_{name}"] for name in ("pool", "initial", "selected"))
    run = compiled(lambda a, b: greedy_k_center(a, b, selected.shape[1]), jit_compile)
    indices = np.asarray(run(pool, initial))
    assert indices.dtype == np.int32
    np.testing.assert_array_equal(np.take_along_axis(pool, indices[..., None], 1), selected)


@pytest.mark.equation("thesis", "Algorithm 2", "ops.greedy_k_center")
@settings(max_examples=examples(12))
@given(
    pool_size=st.integers(1, 12),
    centers=st.integers(0, 4),
    dim=st.sampled_from([1, 2, 5, 12]),
    seed=st.integers(0, 10_000),
    data=st.data(),
)
def test_each_choice_is_the_farthest_point(pool_size, centers, dim, seed, data):
    k = data.draw(st.integers(1, pool_size))
    rng = np.random.default_rng(seed)
    # Small integers: distances are exact, and ties are common. Small pools take another way.
    pool = rng.integers(0, 4, (pool_size, dim)).astype("float32")
    current = rng.integers(0, 4, (centers, dim)).astype("float32")
    indices = np.asarray(greedy_k_center(pool, current, k))
    assert len(set(indices)) == k
    chosen = []
    for index in indices:
        distances = cdist(pool, current).min(1) if len(current) else np.full(pool_size, np.inf)
        distances[chosen] = -1
        assert index == distances.argmax()
        chosen.append(index)
        current = np.concatenate([current, pool[[index]]])


@pytest.mark.parametrize("scale", [1e19, 1e30, 1e38])
def test_squares_of_large_points_do_not_overflow(scale):
    pool = scale * np.array([[0.0, 0.0], [1.0, 0.0], [-3.0, 0.5], [2.0, 1.0]], "float32")
    centers = scale * np.array([[0.8, 0.0]], "float32")
    assert np.asarray(greedy_k_center(pool, centers, 4)).tolist() == [2, 3, 0, 1]
