"""Arrays of any number of channels and of other types than uint8: which values a model sees."""

import keras
import numpy as np
import pytest

from gsp_tf.data import (
    ArrayImages,
    SelectedImages,
    TrainingView,
    ViewedImages,
    as_arrays,
    evaluation_dataset,
    identical_images,
    training_dataset,
)

NAMES, LABELS = ["a", "b"], [0, 0, 1, 1]
KINDS = {  # the type, the ends of the values, and whether they have to be given
    "uint8": ("uint8", 0, 255, False),
    "uint16": ("uint16", 0, 65535, False),
    "12 bits": ("uint16", 0, 4095, True),
    "float32": ("float32", -1, 3, True),
}


def images_of(kind, channels, side=8):
    """Images, and their exact values in [0, 255]."""
    dtype, low, high, is_given = KINDS[kind]
    shape = 4, side, side, channels
    values = np.random.default_rng(0).uniform(low, high, shape).astype(dtype)
    values[0, 0, :2, 0] = low, high
    images = ArrayImages(values, LABELS, NAMES, value_range=(low, high) if is_given else None)
    return images, (values.astype("float64") - low) * 255 / (high - low)


@pytest.mark.parametrize(("kind", "channels"), zip(KINDS, (1, 2, 4, 6), strict=True))
def test_every_pipeline_shows_the_values_of_the_definition(kind, channels):
    images, expected = images_of(kind, channels)
    whole = np.stack([images.image(index) for index in range(4)])
    np.testing.assert_allclose(whole, expected, rtol=1e-6, atol=1e-4)
    assert whole.min() == 0 and whole.max() == 255
    for some, rows in ((images, [0, 1, 2, 3]), (SelectedImages(images, [2, 0]), [2, 0])):
        [(batch, _)] = evaluation_dataset(some, 8, batch_size=4)
        np.testing.assert_allclose(batch, expected[rows], rtol=1e-6, atol=1e-4)
    np.testing.assert_allclose(images.subset([1]).image(0), expected[2], rtol=1e-6, atol=1e-4)
    batch, labels = next(iter(training_dataset(images, 8, 2, 2, seed=0)))
    for image, label in zip(batch.numpy(), labels.numpy(), strict=True):
        errors = [np.abs(image - expected[row]).max() for row in (2 * label, 2 * label + 1)]
        assert min(errors) < 1e-3


@pytest.mark.parametrize("kind", ["uint16", "float32"])
def test_views_do_not_round(kind):
    images, expected = images_of(kind, 4)
    views = ViewedImages(images, TrainingView(8), count=2)
    np.testing.assert_allclose(views.image(3), expected[1], rtol=1e-6, atol=1e-3)
    small = as_arrays(images_of(kind, 4, side=16)[0], 8)
    assert small.images.dtype == np.float32 and small.images.std() > 1


def test_what_a_set_holds_beside_another_is_shown_in_the_same_values():
    deep, expected = images_of("uint16", 2)
    plain, _ = images_of("uint8", 2)
    joined = training_dataset(deep, 8, 2, 2, 0, views=2, unlabelled=plain, unlabelled_per_batch=4)
    batch = next(iter(joined))[0].numpy()
    for row in batch[:8]:
        assert min(np.abs(row - image).max() for image in expected) < 1e-3
    for row in batch[8:]:
        assert min(np.abs(row - image.astype(int)).max() for image in plain.images) == 0


def test_images_are_compared_by_what_they_show():
    values = np.full((2, 4, 4, 1), 100, "uint16")
    sets = [ArrayImages(values, [0, 0], NAMES, value_range=(0, top)) for top in (1000, 1000, 4000)]
    assert identical_images(sets).tolist() == [0, 0, 0, 0, 4, 4]


def test_crops_flips_and_augmentation_of_six_channels():
    images, _ = images_of("uint16", 6, side=20)
    changes = [keras.layers.RandomRotation(0.1), keras.layers.RandomBrightness(0.2)]
    view = dict(horizontal_flip=True, min_crop_area=0.3, augmentation=changes)
    batch, _ = next(iter(training_dataset(images, 8, 2, 2, seed=0, **view)))
    assert batch.shape == (4, 8, 8, 6) and 0 <= batch.numpy().min() < batch.numpy().max() <= 255
    hue = keras.layers.RandomHue(0.2, (0, 255))
    with pytest.raises(ValueError, match="RandomHue cannot change images of 6 channels"):
        training_dataset(images, 8, 2, 2, seed=0, augmentation=[hue])


def test_the_ends_of_a_range_are_those_of_its_values():
    images = ArrayImages(np.full((1, 1, 1, 1), 0.1, "float32"), [0], ["a"], value_range=(0, 0.1))
    assert images.image(0).item() == 255
