from pathlib import Path

import keras
import numpy as np
import pytest

from gsp_tf import backbones
from gsp_tf.recipe import BackboneRecipe, ClassRecipe, DataRecipe, EmbeddingRecipe, Recipe
from gsp_tf.runs import build_learner, place_maps
from gsp_tf.runs.model import build_embedder


@pytest.mark.parametrize(
    ("name", "weights", "error", "message"),
    [
        ("resnet50", "none.weights.h5", FileNotFoundError, "There is no weights file"),
        ("resnet20", "conv4.weights.h5", ValueError, "conv4.weights.h5 does not fit the backbone"),
        ("conv4", "broken.weights.h5", ValueError, "broken.weights.h5 does not fit the backbone"),
    ],
)
def test_weights_that_do_not_fit(tmp_path, monkeypatch, name, weights, error, message):
    monkeypatch.chdir(tmp_path)
    backbones.create("conv4").save_weights("conv4.weights.h5")
    Path("broken.weights.h5").write_bytes(b"no such format")
    with pytest.raises(error, match=message):
        backbones.create(name, weights=weights)


def test_recipe(tmp_path):
    weights = tmp_path / "conv4.weights.h5"
    expected = backbones.create("conv4", (32, 32, 3))
    expected.save_weights(weights)
    backbone = BackboneRecipe("conv4", weights=str(weights), freeze_batch_normalization=True)
    learner = build_learner(Recipe(backbone=backbone), num_classes=5, channels=3)
    backbone = next(x for x in learner.embedder.layers if isinstance(x, keras.Model))
    for a, b in zip(backbone.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    images = np.random.default_rng(0).uniform(0, 255, (4, 48, 48, 3))
    expected = learner.embedder(images, training=False)
    np.testing.assert_allclose(learner.embedder(images, training=True), expected, atol=1e-6)
    paths = {variable.path for variable in learner.trainable_variables}
    assert any("conv2d" in path for path in paths)
    assert not any("batch_normalization" in path for path in paths)


@pytest.mark.parametrize("position", ["before_pooling", "after_pooling"])
def test_tokens_are_pooled_as_a_set(monkeypatch, position):
    monkeypatch.setattr(backbones.registry, "_BUILDERS", {})

    @backbones.register("tokens")
    def tokens(input_shape):
        images = keras.Input(input_shape)
        patches = keras.layers.Conv2D(8, 4, 4)(images)
        return keras.Model(images, keras.layers.Reshape((-1, 8))(patches))

    recipe = Recipe(
        data=DataRecipe(image_size=12),
        backbone=BackboneRecipe("tokens"),
        pooling=ClassRecipe("gsp", {"num_prototypes": 4}),
        embedding=EmbeddingRecipe(position=position),
    )
    embedder = build_embedder(recipe, channels=3)
    images = np.random.default_rng(0).uniform(0, 255, (2, 12, 12, 3))
    assert embedder(images).shape == (2, 64)
    weights = place_maps(embedder, images).weights
    assert weights.shape == (2, 3, 3, 1)
    np.testing.assert_allclose(weights.sum((1, 2)), 1, rtol=1e-5)
