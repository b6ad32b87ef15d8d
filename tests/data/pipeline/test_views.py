"""Batches of two views, and of images without a class beside those with one."""

import numpy as np

from gsp_tf.data import ArrayImages, TrainingView, ViewedImages, training_dataset
from gsp_tf.data.pipeline.samplers import ShuffledSampler

LABELS = np.arange(12) % 3


def shades(count, first=0):
    """Images of one shade each, which tells which image a view is of."""
    pixels = np.arange(first, first + count, dtype=np.uint8)[:, None, None, None]
    return np.broadcast_to(pixels, (count, 9, 9, 1)).copy()


LABELLED = ArrayImages(shades(12), LABELS, list("abc"))
UNLABELLED = ArrayImages(shades(5, first=100), np.arange(5), [f"{n}.png" for n in range(5)])


def batches(count, classes=2, per_class=2, **options):
    given = {"views": 2, "min_crop_area": 0.4, "horizontal_flip": True} | options
    dataset = training_dataset(LABELLED, 6, classes, per_class, 0, **given)
    return [(x.numpy()[:, 0, 0, 0].astype(int), y.numpy()) for x, y in dataset.take(count)]


def test_every_image_comes_twice_with_its_class_and_its_number():
    given = {"unlabelled": UNLABELLED, "unlabelled_per_batch": 3}
    whole = batches(6, **given)
    for seen, labels in whole:
        assert labels.shape == (14, 2) and labels.dtype == np.int32
        np.testing.assert_array_equal(seen[::2], seen[1::2])
        np.testing.assert_array_equal(labels[:, 1], np.repeat(np.arange(7), 2))
        np.testing.assert_array_equal(labels[:8, 0], LABELS[seen[:8]])
        assert (labels[8:, 0] == -1).all() and len(set(seen[8:])) == 3 and (seen[8:] >= 100).all()
    assert set(np.concatenate([seen[8:] for seen, _ in whole])) == set(range(100, 105))
    for ours, theirs in zip(batches(2, first_batch=4, **given), whole[4:], strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])


def test_without_classes_all_images_are_drawn_alike():
    given = {"classes": 0, "unlabelled": UNLABELLED, "unlabelled_per_batch": 8}
    whole = batches(4, **given)
    for _, labels in whole:
        np.testing.assert_array_equal(labels, np.repeat(np.arange(8), 2))
    for start in (0, 2):  # a pass of 17 images has two batches
        drawn = np.concatenate([seen[::2] for seen, _ in whole[start : start + 2]])
        assert len(set(drawn)) == 16 and (drawn >= 100).any() and (drawn < 100).any()


def test_the_two_views_differ():
    pixels = np.random.default_rng(0).integers(0, 256, (4, 20, 20, 3), np.uint8)
    images = ArrayImages(pixels, np.arange(4), list("abcd"))
    given = {"min_crop_area": 0.2, "views": 2, "unlabelled_per_batch": 4}
    dataset = training_dataset(images, 8, 0, 0, 0, **given)
    ((seen, labels),) = dataset.take(1)
    assert labels.numpy().tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (np.abs(seen[::2] - seen[1::2]).max(axis=(1, 2, 3)) > 20).all()


def test_any_batch_of_shuffled_images_can_be_drawn_first():
    sampler = ShuffledSampler(np.arange(50, 60), 4, seed=1)
    whole = [sampler.batch(number) for number in range(9)]
    again = ShuffledSampler(np.arange(50, 60), 4, seed=1)
    for number in (8, 0, 5):
        np.testing.assert_array_equal(again.batch(number), whole[number])
    assert not np.array_equal(ShuffledSampler(np.arange(50, 60), 4, seed=2).batch(0), whole[0])


def test_fixed_views_are_those_of_every_call():
    pixels = np.random.default_rng(0).integers(0, 256, (3, 20, 20, 1), np.uint8)
    images = ArrayImages(pixels, [0, 1, 2], list("abc"))
    views = ViewedImages(images, TrainingView(8, min_crop_area=0.3), count=2, seed=4)
    assert views.labels.tolist() == [0, 0, 1, 1, 2, 2]
    pictures = [views.image(index) for index in range(6)]
    assert len({picture.tobytes() for picture in pictures}) == 6
    part = views.subset([2, 0])
    assert part.labels.tolist() == [1, 1, 0, 0]
    for ours, theirs in zip(range(4), (0, 1, 4, 5), strict=True):
        np.testing.assert_array_equal(part.image(ours), pictures[theirs])
    other = ViewedImages(images, TrainingView(8, min_crop_area=0.3), count=2, seed=5)
    assert not np.array_equal(other.image(0), pictures[0])
