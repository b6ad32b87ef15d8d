import numpy as np
import pytest

from gsp_tf.layers import WeldonPooling


@pytest.mark.parametrize(("k_max", "k_min"), [(1, 0), (2, 3), (6, 6), (9, 4)])
def test_adds_the_largest_and_the_smallest(k_max, k_min):
    features = np.random.default_rng(0).normal(size=(2, 2, 3, 4)).astype("float32")
    pooled = WeldonPooling(k_max, k_min)(features)
    for row, channel in np.ndindex(2, 4):
        values = sorted(features[row, ..., channel].ravel())
        expected = sum(values[::-1][:k_max]) + sum(values[:k_min])
        assert float(pooled[row, channel]) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_equal_values_count_once_each():
    assert WeldonPooling(2, 1)(np.full((1, 5, 1), 2.0)).numpy() == [[6.0]]


@pytest.mark.parametrize("numbers", [(0, 3), (1.5, 3), (3, -1)])
def test_refuses_numbers_out_of_range(numbers):
    with pytest.raises(ValueError, match=f"received {numbers[0]} and {numbers[1]}"):
        WeldonPooling(*numbers)
