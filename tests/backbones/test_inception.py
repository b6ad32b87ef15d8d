import keras
import numpy as np
import pytest

from gsp_tf import backbones

NAMES = ["bn_inception", "googlenet"]
INTERMEDIATE = {"bn_inception": 1056, "googlenet": 832}


def images_like(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype("float32")


def expected_side(name, side):
    """Side of the last map: what the layers of the original say, one after the other."""
    side = (side + 6 - 7) // 2 + 1
    for _ in range(2):
        side = -(-(side - 3) // 2) + 1
    for _ in range(2):
        if name == "bn_inception":  # convolutions 3x3 by 2 with one zero on each side
            side = (side + 2 - 3) // 2 + 1
    if name == "googlenet":
        side = -(-(side - 3) // 2) + 1
        side = -(-(side - 2) // 2) + 1
    return side


def expected_intermediate(name, side):
    """Side of the intermediate map, before the last pooling of GoogLeNet."""
    side = (side + 6 - 7) // 2 + 1
    for _ in range(3):
        side = -(-(side - 3) // 2) + 1
    return side


@pytest.mark.parametrize("name", NAMES)
def test_shapes_of_known_and_unknown_sizes(name):
    known = backbones.create(name, (43, 131, 3))
    sides = tuple(expected_side(name, side) for side in (43, 131))
    assert known.output_shape == (None, *sides, 1024)
    anything = backbones.create(name, intermediate=True)
    assert anything.name == name
    assert anything.output_shape == [
        (None, None, None, INTERMEDIATE[name]),
        (None, None, None, 1024),
    ]
    for size in ((224, 224), (15, 16), (64, 97), (43, 131)):
        last = tuple(expected_side(name, side) for side in size)
        earlier, features = anything(images_like((1, *size, 3)))
        assert features.shape == (1, *last, 1024), size
        if name == "googlenet":
            last = tuple(expected_intermediate(name, side) for side in size)
        assert earlier.shape == (1, *last, INTERMEDIATE[name]), size


def test_parameters_and_layer_names_are_those_of_the_state_dict():
    # Without classifiers, with their running statistics.
    model = backbones.create("bn_inception")
    assert model.count_params() == 10_290_272
    assert backbones.create("googlenet").count_params() == 5_614_464
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
def test_a_pixel_by_hand(name, expected):
    """The first convolution sees the pixel (10, 20, 30) in the units and the order it wants."""
    model = backbones.create(name, (16, 16, 3))
    seen = keras.Model(model.input, model.get_layer("pixels").output)
    pixels = seen(np.full((1, 16, 16, 3), (10.0, 20.0, 30.0)))
    np.testing.assert_allclose(pixels[0, 3, 4], expected, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_one_network_with_two_maps_and_for_grey_images(name):
    both, colour, grey = (
        backbones.create(name, (32, 32, 3), intermediate=True),
        backbones.create(name, (32, 32, 3)),
        backbones.create(name, (32, 32, 1)),
    )
    for model in (both, grey):
        model.set_weights(colour.get_weights())
    images = images_like((2, 32, 32, 1))
    features = colour(np.repeat(images, 3, axis=-1))
    np.testing.assert_array_equal(both(np.repeat(images, 3, axis=-1))[1], features)
    np.testing.assert_array_equal(grey(images), features)


@pytest.mark.parametrize("name", NAMES)
def test_images_it_does_not_take(name):
    minimum = {"bn_inception": 7, "googlenet": 15}[name]
    assert 0 not in backbones.create(name, (minimum, minimum, 3)).output_shape
    with pytest.raises(
        ValueError, match=f"{minimum} x {minimum} pixels or larger, received .*6, 16"
    ):
        backbones.create(name, (6, 16, 3))
    with pytest.raises(ValueError, match=r"1 or 3 channels, received input_shape=\(32, 32, 4\)"):
        backbones.create(name, (32, 32, 4))


def test_odd_maps_where_the_original_has_no_output():
    """Module 3c of BN-Inception on 7x7: a window that begins in the last row has that row alone."""
    model = backbones.create("bn_inception", (55, 55, 3))
    before, after = (model.get_layer(f"inception_3{x}_output").output for x in "bc")
    before, after = keras.Model(model.input, [before, after])(images_like((1, 55, 55, 3)))
    assert before.shape[1:3] == (7, 7) and after.shape[1:3] == (4, 4)
    pooled = np.asarray(after)[0, :, :, -320:]
    np.testing.assert_array_equal(pooled[3, 3], np.asarray(before)[0, 6, 6])
    np.testing.assert_array_equal(pooled[1, 2], np.asarray(before)[0, 2:5, 4:7].max((0, 1)))


def test_mixed_precision_keeps_pixels_in_float32():
    keras.config.set_dtype_policy("mixed_float16")
    model = backbones.create("bn_inception", (32, 32, 3))
    pixels = keras.Model(model.input, model.get_layer("pixels").output)
    image = np.full((1, 32, 32, 3), 104.03, "float32")
    assert model(image).dtype == "float16"
    np.testing.assert_allclose(np.asarray(pixels(image))[0, 0, 0, 0], 0.03, atol=1e-4)
