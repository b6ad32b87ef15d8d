import dataclasses
import importlib.util

import keras
import numpy as np
import pytest

from gsp_tf import backbones
from gsp_tf.backbones import _hub

HAS_HUB = importlib.util.find_spec("keras_hub") is not None
TOKENS = {"deit_small": (16, 384), "dinov2_small": (14, 384), "vit_base": (16, 768)}
needs_hub = pytest.mark.skipif(not HAS_HUB, reason="needs gsp_tf[hub]")


@pytest.mark.skipif(HAS_HUB, reason="keras-hub is here")
@pytest.mark.parametrize("name", ["mit_b1", "mit_b2", "deit_small", "vit_base", "dinov2_small"])
def test_missing_extra_is_named(name):
    with pytest.raises(ImportError, match=rf'{name}.*pip install "\.\[hub\]"'):
        backbones.create(name, (224, 224, 3))


@pytest.mark.parametrize("name", ["mit_b1", "deit_small", "vit_base", "dinov2_small"])
def test_sides_must_be_known_multiples(name):
    for size in ((None, None), (None, 224), (100, 224), (224, 17)):
        with pytest.raises(ValueError, match="known multiples of (32|16|14), received input_shape"):
            backbones.create(name, (*size, 3))


def test_other_sizes():
    for name, size in (("dinov2_small", (28, 42)), ("mit_b1", (32, 64))):
        with pytest.raises(
            ValueError, match=r"square images, received input_shape=\(\d\d, \d\d, 3\)"
        ):
            backbones.create(name, (*size, 3))
    with pytest.raises(ValueError, match="'imagenet' of backbone 'vit_base' are for .* 224 x 224"):
        backbones.create("vit_base", (32, 32, 3), weights="imagenet")
    with pytest.raises(ValueError, match='must be None or "ade20k" or the path'):
        backbones.create("mit_b1", (32, 32, 3), weights="imagenet")


@pytest.fixture
def few_layers(monkeypatch):
    """Transformers of two layers in place of twelve, which their tokens do not depend on."""
    for name in TOKENS:
        model = _hub._MODELS[name]
        arguments = {**model.arguments, "num_layers": 2}
        monkeypatch.setitem(_hub._MODELS, name, dataclasses.replace(model, arguments=arguments))


@needs_hub
@pytest.mark.parametrize(
    ("name", "channels"), [("deit_small", 1), ("dinov2_small", 3), ("vit_base", 3)]
)
def test_patch_tokens_without_the_others(tmp_path, few_layers, name, channels):
    patch, width = TOKENS[name]
    model = backbones.create(name, (3 * patch, 3 * patch, channels))
    assert model.output_shape == (None, 9, width)
    images = np.random.default_rng(0).uniform(0, 255, (2, 3 * patch, 3 * patch, channels))
    tokens = model(images).numpy()
    everything = model.get_layer("patch_tokens").input
    inner = keras.Model(model.input, everything)(images).numpy()
    np.testing.assert_array_equal(tokens, inner[:, -9:])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(images), tokens, atol=1e-5)

    # At the input of the encoder, a change of the second patch is a change of the second token.
    network = next(layer for layer in model.layers if isinstance(layer, keras.Model))
    embedding = next(layer for layer in network.layers if "embedding" in layer.name)
    images = np.zeros((1, 3 * patch, 3 * patch, 3), "float32")
    changed = images.copy()
    changed[:, :patch, patch : 2 * patch] = 1
    before, after = (keras.ops.convert_to_numpy(embedding(x)) for x in (images, changed))
    (places,) = np.nonzero(np.abs(after - before).max((0, 2)) > 1e-6)
    assert places.tolist() == [before.shape[1] - 9 + 1]


@needs_hub
@pytest.mark.parametrize("name", TOKENS)
def test_whole_transformers(name):
    patch, width = TOKENS[name]
    model = backbones.create(name, (2 * patch, 2 * patch, 3))
    assert model.output_shape == (None, 4, width)
    assert model.count_params() > 20e6


@needs_hub
@pytest.mark.parametrize(("name", "channels"), [("mit_b1", 1), ("mit_b2", 3)])
def test_mit_gives_a_map(tmp_path, name, channels):
    model = backbones.create(name, (64, 64, channels))
    assert model.output_shape == (None, 2, 2, 512)
    if name == "mit_b2":
        return
    images = np.random.default_rng(0).uniform(0, 255, (2, 64, 64, channels))
    features = model(images).numpy()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(images), features, atol=1e-5)
