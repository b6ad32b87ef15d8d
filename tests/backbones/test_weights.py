import keras
import numpy as np
import pytest

from gsp_tf import backbones
from gsp_tf.experiment import build_learner, place_maps
from gsp_tf.experiment.model import build_embedder
from gsp_tf.recipe import (
    BackboneRecipe,
    ClassRecipe,
    DataRecipe,
    EmbeddingRecipe,
    Recipe,
    load_recipe,
)


def images_like(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype("float32")


@pytest.mark.parametrize("channels", [1, 3])
def test_one_file_for_every_form_of_a_backbone(converted, channels):
    weights = converted("googlenet")
    first = backbones.create("googlenet", (32, 48, channels), weights=str(weights))
    second = backbones.create("googlenet", weights=weights, intermediate=True)
    for a, b in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_weights_that_do_not_fit(tmp_path, converted):
    with pytest.raises(
        ValueError, match="'bn_inception' must be None or the path of a .weights.h5"
    ):
        backbones.create("bn_inception", weights="imagenet")
    with pytest.raises(ValueError, match="must be None or \"imagenet\" or the path .* 'a.h5'"):
        backbones.create("resnet50", weights="a.h5")
    with pytest.raises(FileNotFoundError, match="There is no weights file .*none.weights.h5"):
        backbones.create("resnet50", weights=tmp_path / "none.weights.h5")
    path = converted("googlenet")
    with pytest.raises(ValueError, match=f"{path} does not fit the backbone 'bn_inception'"):
        backbones.create("bn_inception", weights=path)
    (tmp_path / "a.weights.h5").write_bytes(b"no such format")
    with pytest.raises(ValueError, match="a.weights.h5 does not fit the backbone 'conv4'"):
        backbones.create("conv4", weights=tmp_path / "a.weights.h5")


def test_other_arguments_that_are_refused():
    with pytest.raises(ValueError, match="'mit_b1' has no intermediate map, .* bn_inception"):
        backbones.create("mit_b1", (64, 64, 3), intermediate=True)
    for shape in ((32, 32), (32, 32, None)):
        with pytest.raises(ValueError, match=r"input_shape must be \(H, W, channels\), received"):
            backbones.create("conv4", shape)


def test_recipe(tmp_path):
    weights = tmp_path / "resnet20.weights.h5"
    expected = backbones.create("resnet20", (32, 32, 3))
    expected.save_weights(weights)
    path = tmp_path / "recipe.yaml"
    path.write_text(f"backbone: {{name: resnet20, weights: {weights}}}")
    recipe = load_recipe(path, ["--backbone.freeze_batch_normalization", "true"])
    learner = build_learner(recipe, num_classes=5, channels=3)
    backbone = next(x for x in learner.embedder.layers if isinstance(x, keras.Model))
    assert backbone.name == "resnet20"
    for a, b in zip(backbone.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    images = images_like((4, 48, 48, 3))
    expected = learner.embedder(images, training=False)
    np.testing.assert_allclose(learner.embedder(images, training=True), expected, atol=1e-6)
    paths = {variable.path for variable in learner.trainable_variables}
    assert any("conv2d" in path for path in paths)
    assert not any("batch_normalization" in path for path in paths)
    assert Recipe().backbone == BackboneRecipe("resnet20", None, False)


@pytest.mark.parametrize("position", ["before_pooling", "after_pooling"])
@pytest.mark.parametrize("pooling", ["gap", "gsp"])
def test_tokens_are_pooled_as_a_set(monkeypatch, pooling, position):
    """As those of the transformers, which are not here without an extra."""
    monkeypatch.setattr(backbones.registry, "_BUILDERS", {})

    @backbones.register("tokens")
    def tokens(input_shape):
        images = keras.Input(input_shape)
        patches = keras.layers.Conv2D(8, 4, 4)(images)
        return keras.Model(images, keras.layers.Reshape((-1, 8))(patches))

    recipe = Recipe(
        data=DataRecipe(image_size=12),
        backbone=BackboneRecipe("tokens"),
        pooling=ClassRecipe(pooling, {"num_prototypes": 4} if pooling == "gsp" else {}),
        embedding=EmbeddingRecipe(position=position),
    )
    embedder = build_embedder(recipe, channels=3)
    images = images_like((2, 12, 12, 3))
    assert embedder(images).shape == (2, 64)
    weights = place_maps(embedder, images).weights
    if pooling == "gsp":
        assert weights.shape == (2, 3, 3, 1)
        np.testing.assert_allclose(weights.sum((1, 2)), 1, rtol=1e-5)
    else:
        assert weights is None
