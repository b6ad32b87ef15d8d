import keras
import numpy as np
import pytest

from gsp_tf import backbones


def test_parameters_and_layer_names_are_those_of_the_state_dict(network):
    # Without classifiers, with their running statistics.
    model = network("bn_inception")
    assert model.count_params() == 10_290_272
    assert network("googlenet").count_params() == 5_614_464
    names = {layer.name for layer in model.layers}
    for prefix in ("conv1_7x7_s2", "inception_3a_1x1", "inception_4e_double_3x3_2"):
        assert {prefix, f"{prefix}_bn"} <= names
    assert {"inception_5b_pool_proj", "inception_5b_output"} <= names
    assert not {"inception_3c_1x1", "inception_4e_pool_proj"} & names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bn_inception", (30 - 104, 20 - 117, 10 - 128)),
        ("googlenet", [x / 127.5 - 1 for x in (10, 20, 30)]),
    ],
)
def test_a_pixel_by_hand(network, name, expected):
    """The first convolution sees the pixel (10, 20, 30) in the units and the order it wants."""
    model = network(name)
    seen = keras.Model(model.input, model.get_layer("pixels").output)
    pixels = seen(np.full((1, 16, 16, 3), (10.0, 20.0, 30.0)))
    np.testing.assert_allclose(pixels[0, 3, 4], expected, rtol=1e-6)


@pytest.mark.parametrize(("name", "minimum"), [("bn_inception", 7), ("googlenet", 15)])
def test_small_grey_images_have_the_features_of_colour_images(network, images_like, name, minimum):
    grey = backbones.create(name, (minimum, minimum, 1))
    grey.set_weights(network(name).get_weights())
    assert 0 not in grey.output_shape
    images = images_like((2, minimum, minimum, 1))
    _, expected = network(name)(np.repeat(images, 3, axis=-1))
    np.testing.assert_array_equal(grey(images), expected)


def test_mixed_precision_keeps_pixels_in_float32():
    keras.config.set_dtype_policy("mixed_float16")
    model = backbones.create("googlenet", (15, 15, 3))
    assert model.output.dtype == "float16"
    pixels = keras.Model(model.input, model.get_layer("pixels").output)
    image = np.full((1, 15, 15, 3), 127.53, "float32")
    np.testing.assert_allclose(pixels(image)[0, 0, 0, 0], 0.03 / 127.5, atol=1e-6)
