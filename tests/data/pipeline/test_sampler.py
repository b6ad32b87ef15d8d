import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.data import ClassBalancedSampler


def take(sampler, count):
    return list(itertools.islice(sampler, count))


@settings(max_examples=50)
@given(
    counts=st.lists(st.integers(2, 6), min_size=2, max_size=12),
    data=st.data(),
    images_per_class=st.integers(1, 5),
    seed=st.integers(0, 100),
)
def test_batches(counts, data, images_per_class, seed):
    classes_per_batch = data.draw(st.integers(1, len(counts)))
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)) * 7, counts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = ClassBalancedSampler(labels, classes_per_batch, images_per_class, seed)
    batches = take(sampler, 2 * len(counts))
    visits = np.zeros(len(counts), int)
    for batch in batches:
        assert batch.dtype == np.int64
        assert batch.shape == (classes_per_batch * images_per_class,)
        by_class = batch.reshape(classes_per_batch, images_per_class)
        drawn = labels[by_class]
        assert (drawn == drawn[:, :1]).all()
        assert len(np.unique(drawn[:, 0])) == classes_per_batch
        for label, members in zip(drawn[:, 0] // 7, by_class, strict=True):
            visits[label] += 1
            if counts[label] >= images_per_class:
                assert len(set(members.tolist())) == images_per_class
        assert visits.max() - visits.min() <= 2
    assert (visits == 2 * classes_per_batch).all()
    np.testing.assert_array_equal(batches, take(sampler, len(batches)))


def test_seed_changes_the_sequence():
    labels = np.repeat(np.arange(10), 4)
    first, second = (take(ClassBalancedSampler(labels, 5, 2, seed), 3) for seed in (0, 1))
    assert not np.array_equal(first, second)


def test_single_images_are_refused_where_pairs_are_needed():
    labels = [0, 0, 3, 5, 5, 9]
    with pytest.raises(
        ValueError, match=r"single one: 3, 9\. Drop these classes or set images_per_class"
    ):
        ClassBalancedSampler(labels, 2, 2, seed=0)
    with pytest.raises(ValueError, match="single one: class 3, class 9. Drop"):
        ClassBalancedSampler(labels, 2, 2, 0, class_names=[f"class {i}" for i in range(10)])
    assert len(take(ClassBalancedSampler(labels, 4, 1, seed=0), 1)[0]) == 4


@pytest.mark.parametrize(
    ("labels", "shape", "message"),
    [
        ([0, 0, 1, 1], (3, 2), "at most the number of classes, 2; received 3"),
        ([0, 0, 1, 1], (0, 2), "at least 1, received"),
        ([0, 0, 1, 1], (2, 0), "at least 1, received"),
        ([], (1, 1), "non-empty vector of integers"),
        ([[0, 1]], (1, 1), "non-empty vector of integers"),
        ([0.5, 1.5], (1, 1), "non-empty vector of integers"),
    ],
)
def test_refuses(labels, shape, message):
    with pytest.raises(ValueError, match=message):
        ClassBalancedSampler(labels, *shape, seed=0)


def test_batches_in_any_order():
    labels = np.repeat(np.arange(7), 3)
    expected = take(ClassBalancedSampler(labels, 5, 2, seed=3), 41)
    sampler = ClassBalancedSampler(labels, 5, 2, seed=3)
    for number in (0, 40, 7, 8, 8, 0, 1):
        np.testing.assert_array_equal(sampler.batch(number), expected[number])
    with pytest.raises(ValueError, match="number must not be negative, received -1"):
        sampler.batch(-1)
    np.testing.assert_array_equal(sampler.batch(0), expected[0])


def test_cycles_show_every_image_once_before_any_again():
    """64 images in batches of 4 x 4: each pass of 4 batches shows every image once."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(8), 8))
    sampler = ClassBalancedSampler(labels, 4, 4, seed=3, cycle_images=True)
    passes = [np.concatenate([sampler.batch(4 * p + i) for i in range(4)]) for p in range(5)]
    for shown in passes:
        assert sorted(shown.tolist()) == list(range(64))
    assert len({tuple(shown.tolist()) for shown in passes}) == 5
    for number in (17, 0, 18):  # whatever was asked for before
        again = ClassBalancedSampler(labels, 4, 4, seed=3, cycle_images=True).batch(number)
        np.testing.assert_array_equal(sampler.batch(number), again)


@pytest.mark.parametrize("sizes", [(3, 5, 8, 2, 7), (4, 4, 9, 1000, 6)])
def test_each_class_cycles_through_its_own_images(sizes):
    labels = np.repeat(np.arange(5), sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = ClassBalancedSampler(labels, 2, 4, seed=0, cycle_images=True)
    shown = np.concatenate([sampler.batch(number) for number in range(60)])
    for label, size in enumerate(sizes):
        own = shown[labels[shown] == label]
        for start in range(0, len(own), size):
            part = own[start : start + size]
            assert len(set(part.tolist())) == len(part)
    for number in range(60):  # a large enough class has no image twice in a batch
        batch = sampler.batch(number)
        for label in set(labels[batch].tolist()):
            own = batch[labels[batch] == label]
            assert len(own) == 4 and (sizes[label] < 4 or len(set(own.tolist())) == 4)
