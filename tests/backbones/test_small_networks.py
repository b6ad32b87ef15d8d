import keras
import numpy as np
import pytest

from gsp_tf import backbones

NAMES = ["conv4", "resnet20", "resnetv2_20"]


def strided(name, size):
    """Extent of the feature map: strided convolutions round up, pooling rounds down."""
    for _ in range(2):
        size = size // 2 if name == "conv4" else -(-size // 2)
    return size


@pytest.fixture(scope="module")
def networks():
    """The networks with fresh weights, not to be changed."""
    return {name: backbones.create(name) for name in NAMES}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Four kernels of 3x3, each normalised by four vectors.
        ("conv4", 9 * 64 * (3 + 3 * 64) + 4 * 4 * 64),
        # He et al. 2015, table 6: 0.27 M, and the projections of option B.
        ("resnet20", 273_392),
        ("resnetv2_20", 273_008),
    ],
)
def test_parameter_count(networks, name, expected):
    assert networks[name].count_params() == expected


@pytest.mark.parametrize("name", NAMES)
def test_shapes_of_known_and_unknown_sizes(networks, name):
    anything = networks[name]
    assert anything.input_shape == (None, None, None, 3)
    assert anything.output_shape == (None, None, None, 64)
    for height, width in ((4, 4), (17, 30), (7, 5)):
        expected = strided(name, height), strided(name, width), 64
        assert anything.compute_output_shape((2, height, width, 3)) == (2, *expected)
        assert anything(np.zeros((2, height, width, 3))).shape == (2, *expected)


@pytest.mark.parametrize("name", NAMES)
def test_features_are_rectified_and_depend_on_the_whole_range(networks, name):
    features = networks[name](np.random.default_rng(0).uniform(0, 255, (4, 16, 16, 3))).numpy()
    assert (features >= 0).all() and 0.05 < (features > 0).mean() < 0.95
    # Pixels of [0, 255] are centred: mid-grey is the zero of the first convolution, which is
    # without a bias, and nothing after it adds one before training.
    grey = networks[name](np.full((1, 16, 16, 3), 127.5, "float32")).numpy()
    np.testing.assert_allclose(grey, 0, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_one_step_moves_every_weight_and_a_file_keeps_them(tmp_path, name):
    backbone = backbones.create(name, [None, None, 3])
    before = [weight.numpy() for weight in backbone.trainable_weights]
    pooled = keras.layers.GlobalAveragePooling2D()(backbone.output)
    model = keras.Model(backbone.input, keras.layers.Dense(1)(pooled))
    model.compile(optimizer="adam", loss="mse", run_eagerly=True)
    images = np.random.default_rng(0).uniform(0, 255, (8, 9, 8, 3))
    model.train_on_batch(images, np.arange(8.0))
    for weight, old in zip(backbone.trainable_weights, before, strict=True):
        assert np.isfinite(weight).all() and not np.array_equal(weight, old), weight.path
    backbone.save(tmp_path / "backbone.keras")
    loaded = keras.models.load_model(tmp_path / "backbone.keras")
    np.testing.assert_array_equal(loaded(images), backbone(images))
