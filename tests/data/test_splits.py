"""Divisions into classes: random splits, and the protocols of the benchmarks."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.data import ArrayImages, halve_classes, protocol_classes, split_classes


def images_of(groups):
    names = [f"{group} {i}" for i, group in enumerate(groups)]
    return ArrayImages(np.zeros((len(names), 1, 1, 1), np.uint8), range(len(names)), names, groups)


def test_super_classes_are_split_alike():
    groups = [f"super {i}" for i in range(16) for _ in range(5)]
    train, validation, test = split_classes(images_of(groups), (0.4, 0.2, 0.4), seed=3)
    assert set(Counter(train.groups).values()) == {2}
    assert set(Counter(validation.groups).values()) == {1}
    assert set(Counter(test.groups).values()) == {2}


def test_the_seed_decides_the_split():
    images = images_of(["x"] * 20)
    same, again, other = (split_classes(images, seed=s)[0].class_names for s in (0, 0, 1))
    assert same == again != other


@pytest.mark.parametrize(
    ("num_classes", "fractions", "expected"),
    [
        (6, (0.5, 0.1, 0.4), [2, 2, 2]),
        (8, (0.5, 0.1, 0.4), [3, 2, 3]),
        (9, (0.02, 0.96, 0.02), [2, 5, 2]),
        (4, (0.9, 0.0, 0.1), [2, 0, 2]),
    ],
)
def test_a_small_fraction_is_two_classes(num_classes, fractions, expected):
    parts = split_classes(images_of(["x"] * num_classes), fractions)
    assert [len(part.class_names) if part else 0 for part in parts] == expected


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    shares=st.tuples(*[st.integers(1, 10)] * 3),
    seed=st.integers(0, 1000),
)
def test_every_group_is_spread_in_proportion(sizes, shares, seed):
    sizes = [*sizes, 60]
    fractions = [share / sum(shares) for share in shares]
    images = images_of([f"g{i}" for i, size in enumerate(sizes) for _ in range(size)])
    parts = split_classes(images, fractions, seed)
    names = sum((part.class_names for part in parts), ())
    assert sorted(names) == sorted(images.class_names)  # each once
    for part, fraction in zip(parts, fractions, strict=True):
        assert abs(len(part.class_names) - fraction * sum(sizes)) <= 1
        counts = Counter(part.groups)
        for i, size in enumerate(sizes):
            assert abs(counts[f"g{i}"] - fraction * size) <= 2 + 0.1 * size


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
