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
    assert np.asarray(WeldonPooling(2, 1)(np.full((1, 5, 1), 2.0))) == [[6.0]]


def test_nan_is_not_hidden():
    features = np.random.default_rng(1).normal(size=(3, 20, 4)).astype("float32")
    for k_max, k_min in [(3, 3), (1, 0), (30, 30)]:
        features[1, 7, 2] = np.nan
        pooled = np.asarray(WeldonPooling(k_max, k_min)(features))
        np.testing.assert_array_equal(np.argwhere(np.isnan(pooled)), [[1, 2]])
        mask = np.arange(20) != 7
        there = WeldonPooling(k_max, k_min)(features, mask=np.tile(mask, (3, 1)))
        assert np.isfinite(np.asarray(there)).all()


def test_infinity_is_not_hidden():
    features = np.zeros((1, 9, 2), "float32")
    features[0, 3] = [np.inf, -np.inf]
    np.testing.assert_array_equal(WeldonPooling(2, 2)(features), [[np.inf, -np.inf]])
