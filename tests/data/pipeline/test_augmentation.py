"""Augmentation by image layers of Keras: what an image gets depends on its seed alone."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf._names import NAMES, named
from gsp_tf.data import ArrayImages, TrainingView, ViewedImages, training_dataset

SECTION = "data.augmentation"
NEEDED = {
    "brightness": {"factor": 0.5},
    "color_degeneration": {"factor": 0.5},
    "color_jitter": {"brightness_factor": 0.2, "saturation_factor": (0.2, 0.8), "hue_factor": 0.1},
    "contrast": {"factor": 0.4},
    "hue": {"factor": 0.2},
    "posterization": {"factor": 4},
    "rotation": {"factor": 0.2},
    "saturation": {"factor": (0.2, 0.8)},
    "sharpness": {"factor": 0.5},
    "shear": {"x_factor": 0.2},
    "solarization": {"addition_factor": 0.3},
    "translation": {"height_factor": 0.2, "width_factor": 0.2},
    "zoom": {"height_factor": 0.3},
}
FIXED = ("auto_contrast", "equalization")  # draw nothing
PIXELS = np.random.default_rng(0).integers(0, 256, (12, 20, 20, 3), np.uint8)
IMAGES = ArrayImages(PIXELS, np.arange(12) % 3, list("abc"))
SHOWN = ArrayImages(PIXELS[[0] * 6 + [1, 2, 0]], [0] * 9, ["a"])
SEEDS = [*range(8), 3]  # the last image has the seed of another again


def layers(*names):
    return [named(SECTION, name)(**NEEDED.get(name, {})) for name in names]


def batches(count, augmentation, images=IMAGES, **options):
    drawn = {"horizontal_flip": True, "min_crop_area": 0.4, "augmentation": augmentation} | options
    dataset = training_dataset(images, 16, 2, 2, seed=3, **drawn)
    return [np.asarray(images) for images, _ in itertools.islice(dataset, count)]


def views(augmentation, images=SHOWN, seeds=SEEDS):
    """Views of images by seeds of their own, in a graph; nothing but the layers changes them."""
    view = TrainingView(16, augmentation=augmentation)
    numbers = tf.data.Dataset.from_tensor_slices((np.arange(len(images)), seeds))
    shown = numbers.map(lambda index, seed: view(images, index, (9, seed)))
    return np.stack(list(shown.as_numpy_iterator()))


@pytest.fixture(scope="module")
def plain():
    return views([])


@pytest.mark.parametrize("name", NAMES[SECTION])
def test_every_layer_changes_each_image_by_its_seed(name, plain):
    changed = views(layers(name))
    assert changed.shape == plain.shape and changed.dtype == np.float32
    assert 0 <= changed.min() < changed.max() <= 255
    assert (changed != plain).any(axis=(1, 2, 3)).any()
    np.testing.assert_array_equal(changed[8], changed[3])  # whatever was drawn in between
    if name not in FIXED:
        assert len({image.tobytes() for image in changed[:6]}) > 1


def test_batches_go_on_where_they_stopped_and_fixed_views_are_those_of_the_seed():
    augmentation = layers("color_jitter", "erasing")
    whole = batches(5, augmentation)
    for ours, theirs in zip(batches(2, augmentation, first_batch=3), whole[3:], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    view = TrainingView(16, True, 0.4, augmentation=augmentation)
    fixed = ViewedImages(IMAGES, view, count=2, seed=7)
    found = view(IMAGES, 2, (7, 5))
    np.testing.assert_allclose(fixed.image(5), found, rtol=0, atol=0.51)


def test_images_of_a_batch_are_changed_each_by_itself():
    black = ArrayImages(np.full((4, 8, 8, 3), 100, np.uint8), [0, 0, 1, 1], ["a", "b"])
    shades = np.concatenate(batches(6, layers("brightness"), images=black))[:, 0, 0, 0]
    assert len(np.unique(shades)) == 24


def test_a_layer_may_serve_two_pipelines_and_a_model():
    (layer,) = layers("brightness")
    first = views([layer])
    np.testing.assert_array_equal(views([layer]), first)
    assert np.asarray(layer(np.full((8, 8, 3), 100.0), training=True)).shape == (8, 8, 3)


def test_colours_keep_their_mean_saturation(plain):
    layers = keras.layers.RandomSaturation, keras.layers.RandomColorJitter
    same = ArrayImages(PIXELS[[0] * 20], [0] * 20, ["a"])
    before = np.ptp(plain[0], axis=-1).mean()
    for layer, option in zip(layers, ("factor", "saturation_factor"), strict=True):
        with pytest.raises(ValueError, match="two numbers .* 0.5 changes nothing.* received 0.6"):
            TrainingView(16, augmentation=[layer(**{option: 0.6})])
        changed = views([layer(**{option: (0.4, 0.6)})], same, range(20))
        ranges = np.ptp(changed, axis=-1).mean((1, 2))
        assert min(ranges) < before < max(ranges) and min(ranges) > 0.5 * before
