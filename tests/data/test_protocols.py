import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsp_tf.data import halve_classes, protocol_classes


def test_halves_of_the_benchmarks():
    for num_classes in (200, 196):  # CUB-200-2011, Cars196
        train, test = halve_classes(num_classes)
        np.testing.assert_array_equal(train, np.arange(num_classes // 2))
        np.testing.assert_array_equal(test, np.arange(num_classes // 2, num_classes))


@given(num_classes=st.integers(8, 300), num_folds=st.integers(2, 4))
def test_every_class_validates_in_one_fold_and_trains_in_the_others(num_classes, num_folds):
    folds = [protocol_classes("mlrc", num_classes, f, num_folds) for f in range(num_folds)]
    for train, validation in folds:
        np.testing.assert_array_equal(np.union1d(train, validation), np.arange(num_classes))
        assert not set(train) & set(validation)
        assert (np.diff(validation) == 1).all()
    validation = np.concatenate([part for _, part in folds])
    np.testing.assert_array_equal(validation, np.arange(num_classes))
    sizes = [len(part) for _, part in folds]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("protocol", "sizes"),
    [("ablation", (67, 33)), ("tuning", (80, 20)), ("conventional", (100, 0))],
)
def test_parts_of_the_training_half(protocol, sizes):
    train, validation = protocol_classes(protocol, 100)
    assert (len(train), len(validation)) == sizes
    np.testing.assert_array_equal(np.concatenate([train, validation]), np.arange(100))
