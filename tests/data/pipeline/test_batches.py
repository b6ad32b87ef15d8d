import numpy as np
import pytest
import tensorflow as tf
from encoded_images import photo

from gsp_tf.data import (
    ArrayImages,
    ClassBalancedSampler,
    CollageImages,
    evaluation_dataset,
    training_dataset,
)
from gsp_tf.data.pipeline.view import _random_window


def noise(count=12, height=8, width=8, channels=1, classes=3):
    pixels = np.random.default_rng(0).integers(0, 256, (count, height, width, channels), np.uint8)
    return ArrayImages(pixels, np.arange(count) % classes, [str(i) for i in range(classes)])


def first(dataset, count=3):
    return [(images.numpy(), labels.numpy()) for images, labels in dataset.take(count)]


def is_untuned(dataset):
    """No thread tunes it: an iterator waits for one when it is deleted, and it may sleep."""
    return dataset.options().autotune.enabled is False


def test_training_batches():
    dataset = training_dataset(noise(channels=3), 8, 2, 3, seed=0)
    expected = tf.TensorSpec((6, 8, 8, 3), tf.float32), tf.TensorSpec((6,), tf.int32)
    assert dataset.element_spec == expected and is_untuned(dataset)
    assert dataset.cardinality() in (tf.data.INFINITE_CARDINALITY, tf.data.UNKNOWN_CARDINALITY)
    for images, labels in first(dataset, 10):
        assert images.min() >= 0 and images.max() <= 255 and images.max() > 1
        assert (labels.reshape(2, 3) == labels.reshape(2, 3)[:, :1]).all()
        assert len(set(labels.tolist())) == 2


def test_training_is_fixed_by_the_seed_and_continues_where_it_stopped():
    def batches(count, seed=4, first_batch=0):
        collages = CollageImages(noise(), noise(classes=2), 2)
        given = {"horizontal_flip": True, "min_crop_area": 0.3, "first_batch": first_batch}
        return first(training_dataset(collages, 12, 2, 2, seed, **given), count)

    whole = batches(7)
    for ours, theirs in zip(batches(3, first_batch=4), whole[4:], strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])
    assert not np.array_equal(whole[0][0], batches(1, seed=5)[0][0])


def test_half_of_the_images_are_flipped():
    ramp = np.tile(np.arange(8, dtype=np.uint8), (8, 1))[None, ..., None]
    source = ArrayImages(np.repeat(ramp, 4, 0), [0, 0, 1, 1], ["a", "b"])
    batches = first(training_dataset(source, 8, 2, 2, seed=0, horizontal_flip=True), 60)
    corner = np.concatenate([images[:, 0, 0, 0] for images, _ in batches])
    assert set(corner.tolist()) == {0, 7}
    assert 0.35 < (corner == 7).mean() < 0.65
    batches = first(training_dataset(source, 8, 2, 2, seed=0), 5)
    assert all((images[:, 0, 0, 0] == 0).all() for images, _ in batches)


@pytest.mark.parametrize("indices", [None, [3, 0, 3, 10, 1, 2]])
def test_evaluation_in_order_with_a_smaller_last_batch(indices):
    source = noise(11)
    chosen = np.arange(11) if indices is None else indices
    batches = first(evaluation_dataset(source, 8, 4, indices), 10)
    assert [len(labels) for _, labels in batches] == ([4, 4, 3] if indices is None else [4, 2])
    images, labels = map(np.concatenate, zip(*batches, strict=True))
    np.testing.assert_array_equal(labels, source.labels[chosen])
    np.testing.assert_array_equal(images, source.images[chosen])
    dataset = evaluation_dataset(source, 8, 4)
    expected = tf.TensorSpec((None, 8, 8, 1), tf.float32), tf.TensorSpec((None,), tf.int32)
    assert dataset.element_spec == expected and is_untuned(dataset)


