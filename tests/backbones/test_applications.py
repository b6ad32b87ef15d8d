import inspect

import keras
import numpy as np
import pytest

from gsp_tf import backbones
from gsp_tf.backbones import _applications
from gsp_tf.layers import PixelNormalization

# The layer of the intermediate map, its channels and those of the last map, and the sides of the
# last map of images of 96 x 80; those of the intermediate one are 6 x 5.
MAPS = {
    "convnext_tiny": (None, 384, 768, (3, 2)),
    "densenet121": ("pool4_relu", 1024, 1024, (3, 2)),
    "efficientnet_b0": ("block6a_expand_activation", 672, 1280, (3, 2)),
    "efficientnet_v2_b0": ("block6a_expand_activation", 672, 1280, (3, 3)),
    "inception_v3": ("mixed7", 768, 2048, (1, 1)),  # without padding; the other is 4 x 3
    "mobilenet": ("conv_pw_11_relu", 512, 1024, (3, 2)),
    "mobilenet_v2": ("block_13_expand_relu", 576, 1280, (3, 2)),  # 3 x 3 if it is built for them
    "mobilenet_v3_small": (None, 288, 576, (3, 2)),
    "resnet50": ("conv4_block6_out", 1024, 2048, (3, 3)),
    "resnet50v2": ("conv4_block6_preact_relu", 1024, 2048, (3, 3)),
    "vgg16": ("block5_conv3", 512, 512, (3, 2)),
    "xception": ("block13_sepconv1_act", 728, 2048, (3, 3)),
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
def test_maps_and_weights_are_those_of_keras(created, name):
    model, file = created(name)
    assert file == backbones.weights_source(name, 224).path.name
    layer, *channels, sides = MAPS[name]
    assert [shape[1:] for shape in model.output_shape] == [(None, None, c) for c in channels]
    if layer is not None:
        assert model.outputs[0] is model.get_layer(layer).output
    earlier, last = model.compute_output_shape((None, 96, 80, 3))
    assert (earlier[1:3], last[1:3]) == ((4, 3) if name == "inception_v3" else (6, 5), sides)


def test_every_function_of_keras_is_there_with_its_pixels():
    families = _applications._FAMILIES.values()
    taken = {name: family for family in families for name in family.functions.values()}
    functions = dict(inspect.getmembers(keras.applications, inspect.isfunction))
    assert taken.keys() == functions.keys() and len(functions) >= 40
    images = np.random.default_rng(0).uniform(0, 255, (1, 4, 4, 3)).astype("float32")
    for name, family in taken.items():
        pixels = PixelNormalization(**family.pixels)(images) if family.pixels else images
        expected = inspect.getmodule(functions[name]).preprocess_input(images.copy())
        np.testing.assert_allclose(pixels, expected, atol=2e-5, err_msg=name)


def test_the_intermediate_map_holds_the_sum_of_its_block(created):
    """The last block of stage 3 of a ConvNeXt ends in a sum, which has no name of its own."""
    model, _ = created("convnext_tiny")
    branch = model.get_layer("convnext_tiny_stage_2_block_8_identity").output
    assert any(branch is x for x in model.outputs[0]._keras_history.operation.input)


def test_the_features_of_grey_images_are_those_of_keras():
    options = {"include_top": False, "weights": None, "input_shape": (96, 80, 3)}
    network = keras.applications.MobileNetV2(**options)
    model = backbones.create("mobilenet_v2", (96, 80, 1))
    assert model.output_shape == (None, 3, 3, 1280)
    model.set_weights(network.get_weights())
    images = np.random.default_rng(0).uniform(0, 255, (1, 96, 80, 1)).astype("float32")
    pixels = keras.applications.mobilenet_v2.preprocess_input(np.repeat(images, 3, axis=-1))
    np.testing.assert_allclose(model(images), network(pixels), atol=1e-5)


@pytest.mark.parametrize("side", [128, 200])
def test_a_download_that_fails_is_one_error(side, monkeypatch):
    """It names the file, which depends on the side for this network."""

    def get_file(fname, origin, **_):
        raise Exception(f"URL fetch failure on {origin}: asked for {fname}.")

    monkeypatch.setattr("keras.src.utils.file_utils.get_file", get_file)
    with pytest.raises(OSError, match="cannot be downloaded") as error:
        backbones.create("mobilenet_v2", (side, side, 3), "imagenet")
    path = backbones.weights_source("mobilenet_v2", side).path
    assert f"asked for {path.name}." in str(error.value) and str(path) in str(error.value)
    assert "Training can also start from random weights" in str(error.value)  # embed cannot


def test_an_efficientnet_takes_the_same_pixels_however_its_weights_came(tmp_path, monkeypatch):
    """Keras has another graph for ImageNet weights, whose statistics are loaded with them."""

    def load(model, path, **_):
        (layer,) = (x for x in model.layers if isinstance(x, keras.layers.Normalization))
        layer.adapt_mean.assign([0.485, 0.456, 0.406])
        layer.adapt_variance.assign([0.229, 0.224, 0.225])
        layer.finalize_state()

    monkeypatch.setattr(keras.Model, "load_weights", load)
    monkeypatch.setattr("keras.src.utils.file_utils.get_file", lambda *_, **__: "b0.h5")
    shape = 64, 64, 3
    theirs = keras.applications.EfficientNetB0(include_top=False, input_shape=shape)
    ours = backbones.create("efficientnet_b0", shape, weights="imagenet")
    (own,) = (x for x in theirs.layers if isinstance(x, keras.layers.Normalization))
    left = {id(x) for x in own.weights}
    ours.set_weights([x for x in theirs.weights if id(x) not in left])
    images = np.random.default_rng(0).uniform(0, 255, (1, *shape)).astype("float32")
    expected = np.asarray(theirs(images))
    bound = 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(ours(images), expected, rtol=1e-4, atol=bound)
    monkeypatch.undo()
    ours.save_weights(tmp_path / "b0.weights.h5")
    loaded = backbones.create("efficientnet_b0", shape, weights=str(tmp_path / "b0.weights.h5"))
    for model in (loaded, backbones.freeze_batch_normalization(ours)):
        np.testing.assert_allclose(model(images), expected, rtol=1e-4, atol=bound)
