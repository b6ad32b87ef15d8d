import keras
import numpy as np
import pytest

from gsp_tf import backbones
from gsp_tf.backbones import registry

NAMES = ["conv4", "resnet20", "resnetv2_20"]


def strided(name, size):
    """Extent of the feature map: strided convolutions round up, pooling rounds down."""
    for _ in range(2):
        size = size // 2 if name == "conv4" else -(-size // 2)
    return size


def images_like(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype("float32")


@pytest.mark.parametrize(
    ("name", "channels", "expected"),
    [
        # Four kernels of 3x3, each normalised by four vectors.
        ("conv4", 1, 9 * 64 * (1 + 3 * 64) + 4 * 4 * 64),
        # He et al. 2015, table 6: 0.27 M, and the projections of option B.
        ("resnet20", 3, 273_392),
        ("resnetv2_20", 4, 273_152),
    ],
)
def test_parameter_count(name, channels, expected):
    assert backbones.create(name, (32, 32, channels)).count_params() == expected


@pytest.mark.parametrize("name", NAMES)
def test_shapes_of_known_and_unknown_sizes(name):
    anything = backbones.create(name)
    assert anything.input_shape == (None, None, None, 3)
    assert anything.output_shape == (None, None, None, 64)
    for height, width in ((4, 4), (17, 30), (7, 5)):
        expected = strided(name, height), strided(name, width), 64
        assert anything.compute_output_shape((2, height, width, 3)) == (2, *expected)
        features = anything(images_like((2, height, width, 3)))
        assert features.shape == (2, *expected)


@pytest.mark.parametrize("name", NAMES)
def test_each_call_builds_fresh_weights(name):
    first, second = (backbones.create(name, [16, 16, 1]) for _ in range(2))
    assert first.name == second.name == name
    kernels = [model.trainable_weights[0].numpy() for model in (first, second)]
    assert not np.array_equal(*kernels)


@pytest.mark.parametrize("name", NAMES)
def test_features_are_rectified_and_depend_on_the_whole_range(name):
    model = backbones.create(name, (16, 16, 1))
    features = model(images_like((4, 16, 16, 1))).numpy()
    assert (features >= 0).all() and 0.05 < (features > 0).mean() < 0.95
    # Pixels of [0, 255] are centred: mid-grey is the zero of the first convolution, which is
    # without a bias, and nothing after it adds one before training.
    grey = model(np.full((1, 16, 16, 1), 127.5, "float32")).numpy()
    np.testing.assert_allclose(grey, 0, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_one_step_moves_every_weight(name):
    backbone = backbones.create(name, (None, None, 1))
    pooled = keras.layers.GlobalAveragePooling2D()(backbone.output)
    model = keras.Model(backbone.input, keras.layers.Dense(1)(pooled))
    before = [w.numpy() for w in backbone.trainable_weights]
    model.compile(optimizer="adam", loss="mse", run_eagerly=True)
    model.train_on_batch(images_like((8, 9, 8, 1)), np.arange(8.0))
    for weight, old in zip(backbone.trainable_weights, before, strict=True):
        assert np.isfinite(weight).all() and not np.array_equal(weight, old), weight.path


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load(tmp_path, name):
    keras.config.set_dtype_policy("mixed_float16")
    backbone = backbones.create(name, (None, None, 1))
    images = images_like((2, 9, 8, 1))
    features = backbone(images)
    assert features.dtype == "float16" and np.isfinite(features).all()
    assert {w.dtype for w in backbone.weights} == {"float32"}
    backbone.save(tmp_path / "backbone.keras")
    loaded = keras.models.load_model(tmp_path / "backbone.keras")
    np.testing.assert_array_equal(loaded(images), features)


def test_names():
    assert set(NAMES) <= set(backbones.names()) and backbones.names() == sorted(backbones.names())
    with pytest.raises(ValueError, match="Unknown backbone 'vgg', known are bn_inception, conv4, "):
        backbones.create("vgg")


def test_register(monkeypatch):
    monkeypatch.setattr(registry, "_BUILDERS", {})

    @backbones.register("mine")
    def mine(input_shape):
        images = keras.Input(input_shape)
        return keras.Model(images, keras.layers.Identity()(images))

    assert backbones.names() == ["mine"]
    assert backbones.create("mine", (2, 3, 4)).output_shape == (None, 2, 3, 4)
    with pytest.raises(ValueError, match="A backbone named 'mine' is registered already"):
        backbones.register("mine")
    assert registry._BUILDERS["mine"].build is mine
