import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.data import (
    ArrayImages,
    ClassBalancedSampler,
    FixedTripletSampler,
    NearestClassSampler,
    SuperClassSampler,
    TrainingView,
    WeightedSampler,
    sampled_dataset,
)
from gsp_tf.evaluation import nearest_neighbours


def in_any_order(sampler, count=9):
    """The first batches, which are the same in any order."""
    batches = [sampler.batch(number) for number in range(count)]
    for number in (count - 1, 0, 3, 2, 2):
        np.testing.assert_array_equal(sampler.batch(number), batches[number])
    for again, batch in zip(sampler, batches, strict=False):
        assert batch.dtype == np.int64 and batch.shape == (sampler.batch_size,)
        np.testing.assert_array_equal(again, batch)
    return batches


@pytest.mark.filterwarnings("ignore:.* have fewer than")
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
    sampler = ClassBalancedSampler(labels, classes_per_batch, images_per_class, seed)
    visits = np.zeros(len(counts), int)
    for batch in in_any_order(sampler, 2 * len(counts)):
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


def test_single_images_are_drawn_where_no_pairs_are_needed():
    assert len(ClassBalancedSampler([0, 0, 3, 5, 5, 9], 4, 1, seed=0).batch(0)) == 4


@pytest.mark.filterwarnings("ignore:.* have fewer than")
@pytest.mark.parametrize("sizes", [(3, 5, 8, 2, 7), (4, 4, 9, 1000, 6)])
def test_each_class_cycles_through_its_own_images(sizes):
    labels = np.repeat(np.arange(5), sizes)
    sampler = ClassBalancedSampler(labels, 2, 4, seed=0, cycle_images=True)
    batches = in_any_order(sampler, 60)
    shown = np.concatenate(batches)
    for label, size in enumerate(sizes):
        own = shown[labels[shown] == label]
        for start in range(0, len(own), size):
            part = own[start : start + size]
            assert len(set(part.tolist())) == len(part)
        assert size < 5 or not np.array_equal(own[:size], own[size : 2 * size])
    for batch in batches:  # a large enough class has no image twice in a batch
        for label in set(labels[batch].tolist()):
            own = batch[labels[batch] == label]
            assert len(own) == 4 and (sizes[label] < 4 or len(set(own.tolist())) == 4)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 5), min_size=2, max_size=6),
    data=st.data(),
    repeats=st.integers(1, 3),
    seed=st.integers(0, 100),
)
def test_super_classes_and_their_classes_are_visited_evenly(sizes, data, repeats, seed):
    per_batch = data.draw(st.integers(1, len(sizes)))
    rng = np.random.default_rng(seed)
    super_classes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    labels = rng.permutation(np.repeat(np.arange(len(super_classes)), 3))
    sampler = SuperClassSampler(labels, super_classes, per_batch, 2, 3, seed, repeats)
    visits, before = np.zeros(len(super_classes), int), None
    for number, batch in enumerate(in_any_order(sampler, 4 * len(sizes))):
        by_class = labels[batch].reshape(per_batch, 2, 3)
        assert len(set(batch.tolist())) == len(batch)
        assert (by_class == by_class[:, :, :1]).all() and len(np.unique(by_class)) == 2 * per_batch
        kinds = super_classes[by_class[:, :, 0]]
        assert (kinds == kinds[:, :1]).all() and len(np.unique(kinds)) == per_batch
        if number % repeats:
            assert set(kinds[:, 0]) == before
        before = set(kinds[:, 0])
        visits[np.unique(by_class)] += 1
    for kind in range(len(sizes)):
        of_kind = visits[super_classes == kind]
        assert of_kind.max() - of_kind.min() <= 1
    of_kinds = np.bincount(super_classes, visits)
    assert of_kinds.max() - of_kinds.min() <= 2 * 2 * repeats


