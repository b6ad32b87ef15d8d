"""A preset of every kind of keras-hub: its features, and whether batch normalisation freezes."""

import keras
import keras_hub
import numpy as np
import pytest
from presets import NETWORKS, OFFSET, SCALE, write_preset

from gsp_tf import backbones

IMAGES = np.random.default_rng(1).uniform(0, 255, (2, 32, 32, 3)).astype("float32")


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_last_features_of_every_kind_and_whether_batch_normalisation_freezes(kind, tmp_path):
    preset = str(write_preset(kind, tmp_path / "preset"))
    network = keras_hub.models.Backbone.from_preset(preset)
    network = getattr(network, "vision_encoder", network)
    if "SigLIP" in type(network).__name__:  # an attention head pools its tokens
        network = keras.Model(network.input, network.layers[-1].input)
    side = 64 if "Swin" in type(network).__name__ else 32
    images = np.tile(IMAGES, (1, side // 32, side // 32, 1))
    pixels = images * np.float32(SCALE) + np.float32(OFFSET)
    found = network(
        {next(iter(network.input)): pixels} if hasattr(network.input, "keys") else pixels
    )
    last = list(found.values())[-1] if isinstance(found, dict) else found
    model = backbones.create("hub", (side, side, 3), "pretrained", preset=preset)
    features = model(images)
    np.testing.assert_allclose(features, last[:, -features.shape[1] :], atol=1e-4)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        keras.models.load_model(tmp_path / "model.keras")(images), features
    )
    if backbones.can_freeze_batch_normalization(preset):
        backbones.freeze_batch_normalization(model)
    else:
        with pytest.raises(ValueError, match="inside layers of keras-hub"):
            backbones.freeze_batch_normalization(model)
