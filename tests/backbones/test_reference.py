"""BN-Inception and GoogLeNet: pixels, grey images, and maps against those of PyTorch.

tools/backbones/reference.py writes the file of the maps.
"""

from pathlib import Path

import keras
import numpy as np
import pytest

from gsp_tf import backbones

REFERENCE = np.load(Path(__file__).parent / "reference.npz")
TOLERANCE = {"rtol": 0, "atol": 1e-4}


@pytest.fixture
def maps(reference, network):
    """Function that gives the maps of a network for an image, by stage."""

    def evaluate(architecture, image):
        model, stages = network(architecture), reference.STAGES[architecture]
        part = keras.Model(model.input, [model.get_layer(x).output for x in stages])
        return dict(zip(stages, (np.asarray(of[0]) for of in part(image[None])), strict=True))

    return evaluate


@pytest.mark.parametrize("size", [(224, 224), (227, 227), (133, 195)])
@pytest.mark.parametrize("architecture", ["bn_inception", "googlenet"])
def test_activations_are_those_of_pytorch(reference, maps, architecture, size):
    for stage, found in maps(architecture, reference.random_image(size)).items():
        for name, value in reference.sample(found).items():
            expected = REFERENCE[f"{architecture}/{size[0]}x{size[1]}/{stage}/{name}"]
            np.testing.assert_allclose(value, expected, **TOLERANCE, err_msg=f"{stage} {name}")


@pytest.mark.parametrize(
    ("architecture", "size"), [("bn_inception", (67, 99)), ("googlenet", (99, 67))]
)
def test_whole_maps_with_pytorch(reference, maps, architecture, size):
    image = reference.random_image(size, seed=1)
    found = maps(architecture, image)
    for stage, expected in reference.evaluate(architecture, image).items():
        np.testing.assert_allclose(found[stage], expected, **TOLERANCE, err_msg=stage)


def test_a_pixel_by_hand(network):
    """The first convolution sees the pixel (10, 20, 30) in the units and the order it wants."""
    for name, expected in (
        ("bn_inception", (30 - 104, 20 - 117, 10 - 128)),
        ("googlenet", [x / 127.5 - 1 for x in (10, 20, 30)]),
    ):
        model = network(name)
        seen = keras.Model(model.input, model.get_layer("pixels").output)
        pixels = seen(np.full((1, 16, 16, 3), (10.0, 20.0, 30.0)))
        np.testing.assert_allclose(pixels[0, 3, 4], expected, rtol=1e-6)


@pytest.mark.parametrize(("name", "minimum"), [("bn_inception", 7), ("googlenet", 15)])
def test_small_grey_images_have_the_features_of_colour_images(network, name, minimum):
    grey = backbones.create(name, (minimum, minimum, 1))
    grey.set_weights(network(name).get_weights())
    assert 0 not in grey.output_shape
    images = np.random.default_rng(0).uniform(0, 255, (2, minimum, minimum, 1))
    _, expected = network(name)(np.repeat(images, 3, axis=-1))
    np.testing.assert_array_equal(grey(images), expected)


def test_mixed_precision_keeps_pixels_in_float32():
    keras.config.set_dtype_policy("mixed_float16")
    model = backbones.create("googlenet", (15, 15, 3))
    assert model.output.dtype == "float16"
    pixels = keras.Model(model.input, model.get_layer("pixels").output)
    image = np.full((1, 15, 15, 3), 127.53, "float32")
    np.testing.assert_allclose(pixels(image)[0, 0, 0, 0], 0.03 / 127.5, atol=1e-6)
