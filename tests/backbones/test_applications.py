import types

import keras
import numpy as np
import pytest

from gsp_tf import backbones

MAPS = {
    "convnext_tiny": (384, 768),
    "densenet121": (1024, 1024),
    "inception_v3": (768, 2048),
    "mobilenet_v2": (576, 1280),
    "resnet50": (1024, 2048),
    "resnet50v2": (1024, 2048),
}
SIDES = {  # of images of 96 x 80, where they do not round up or pad
    "convnext_tiny": ((6, 5), (3, 2)),
    "densenet121": ((6, 5), (3, 2)),
    "inception_v3": ((4, 3), (1, 1)),
    "mobilenet_v2": ((6, 5), (3, 2)),  # for sizes that are known when it is built: (3, 3)
}
PREPROCESSING = {
    "densenet121": keras.applications.densenet,
    "inception_v3": keras.applications.inception_v3,
    "mobilenet_v2": keras.applications.mobilenet_v2,
    "resnet50": keras.applications.resnet50,
    "resnet50v2": keras.applications.resnet_v2,
}


@pytest.fixture
def created(monkeypatch):
    """Function that gives a network with both maps, and the weights file that Keras asks for.

    Keras receives no file, and loads none. The networks are large: no test keeps them.
    """
    monkeypatch.setattr(keras.Model, "load_weights", lambda *_, **__: None)

    def create(name):
        files = []

        def get_file(fname, origin, **arguments):
            assert arguments["cache_subdir"] == "models"
            files.append(fname)

        monkeypatch.setattr("keras.src.utils.file_utils.get_file", get_file)
        model = backbones.create(name, weights="imagenet", intermediate=True)
        (file,) = files
        return model, file

    return create


@pytest.mark.parametrize("name", MAPS)
def test_maps_pixels_and_weights_are_those_of_keras(created, name):
    model, file = created(name)
    assert file == backbones.weights_path(name, 224).name
    assert [shape[1:] for shape in model.output_shape] == [(None, None, c) for c in MAPS[name]]
    earlier, last = model.compute_output_shape((None, 96, 80, 3))
    assert (earlier[1:3], last[1:3]) == SIDES.get(name, ((6, 5), (3, 3)))
    if name in PREPROCESSING:
        seen = keras.Model(model.input, model.get_layer("pixels").output)
        images = np.random.default_rng(0).uniform(0, 255, (1, 96, 96, 3)).astype("float32")
        expected = PREPROCESSING[name].preprocess_input(images.copy())
        np.testing.assert_allclose(seen(images), expected, atol=2e-5)
    if name == "resnet50":
        check_taps_and_a_pixel_by_hand(model, seen)


def check_taps_and_a_pixel_by_hand(resnet50, seen):
    layers = [resnet50.get_layer(name) for name in ("conv4_block6_out", "conv5_block3_out")]
    assert all(a is layer.output for a, layer in zip(resnet50.outputs, layers, strict=True))
    pixel = seen(np.full((1, 64, 64, 3), (10.0, 20.0, 30.0)))[0, 0, 0]
    np.testing.assert_allclose(pixel, (30 - 103.939, 20 - 116.779, 10 - 123.68), rtol=1e-6)


def test_the_features_of_grey_images_are_those_of_keras():
    network = keras.applications.MobileNetV2(
        include_top=False, weights=None, input_shape=(96, 80, 3)
    )
    model = backbones.create("mobilenet_v2", (96, 80, 1))
    assert model.output_shape == (None, 3, 3, 1280)
    model.set_weights(network.get_weights())
    images = np.random.default_rng(0).uniform(0, 255, (1, 96, 80, 1)).astype("float32")
    pixels = keras.applications.mobilenet_v2.preprocess_input(np.repeat(images, 3, axis=-1))
    np.testing.assert_allclose(model(images), network(pixels), atol=1e-5)


def test_imagenet_weights_go_to_keras(monkeypatch):
    """Keras is asked for them, with colour images for grey ones; there is no network here."""
    asked = {}

    def resnet50(input_tensor, **arguments):
        asked.update(arguments)
        return types.SimpleNamespace(output=input_tensor)

    monkeypatch.setattr(keras.applications, "ResNet50", resnet50)
    for weights in ("imagenet", None):
        backbones.create("resnet50", (64, 32, 1), weights=weights)
        assert asked == {"include_top": False, "weights": weights, "input_shape": (64, 32, 3)}


def test_images_it_does_not_take():
    with pytest.raises(ValueError, match="32 x 32 pixels or larger, received .*31"):
        backbones.create("resnet50", (31, 64, 3))
    with pytest.raises(ValueError, match="75 x 75 pixels or larger"):
        backbones.create("inception_v3", (64, 64, 3))


@pytest.mark.parametrize("side", [128, 200])
def test_a_download_that_fails_is_one_error(side, monkeypatch):
    """It names the file, which depends on the side for this network."""

    def get_file(fname, origin, **_):
        raise Exception(f"URL fetch failure on {origin}: asked for {fname}.")

    monkeypatch.setattr("keras.src.utils.file_utils.get_file", get_file)
    with pytest.raises(OSError, match="cannot be downloaded") as error:
        backbones.create("mobilenet_v2", (side, side, 3), "imagenet")
    path = backbones.weights_path("mobilenet_v2", side)
    assert f"asked for {path.name}." in str(error.value) and str(path) in str(error.value)
