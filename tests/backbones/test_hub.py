import sys
from types import SimpleNamespace

import keras
import keras_hub
import numpy as np
import pytest

from gsp_tf import backbones

TOKENS = {"deit_small": (16, 384), "dinov2_small": (14, 384), "vit_base": (16, 768)}


@pytest.fixture
def shallow(monkeypatch):
    """Makes networks of few blocks, which are quick to build and save."""

    def shorten(function, **depth):
        full = getattr(keras_hub.models, function)
        of_depth = SimpleNamespace(
            __name__=function, from_config=lambda config: full.from_config(config | depth)
        )
        monkeypatch.setattr(keras_hub.models, function, of_depth)

    for function in ("DeiTBackbone", "DINOV2Backbone", "ViTBackbone"):
        shorten(function, num_layers=1)
    shorten("MiTBackbone", layerwise_depths=(1, 1, 1, 1))


def test_weights_in_the_cache_of_keras_hub_are_local(monkeypatch, tmp_path):
    assert not backbones.weights_source("mit_b1").is_local
    monkeypatch.setattr("gsp_tf.backbones._presets._cached", lambda handle: tmp_path)
    assert backbones.weights_source("mit_b1").path == tmp_path
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    assert "keras-hub downloads" in backbones.weights_source("mit_b1").text


@pytest.mark.parametrize(("name", "channels"), list(zip(TOKENS, (1, 3, 3), strict=True)))
def test_patch_tokens_in_order_without_the_others(shallow, tmp_path, name, channels):
    patch, width = TOKENS[name]
    model = backbones.create(name, (2 * patch, 2 * patch, channels))
    assert model.output_shape == (None, 4, width)
    network = next(layer for layer in model.layers if isinstance(layer, keras.Model))
    embedding = next(layer for layer in network.layers if "embedding" in layer.name)

    # At the input of the encoder, a change of the second patch is a change of the second token.
    images = np.zeros((2, 2 * patch, 2 * patch, 3), "float32")
    images[1, :patch, patch:] = 1
    before, after = keras.ops.convert_to_numpy(embedding(images))
    (changed,) = np.nonzero(np.abs(after - before).max(-1) > 1e-6)
    assert changed.tolist() == [len(before) - 4 + 1]

    images = np.random.default_rng(0).uniform(0, 255, (2, 2 * patch, 2 * patch, channels))
    everything = keras.Model(model.input, [model.get_layer("patch_tokens").input, model.output])
    all_tokens, tokens = (output.numpy() for output in everything(images))
    np.testing.assert_array_equal(tokens, all_tokens[:, -4:])
    check_saving(model, images, tokens, tmp_path)


def test_mit_gives_a_map(shallow, tmp_path):
    model = backbones.create("mit_b1", (64, 64, 1))
    assert model.output_shape == (None, 2, 2, 512)
    images = np.random.default_rng(0).uniform(0, 255, (2, 64, 64, 1))
    check_saving(model, images, model(images).numpy(), tmp_path)


def check_saving(model, images, expected, folder):
    model.save(folder / "model.keras")
    loaded = keras.models.load_model(folder / "model.keras")
    np.testing.assert_allclose(loaded(images), expected, atol=1e-5)
