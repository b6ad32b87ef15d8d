import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.evaluation import ensemble as order
from gsp_tf.evaluation.ensemble import _padded_width, _ranked_flags, _smallest_columns


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**16),
    count=st.integers(1, 60),
    values=st.sampled_from([2, 10, 1000]),
    data=st.data(),
)
def test_columns_hold_the_k_smallest(seed, count, values, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "_GROUPS", 8)
        width = _padded_width(count)
        assert count < width <= count + 8 and width % 8 == 0
        k = data.draw(st.integers(1, count))
        rng = np.random.default_rng(seed)
        distances = np.full((3, width), np.inf, np.float32)
        distances[:, :count] = rng.integers(0, values, (3, count)) / 7
        columns = _smallest_columns(distances, k)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    assert all(set(row) >= set(first) for row, first in zip(columns, nearest, strict=True))
    assert all(len(set(row)) == len(row) for row in columns)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**16), width=st.integers(1, 300), data=st.data())
def test_flags_in_the_order_of_distance_and_column(seed, width, data):
    k = data.draw(st.integers(1, width))
    rng = np.random.default_rng(seed)
    distances = (rng.integers(0, 40, (2, 3, width)) * 1e-3).astype(np.float32)
    distances[rng.random(distances.shape) < 0.1] = np.inf
    columns = rng.permutation(2**31 - 1 - np.arange(width))
    flags = rng.random((3, width)) < 0.5
    ranked = _ranked_flags(distances, columns, flags, k)
    for i, j in np.ndindex(2, 3):
        expected = np.lexsort([columns, distances[i, j]])[:k]
        np.testing.assert_array_equal(ranked[i, j], flags[j, expected])