def look_alikes(seed, num_pairs=6):
    """Labels and embeddings of classes, of which 2i and 2i + 1 are near each other."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(2 * num_pairs), 4))
    centers = np.repeat(10.0 * rng.normal(size=(num_pairs, 8)), 2, axis=0)
    return labels, centers[labels] + 0.3 * rng.normal(size=(len(labels), 8))


def test_a_class_comes_with_its_nearest_class():
    labels, embeddings = look_alikes(0)
    indices, distances = nearest_neighbours(embeddings, k=7)
    sampler = NearestClassSampler(labels, indices, 4, 2, seed=0)
    visits = Counter()
    for batch in in_any_order(sampler, 30):
        first = labels[batch].reshape(4, 2)[:, 0]
        assert (first[0::2] // 2 == first[1::2] // 2).all() and len(set(first)) == 4
        visits.update(first.tolist())
    assert len(visits) == 12 and max(visits.values()) <= 2 * min(visits.values())
    # Nothing is near enough to be mined and far enough to be no duplicate: any classes come.
    limit = {"distances": distances, "min_distance": distances.max() + 1}
    far = NearestClassSampler(labels, indices, 4, 2, seed=0, **limit)
    assert any(len({*labels[b] // 2}) > 2 for b in in_any_order(far))


def test_near_duplicates_are_no_hard_negatives():
    labels, embeddings = look_alikes(1)
    twin = np.flatnonzero(labels == 9)  # copies of class 0 under another label
    embeddings[twin] = embeddings[labels == 0] + 1e-4
    indices, distances = nearest_neighbours(embeddings, k=11)

    def partners(**limit):
        sampler = NearestClassSampler(labels, indices, 2, 2, seed=0, distances=distances, **limit)
        batches = [set(labels[batch].tolist()) for batch in in_any_order(sampler, 60)]
        return {frozenset(batch - {0}) for batch in batches if 0 in batch}

    assert {9} in partners() and {1} in partners(min_distance=0.01)
    # Class 9 is as near to 0 as 1 is, by its other images.
    limit = {"distances": distances, "min_distance": 0.01, "num_nearest": 2}
    strongest = NearestClassSampler(labels, indices, 2, 2, seed=0, **limit)
    assert any(0 in labels[batch] for batch in in_any_order(strongest, 20))


@pytest.mark.parametrize("missing", [-1, -(2**31)])
def test_missing_neighbours_do_not_count(missing):
    labels = np.repeat(np.arange(3), 2)
    neighbours = np.full((6, 2), missing)
    neighbours[:2, 0] = 5  # class 2 is the nearest of class 0, and the others have none
    sampler = NearestClassSampler(labels, neighbours, 2, 1, seed=0)
    drawn = [labels[batch].tolist() for batch in in_any_order(sampler, 30)]
    assert {second for first, second in drawn if first == 0} == {2}


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.integers(1, 5), min_size=2, max_size=6).filter(lambda x: max(x) > 1),
    seed=st.integers(0, 100),
)
def test_fixed_triplets(counts, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(7 * np.arange(len(counts)), counts))
    sampler = FixedTripletSampler(labels, num_triplets=12, triplets_per_batch=4, seed=seed)
    anchors, positives, negatives = sampler.triplets.T
    assert (labels[anchors] == labels[positives]).all() and (anchors != positives).all()
    assert (labels[anchors] != labels[negatives]).all()
    batches = np.concatenate(in_any_order(sampler, 6)).reshape(-1, 3)
    shown, times = np.unique(batches, axis=0, return_counts=True)
    _, expected = np.unique(sampler.triplets, axis=0, return_counts=True)
    assert len(shown) == len(expected) and (times == 2 * expected).all()


def test_all_triplets_are_equally_likely():
    labels = np.array([0, 1, 0, 1, 1, 2])
    triplets = FixedTripletSampler(labels, 60_000, 1, seed=0).triplets
    found, counts = np.unique(triplets, axis=0, return_counts=True)
    expected = [
        (a, p, n)
        for a, p, n in itertools.product(range(6), repeat=3)
        if a != p and labels[a] == labels[p] != labels[n]
    ]
    assert found.tolist() == [list(triplet) for triplet in expected]
    assert abs(counts - 60_000 / len(expected)).max() < 5 * np.sqrt(60_000 / len(expected))


def test_images_come_as_often_as_their_weights():
    weights = np.array([3.0, 0.0, 1.0, 6.0])
    batches = in_any_order(WeightedSampler(weights, batch_size=500, seed=2), 20)
    counts = np.bincount(np.concatenate(batches), minlength=4)
    assert counts[1] == 0 and abs(counts / 1e4 - weights / 10).max() < 0.025


def test_batches_hold_what_the_sampler_says():
    pixels = np.repeat(np.arange(12, dtype="uint8"), 3 * 4 * 4).reshape(12, 4, 4, 3)
    images = ArrayImages(pixels, np.arange(12) // 2, list("abcdef"), list("xxxyyy"))
    sampler = SuperClassSampler(images.labels, images.groups, 1, 2, 2, seed=4)
    batches = iter(sampled_dataset(images, sampler, TrainingView(4), first_batch=3))
    for number in (3, 4, 5):
        batch, labels = (np.asarray(x) for x in next(batches))
        expected = sampler.batch(number)
        np.testing.assert_array_equal(batch[:, 0, 0, 0], expected)
        np.testing.assert_array_equal(labels, images.labels[expected])
