"""Where TensorFlow is not installed, batches are those of `tf.data`."""

import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_image

from gsp_tf.data import (
    ArrayImages,
    CanvasImages,
    ClassBalancedSampler,
    CollageImages,
    EncodedImages,
    FileImages,
    UnreadableImageError,
    central_window,
    evaluation_dataset,
    reduce_images,
    training_dataset,
)
from gsp_tf.data._philox import as_fraction, draw, fold_in
from gsp_tf.data.pipeline import _py_dataset
from gsp_tf.data.pipeline.windows import random_window

LABELS, NAMES = np.arange(12) % 3, ["a", "b", "c"]
SIZES = [(60, 60), (500, 375), (1, 300), (2000, 3000)]
PIXELS = np.random.default_rng(0).integers(0, 256, (12, 40, 50, 3), np.uint8)


@pytest.fixture
def without_tensorflow(monkeypatch):
    """Function that makes a data set as if TensorFlow were not installed."""

    def make(function, *arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr("gsp_tf.data.pipeline.batches.has_tensorflow", lambda: False)
            return function(*arguments, **options)

    return make


@pytest.fixture
def photographs(tmp_path):
    """Function that writes twelve photographs of different sizes; the fourth is turned by EXIF."""
    flower, turned = Image.fromarray(load_sample_image("flower.jpg")), Image.Exif()
    turned[0x0112] = 6

    def write(extension, subsampling=0):
        paths = [tmp_path / f"{number}.{extension}" for number in range(12)]
        for number, path in enumerate(paths):
            image = flower.resize((320 - 10 * number, 200 + 12 * number))
            exif = turned if number == 3 else Image.Exif()
            image.save(path, exif=exif, subsampling=subsampling)
        return paths

    return write


@pytest.mark.parametrize("seed", [(0, 0), (5, 123456), (2**40 + 3, 7), (-4, 2**33)])
def test_draws_are_those_of_tensorflow(seed):
    tensor = tf.constant(seed, tf.int64)
    words = tf.random.stateless_uniform((9,), tensor, None, None, tf.uint32)
    assert draw(seed, 9) == words.numpy().tolist()
    fractions = tf.random.stateless_uniform((5,), tf.random.fold_in(tensor, 1))
    assert [as_fraction(word) for word in draw(fold_in(seed, 1), 5)] == fractions.numpy().tolist()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("min_area", [0.02, 0.9])
def test_windows_are_those_of_tensorflow(size, min_area):
    for draws in np.random.default_rng(0).random((20, 4), np.float32):
        window = _py_dataset.random_window(size, min_area, draws.tolist())
        np.testing.assert_array_equal(window, random_window(size, min_area, draws))
    for image_size, resize in ((224, 256), (31, None), (7, 8)):
        window = _py_dataset.central_window(size, image_size, resize)
        np.testing.assert_array_equal(window, central_window(size, image_size, resize))


def sets_of_images(kind, photographs, folder):
    if kind == "arrays":
        return ArrayImages(PIXELS, LABELS, NAMES)
    if kind == "collages":
        tiles = ArrayImages(PIXELS, LABELS, NAMES)
        return CollageImages(tiles, tiles, 3)
    if kind == "canvases":
        tiles = ArrayImages(PIXELS[:, :9, :9], LABELS, NAMES)
        return CanvasImages(ArrayImages(PIXELS, LABELS, NAMES), tiles, 48, 0.3)
    paths = photographs("png" if kind == "png" else "jpg")
    if kind == "grey contents":
        return EncodedImages([path.read_bytes() for path in paths], LABELS, NAMES, channels=1)
    files = FileImages(paths, LABELS, NAMES)
    return reduce_images(files, folder, 60) if kind == "reduced" else files


@pytest.mark.parametrize(
    ("kind", "image_size", "resize", "min_crop_area"),
    [
        ("arrays", 16, None, 0.2),
        ("arrays", 32, 40, 1.0),
        ("collages", 48, None, 0.2),
        ("canvases", 48, None, 0.2),
        ("png", 64, 72, 1.0),
        ("jpeg", 32, None, 0.2),
        ("jpeg", 100, 120, 0.5),
        ("grey contents", 64, None, 0.2),
        ("reduced", 48, None, 0.2),
    ],
)
def test_batches_are_those_of_tensorflow(
    kind, image_size, resize, min_crop_area, photographs, tmp_path, without_tensorflow
):
    images = sets_of_images(kind, photographs, tmp_path / "copies")
    drawn = {"horizontal_flip": True, "min_crop_area": min_crop_area, "first_batch": 2}
    for function, arguments in (
        (training_dataset, {"classes_per_batch": 2, "images_per_class": 4, "seed": 3} | drawn),
        (evaluation_dataset, {"batch_size": 2, "indices": [7, 3, 7, 0, 11]}),
    ):
        arguments |= {"images": images, "image_size": image_size, "resize": resize}
        expected = list(function(**arguments).take(3))
        batches = without_tensorflow(function, **arguments)
        found = list(itertools.islice(batches, 3))
        assert len(found) == len(expected)
        for batch, other in zip(found, expected, strict=True):
            for ours, theirs in zip(batch, other, strict=True):
                assert ours.dtype == theirs.dtype.as_numpy_dtype
                # A canvas rounds what it shows, and two roundings may differ by a level.
                tolerance = 1 if kind == "canvases" else 0.01
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)

    assert len(batches) == 3