def test_reduction_is_antialiased():
    checks = (np.indices((32, 32)).sum(0) % 2 * 255).astype(np.uint8)[None, ..., None]
    source = ArrayImages(checks, [0], ["a"])
    ((images, _),) = first(evaluation_dataset(source, 8, 1))
    np.testing.assert_allclose(images, 127.5, atol=8)


@pytest.mark.parametrize(("height", "width"), [(60, 60), (40, 160), (160, 40), (1, 300)])
@pytest.mark.parametrize("min_area", [0.02, 0.3, 0.9])
def test_a_random_crop_keeps_the_share_of_the_central_square_it_promises(height, width, min_area):
    for draws in np.random.default_rng(0).random((40, 4), np.float32):
        top, left, rows, columns = _random_window([height, width], draws, min_area).numpy()
        assert 0 <= top <= height - rows and 0 <= left <= width - columns
        share = rows * columns / min(height, width) ** 2
        rounding = 0.5 / rows + 0.5 / columns + 0.25 / (rows * columns)
        assert min_area * (1 - rounding) <= share <= (1 + rounding) or min(height, width) == 1


def test_random_crops_reach_the_ends_of_their_areas_ratios_and_places():
    draws = np.random.default_rng(0).random((200, 4), np.float32)
    windows = np.array([_random_window([64, 64], draw, 0.25) for draw in draws])
    areas, ratios = windows[:, 2] * windows[:, 3] / 64**2, windows[:, 3] / windows[:, 2]
    assert 0.24 < areas.min() < 0.3 and 0.9 < areas.max() <= 1
    assert 0.7 < ratios.min() < 0.8 and 1.25 < ratios.max() < 1.4
    assert (windows[:, :2].min(axis=0) == 0).all() and (windows[:, :2].max(axis=0) > 20).all()


def test_a_thin_image_costs_no_more_than_its_central_square():
    image = np.zeros((1, 1, 60_000, 1), np.uint8)
    image[0, 0, 29_999] = 200
    source = ArrayImages(image, [0], ["a"])
    ((images, _),) = first(evaluation_dataset(source, 64, 1))
    np.testing.assert_allclose(images, np.full((1, 64, 64, 1), 200.0), rtol=1e-5)


@pytest.mark.parametrize("shape", [(375, 500), (700, 620)])
def test_evaluation_sees_the_centre_of_the_resized_image(shape):
    picture = photo(*shape[::-1])
    source = ArrayImages(np.asarray(picture)[None], [0], ["a"])
    ((images, _),) = first(evaluation_dataset(source, 226, 1, resize=256))
    scale = 256 / min(shape)
    whole = tf.image.resize(picture, [round(side * scale) for side in shape]).numpy()

    def difference(down, right):
        top, left = ((side - 226) // 2 for side in whole.shape[:2])
        part = whole[top + down : top + down + 226, left + right : left + right + 226]
        return np.abs(images[0] - part).mean()

    shifted = [difference(*by) for by in ((-1, 0), (1, 0), (0, -1), (0, 1))]
    assert difference(0, 0) < min(4, *shifted)


def test_without_random_crops_training_sees_what_evaluation_sees():
    source = noise(height=40, width=30)
    ((images, labels),) = first(training_dataset(source, 16, 3, 4, seed=0, resize=20), 1)
    ((expected, _),) = first(evaluation_dataset(source, 16, 12, resize=20))
    for image in images:
        assert np.abs(expected - image).max(axis=(1, 2, 3)).min() == 0


def test_batches_are_drawn_one_after_the_other(monkeypatch):
    asked = []

    def batch(self, number, original=ClassBalancedSampler.batch):
        asked.append(int(number))
        return original(self, number)

    monkeypatch.setattr(ClassBalancedSampler, "batch", batch)
    for _ in training_dataset(noise(), 8, 2, 2, seed=0, first_batch=5).take(200):
        pass
    assert asked == list(range(5, 5 + len(asked))) and len(asked) >= 200
