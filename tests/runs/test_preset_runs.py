"""A recipe with a preset of keras-hub: the run, its embeddings, and its check."""

import keras
import numpy as np
import pytest
from presets import write_preset

from gsp_tf import runs
from gsp_tf.data import load_folder
from gsp_tf.recipe import load_recipe
from gsp_tf.runs._inputs import FeatureInputs

IMAGES = np.random.default_rng(0).uniform(0, 255, (3, 32, 32, 1)).astype("float32")
SECTIONS = """
data: {{name: folder, path: {digits}, channels: 1, image_size: 32, classes_per_batch: 3,
  images_per_class: 2, split_fractions: [0.4, 0.3, 0.3]}}
backbone: {{name: hub, preset: {preset}, weights: pretrained, tokens: both}}
pooling: {{name: gsp, num_prototypes: 4}}
training: {{epochs: 1, steps_per_epoch: 2, learning_rate: 0.01}}
"""


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    return write_preset("ViT", tmp_path_factory.mktemp("presets") / "vit")


@pytest.fixture(scope="module")
def recipe(write_recipe, digits, vit):
    return load_recipe(write_recipe(SECTIONS.format(digits=digits, preset=vit)))


def test_a_run_trains_and_saves_the_whole_network(recipe, tmp_path):
    run = runs.Run(tmp_path / "run", recipe).train()
    assert run.status == "finished" and np.isfinite(run.folder.metrics()["test"]["map_at_r"])
    embedder = run.folder.learner(compile=False).embedder
    fresh = runs.build_embedder(recipe, channels=1)
    for name in ("embedding", "class_embedding"):
        assert not np.allclose(embedder.get_layer(name).kernel, fresh.get_layer(name).kernel)
    embedder.save(tmp_path / "again.keras")
    again = keras.models.load_model(tmp_path / "again.keras")
    np.testing.assert_array_equal(again(IMAGES), embedder(IMAGES))


def test_the_embedding_is_a_linear_map_of_both_vectors(recipe):
    embedder = runs.build_embedder(recipe, channels=1)
    pooled = embedder.get_layer("pooling").output
    values = [*embedder.get_layer("hub")(IMAGES), keras.Model(embedder.input, pooled)(IMAGES)]
    class_token, patches, pooled = map(keras.ops.convert_to_numpy, values)
    assert class_token.shape == (3, 1, 16) and patches.shape == (3, 16, 16)
    # Pooling follows the linear map of the patches, and is a weighted mean of them.
    kernel = np.asarray(embedder.get_layer("class_embedding").kernel)
    expected = pooled + class_token[:, 0] @ kernel
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(embedder(IMAGES), expected, atol=1e-5)
    assert not np.allclose(expected, pooled / np.linalg.norm(pooled, axis=1, keepdims=True))


def test_before_training_both_vectors_are_side_by_side(recipe):
    """What a run is compared with, in agreement with the network's own tokens."""
    embedder = runs.build_embedder(runs.frozen_recipe(recipe), channels=1)
    own = runs.build_embedder(recipe, channels=1).get_layer("hub")(IMAGES)
    class_token, patches = map(keras.ops.convert_to_numpy, own)
    expected = np.concatenate([patches.mean(axis=1), class_token[:, 0]], axis=1)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(embedder(IMAGES), expected, atol=1e-5)


def test_check_says_what_is_used(recipe, vit, tmp_path):
    check = runs.check_recipe(recipe, tmp_path / "run")
    assert check.missing == []
    assert check.facts["backbone"] == f"hub {vit}, tokens both, weights pretrained in {vit}"
    assert check.facts["last map"] == "16 tokens x 16"


def test_kept_features_are_of_the_tokens(write_recipe, digits, tmp_path):
    """SigLIP has the same weights for all of them, and gives another number of tokens."""
    preset = write_preset("SigLIP", tmp_path / "siglip")
    path = write_recipe(SECTIONS.format(digits=digits, preset=preset))
    fields = ["--backbone.frozen_to", "network", "--data.feature_cache", str(tmp_path / "cache")]
    for tokens, number in (("class", 1), ("both", 17), ("patch", 16)):
        recipe = load_recipe(path, [*fields, "--backbone.tokens", tokens])
        embedder = runs.build_embedder(recipe, channels=1)
        inputs = FeatureInputs(recipe, embedder)
        ((maps, _), *_) = inputs.evaluation_batches(runs.load_splits(recipe).test)
        assert maps.shape[1:] == (number, 16)
    trained = {weight.path for weight in embedder.trainable_weights}
    assert trained == {"embedding/kernel", "pooling/prototypes"}


def test_a_network_whose_batch_normalisation_cannot_be_frozen(digits, tmp_path):
    preset = str(write_preset("MobileNet", tmp_path / "mobilenet"))
    chosen = runs.choose_recipe(digits, backbone="hub", preset=preset)
    assert not chosen.backbone.freeze_batch_normalization
    assert "whose batch normalisation trains too" in runs.choices_text(chosen, load_folder(digits))
    learner = runs.build_learner(chosen, num_classes=4, channels=1)
    assert any(weight.path.endswith("gamma") for weight in learner.trainable_weights)