def test_colours_differ_only_at_the_border_of_a_part_of_a_jpeg(photographs, without_tensorflow):
    images = FileImages(photographs("jpg", subsampling=2), LABELS, NAMES)
    arguments = (images, 100, 3, 4, 0, False, 0.3)
    ((expected, _),) = training_dataset(*arguments).take(1)
    found, _ = without_tensorflow(training_dataset, *arguments)[0]
    difference = np.abs(found - expected)
    assert difference.max() < 32
    assert difference[:, 3:-3, 3:-3].max() < 0.01


def test_batches_are_drawn_in_order_and_may_be_read_in_any(without_tensorflow, monkeypatch):
    drawn = []

    def batch(self, number, original=ClassBalancedSampler.batch):
        drawn.append(number)
        return original(self, number)

    monkeypatch.setattr(ClassBalancedSampler, "batch", batch)
    arguments = (ArrayImages(PIXELS, LABELS, NAMES), 8, 2, 2, 0, True, 0.3)
    whole = list(itertools.islice(without_tensorflow(training_dataset, *arguments), 8))
    assert drawn == list(range(len(drawn))) and len(drawn) >= 8
    dataset = without_tensorflow(training_dataset, *arguments, first_batch=3)
    assert dataset.num_batches is None
    with pytest.raises(TypeError, match="The batches are endless"):
        len(dataset)
    for number in (4, 0, 1, 2):
        for ours, theirs in zip(dataset[number], whole[number + 3], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_an_unreadable_file_is_named(tmp_path, without_tensorflow):
    dataset = without_tensorflow(
        evaluation_dataset, FileImages([tmp_path / "none.jpg"], [0], ["a"]), 8, 1
    )
    with pytest.raises(UnreadableImageError, match="none.jpg: there is no such file"):
        dataset[0]


SCRIPT = """
import importlib, itertools, json, sys
from importlib.machinery import PathFinder

# Keras imports them where they are installed, and needs none.
for name in ("jax", "orbax", "pandas"):
    sys.modules[name] = None

import keras
import numpy as np

KERNEL = ("backbones", "data", "evaluation", "layers", "losses", "ops", "training")
for package in KERNEL:
    package = importlib.import_module(f"gsp_tf.{package}")
    for name in package.__all__:
        getattr(package, name)
imports_tensorflow = "tensorflow" in sys.modules

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name == "tensorflow" else find(name, *rest)

from gsp_tf.data import ArrayImages, as_arrays, evaluation_dataset, to_grey, training_dataset
from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import MetricLearner, RetrievalEvaluation, embed

pixels = np.random.default_rng(0).integers(0, 256, (12, 40, 50, 3), np.uint8)
images = ArrayImages(pixels, np.arange(12) % 3, ["a", "b", "c"])
training = training_dataset(images, 16, 2, 4, 3, True, 0.2)
evaluation = evaluation_dataset(images, 16, 5)


def learner():
    keras.utils.set_random_seed(0)
    embedder = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(4, 3),
            GeneralizedSumPooling(4),
        ]
    )
    made = MetricLearner(embedder, ContrastiveLoss())
    made.compile("sgd")
    return made


def fit(model, batches, epochs):
    callbacks = [RetrievalEvaluation(evaluation, recall_at=(1,))]
    options = {"steps_per_epoch": 2, "callbacks": callbacks, "verbose": 0, "shuffle": False}
    return model.fit(batches, epochs=epochs, **options).history




def augmented(count, first_batch=0):
    layers = [keras.layers.RandomHue(0.2), keras.layers.RandomRotation(0.1)]
    dataset = training_dataset(
        images, 16, 2, 2, 0, first_batch=first_batch, augmentation=layers, views=2
    )
    return [dataset[number] for number in range(count)]


changed, later = augmented(3), augmented(1, first_batch=2)
assert changed[0][0].dtype == np.float32 and changed[0][1].shape == (8, 2)
np.testing.assert_array_equal(later[0][0], changed[2][0])
assert len({image.tobytes() for images, _ in changed for image in images}) == 24

whole, parts = learner(), learner()
history = fit(whole, training, 2)
fit(parts, training, 1)
resumed = training_dataset(images, 16, 2, 4, 3, True, 0.2, first_batch=2)
rest = fit(parts, resumed, 1)
embeddings, labels = embed(whole.embedder, evaluation)
messages = []
runs = importlib.import_module("gsp_tf.runs")
for needs_tensorflow in (to_grey, lambda _: runs.check_recipe):
    try:
        needs_tensorflow(pixels[0])
    except ImportError as error:
        messages.append(str(error))
facts = {
    "imports_tensorflow": imports_tensorflow,
    "history": history,
    "rest": rest,
    "evaluated": whole.evaluate(evaluation, verbose=0),
    "labels": labels.tolist(),
    "predicted_differs": float(np.abs(embeddings - whole.predict(evaluation, verbose=0)).max()),
    "tiles": as_arrays(images, 8).images.shape,
    "messages": messages,
}
batches = [batch for batch, _ in itertools.islice(training, 3)]
np.savez(sys.argv[1], batches=batches, facts=json.dumps(facts))
"""


def test_training_on_torch_where_tensorflow_is_not_installed(tmp_path):
    path = tmp_path / "outcomes.npz"
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "KERAS_BACKEND": "torch", "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", SCRIPT, path], check=True, env=environment)
    outcomes = dict(np.load(path))
    facts = json.loads(str(outcomes["facts"]))
    assert not facts["imports_tensorflow"]
    assert facts["labels"] == LABELS.tolist() and facts["tiles"] == [12, 8, 8, 3]
    assert facts["predicted_differs"] < 1e-6
    assert np.isfinite(facts["evaluated"]).all()
    for name, values in facts["history"].items():
        np.testing.assert_allclose(facts["rest"][name], values[1:], rtol=1e-6)
    assert [message.split(" needs TensorFlow")[0] for message in facts["messages"]] == [
        "This function of gsp_tf",
        "gsp_tf.runs.check_recipe",
    ]
    images = ArrayImages(PIXELS, LABELS, NAMES)
    expected = [batch for batch, _ in training_dataset(images, 16, 2, 4, 3, True, 0.2).take(3)]
    np.testing.assert_allclose(outcomes["batches"], expected, rtol=0, atol=0.01)
