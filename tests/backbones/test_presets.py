"""Any preset of keras-hub as a backbone: features, tokens, sizes of images, what is refused."""

import functools
import shutil
import sys
from types import SimpleNamespace

import keras
import keras_hub
import numpy as np
import pytest
from presets import NETWORKS, OFFSET, SCALE, write_preset

from gsp_tf import backbones
from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import MetricLearner

# The tokens before those of patches.
TOKENS = {"DINOV2": 5, "DINOV3": 4, "DeiT": 2, "ViT": 1, "CLIP": 1, "SigLIP": 0}
IMAGES = np.random.default_rng(1).uniform(0, 255, (2, 32, 32, 3)).astype("float32")


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """Function that gives the folder of a tiny preset."""
    folder = tmp_path_factory.mktemp("presets")
    return functools.cache(lambda kind: str(write_preset(kind, folder / kind)))


def create(preset, side=32, **options):
    return backbones.create("hub", (side, side, 3), "pretrained", preset=preset, **options)


def of_keras_hub(preset, **options):
    """The network for images that keras-hub itself loads."""
    network = keras_hub.models.Backbone.from_preset(preset, **options)
    return getattr(network, "vision_encoder", network)


def below_head(network):
    """The network; of SigLIP the part below its attention head, which pools the patches."""
    has_head = "SigLIP" in type(network).__name__
    return keras.Model(network.input, network.layers[-1].input) if has_head else network


def apply(network, images):
    """What a network of keras-hub gives for the pixels of images, of a pyramid the last map."""
    pixels = images * np.float32(SCALE) + np.float32(OFFSET)
    given = {next(iter(network.input)): pixels} if isinstance(network.input, dict) else pixels
    found = network(given)
    last = list(found.values())[-1] if isinstance(found, dict) else found
    return keras.ops.convert_to_numpy(last)


def positions(network):
    """The position embeddings `(n, C)` of a network, without those that it does not use."""
    (weight,) = [
        weight
        for weight in network.trainable_weights
        if "position_embedding" in weight.path and "rope" not in weight.path
    ]
    return keras.ops.convert_to_numpy(weight).reshape(-1, 16)


def inner(model):
    return next(layer for layer in model.layers if isinstance(layer, keras.Model))


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_last_features_of_every_kind_and_whether_normalisation_freezes(preset, kind, tmp_path):
    network = below_head(of_keras_hub(preset(kind)))
    side = 64 if "Swin" in type(network).__name__ else 32
    images = np.tile(IMAGES, (1, side // 32, side // 32, 1))
    model = create(preset(kind), side)
    features = model(images)
    expected = apply(network, images)
    np.testing.assert_allclose(features, expected[:, -features.shape[1] :], atol=1e-4)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(images), features)
    if backbones.can_freeze_batch_normalization(preset(kind)):
        frozen = backbones.freeze_batch_normalization(model)
        np.testing.assert_allclose(frozen(images), features, atol=1e-5)
    else:
        with pytest.raises(ValueError, match="inside layers of keras-hub. Take .*=false"):
            backbones.freeze_batch_normalization(model)


@pytest.mark.parametrize(("kind", "extra"), TOKENS.items())
def test_patch_and_class_tokens_are_those_of_keras_hub(preset, kind, extra):
    network = of_keras_hub(preset(kind))
    everything = apply(below_head(network), IMAGES)
    assert everything.shape == (2, extra + 16, 16)
    # The head of SigLIP is in the place of a class token.
    of_class = apply(network, IMAGES)[:, None] if kind == "SigLIP" else everything[:, :1]
    expected = {"patch": everything[:, extra:], "class": of_class}
    both = create(preset(kind), tokens="both")
    assert "network" in backbones.cut_layers(both)
    for (tokens, values), of_both in zip(expected.items(), reversed(both(IMAGES)), strict=True):
        model = create(preset(kind), tokens=tokens)
        np.testing.assert_allclose(model(IMAGES), values, atol=1e-5)
        assert model.output_shape[1:] == values.shape[1:]
        np.testing.assert_allclose(of_both, values, atol=1e-5)
        assert "network" in backbones.cut_layers(model)


def spline(old, new):
    """Matrix `(new, old)` of cubic interpolation (Keys, 1981), widened when it shrinks a grid."""
    widen = max(old / new, 1.0)
    places = (np.arange(new) + 0.5) * old / new - 0.5
    t = np.abs(places[:, None] - np.arange(old)) / widen
    near, far = 1.5 * t**3 - 2.5 * t**2 + 1, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
    weights = np.where(t < 1, near, np.where(t < 2, far, 0.0))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.tensorflow  # the cubic polynomial of PyTorch is another one
@pytest.mark.parametrize("kind", ["ViT", "SigLIP"])
@pytest.mark.parametrize("side", [64, 16])
def test_positions_are_interpolated_on_the_grid_of_patches(preset, kind, side):
    old, extra, count = positions(of_keras_hub(preset(kind))), TOKENS[kind], side // 8
    network = inner(create(preset(kind), side))
    matrix = spline(4, count)
    grid = np.einsum("ij,kl,jlc->ikc", matrix, matrix, old[extra:].reshape(4, 4, 16))
    expected = np.concatenate([old[:extra], grid.reshape(-1, 16)])
    np.testing.assert_allclose(positions(network), expected, atol=1e-6)


def test_a_preset_whose_own_size_is_no_multiple_of_its_patch(tmp_path):
    folder = str(write_preset("SigLIP", tmp_path / "preset", side=30))
    whole, images = of_keras_hub(folder), IMAGES[:, :30, :30]
    model = create(folder, 30)
    assert model.output_shape == (None, 9, 16)  # the rest of 6 pixels has no tokens
    np.testing.assert_allclose(model(images), apply(below_head(whole), images), atol=1e-5)
    np.testing.assert_array_equal(positions(inner(create(folder, 24))), positions(whole))
    assert create(folder, 32).output_shape == (None, 16, 16)
    with pytest.raises(ValueError, match="multiples of 8, received 36 x 36"):
        create(folder, 36)


@pytest.mark.parametrize(("side", "sign"), [(32, 1), (64, -1)])
def test_a_saved_model_has_the_positions_that_it_trained(preset, tmp_path, side, sign):
    """keras-hub alone saves them in part or not at all, depending on the sum of their changes."""
    model = create(preset("DINOV2"), side)
    # Also where the layers of the backbone become layers of another model.
    learner = MetricLearner(keras.Model(model.input, model.output), ContrastiveLoss())
    (weight,) = [w for w in inner(model).trainable_weights if "position_embedding" in w.path]
    change = np.abs(np.random.default_rng(2).normal(0, 0.1, weight.shape))
    weight.assign(weight + sign * change)
    images = np.repeat(np.repeat(IMAGES, side // 32, axis=1), side // 32, axis=2)
    for saved in (learner, model):
        saved.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(loaded(images), model(images))
    model.save_weights(tmp_path / "model.weights.h5")
    options = {"preset": preset("DINOV2"), "weights": tmp_path / "model.weights.h5"}
    loaded = backbones.create("hub", (side, side, 3), **options)
    np.testing.assert_array_equal(loaded(images), model(images))


def test_networks_that_take_other_sizes_themselves(preset):
    network = inner(create(preset("DINOV2"), 64))
    itself = of_keras_hub(preset("DINOV2"), image_shape=(64, 64, 3))
    np.testing.assert_array_equal(positions(network), positions(itself))
    resized, whole = inner(create(preset("DINOV3"), 64)), of_keras_hub(preset("DINOV3"))
    for weight, expected in zip(resized.weights, whole.weights, strict=True):
        np.testing.assert_array_equal(weight, expected)
    images = np.repeat(np.repeat(IMAGES, 2, axis=1), 3, axis=2)
    model = backbones.create("hub", (64, 96, 3), "pretrained", preset=preset("ResNet"))
    expected = apply(of_keras_hub(preset("ResNet")), images)
    assert expected.shape == (2, 8, 12, 64)
    np.testing.assert_allclose(model(images), expected, rtol=1e-4, atol=1e-4)


def test_sizes_and_tokens_that_a_network_does_not_have(preset):
    for tokens in ("class", "both"):
        with pytest.raises(ValueError, match=f"tokens={tokens} needs .* ResNetBackbone has none"):
            create(preset("ResNet"), tokens=tokens)
    for kind, size in (("ViT", (None, None)), ("ViT", (36, 32)), ("DINOV2", (36, 36))):
        with pytest.raises(ValueError, match=f"multiples of 8, received {size[0]} x {size[1]}"):
            backbones.create("hub", (*size, 3), preset=preset(kind))
    for kind in ("CLIP", "DINOV3", "DINOV2"):
        with pytest.raises(ValueError, match="square|height and width to be the same"):
            backbones.create("hub", (32, 64, 3), preset=preset(kind))
    assert create(preset("SwinTransformer"), 32).output_shape == (None, 16, 16)
    with pytest.raises(ValueError, match="takes images of 32 pixels or more, .* 4 x 4 tokens fit"):
        create(preset("SwinTransformer"), 24)


@pytest.mark.parametrize(
    ("name", "kind", "depth", "image_shape", "shape"),
    [
        ("deit_small", "DeiT", {"num_layers": 1}, (32, 32, 1), (4, 384)),
        ("dinov2_small", "DINOV2", {"num_layers": 1}, (28, 28, 3), (4, 384)),
        ("vit_base", "ViT", {"num_layers": 1}, (32, 32, 3), (4, 768)),
        ("mit_b1", "MiT", {"layerwise_depths": (1, 1, 1, 1)}, (64, 64, 1), (2, 2, 512)),
    ],
)
def test_fresh_networks_by_name(monkeypatch, name, kind, depth, image_shape, shape):
    """With fewer blocks, which are sooner built."""
    full = getattr(keras_hub.models, f"{kind}Backbone")
    of_depth = SimpleNamespace(
        __name__=full.__name__, from_config=lambda config: full.from_config(config | depth)
    )
    monkeypatch.setattr(keras_hub.models, full.__name__, of_depth)
    model = backbones.create(name, image_shape)
    assert model.output_shape == (None, *shape)
    assert model(np.zeros((2, *image_shape))).shape == (2, *shape)


def test_presets_that_cannot_be_loaded(preset, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="cannot be loaded .*no config.json"):
        create(str(tmp_path))
    shutil.copytree(preset("ViT"), tmp_path / "pixels")
    (tmp_path / "pixels/image_converter.json").unlink()
    with pytest.raises(ValueError, match="pixels' cannot be loaded .*image_converter.json"):
        create(str(tmp_path / "pixels"))

    def offline(*_, **__):
        raise ConnectionError("api.kaggle.com:\nname not known")

    monkeypatch.setattr("keras_hub.src.utils.preset_utils.kagglehub.model_download", offline)
    with pytest.raises(OSError, match=r"'dinov2_small' cannot be loaded \(api.*: name not known\)"):
        backbones.create("hub", (28, 28, 3), preset="dinov2_small")


def test_where_the_weights_of_a_preset_are(preset, tmp_path, monkeypatch):
    source = backbones.weights_source("hub", preset=preset("ViT"))
    assert source.is_local and source.path.samefile(preset("ViT"))
    monkeypatch.setattr("kagglehub.config.get_cache_folder", lambda: str(tmp_path))
    handle = keras_hub.models.Backbone.presets["dinov2_small"]["kaggle_handle"]
    source = backbones.weights_source("hub", preset="dinov2_small")
    assert not source.is_local and handle in source.text
    folder = tmp_path / "models" / handle.removeprefix("kaggle://")
    folder.mkdir(parents=True)
    (folder / "model.weights.h5").touch()
    assert backbones.weights_source("hub", preset="dinov2_small").path == folder
    assert backbones.weights_source("dinov2_small").path == folder
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    assert not backbones.weights_source("hub", preset="hf://org/model").is_local
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    assert "keras-hub downloads" in backbones.weights_source("dinov2_small").text


def test_every_kind_of_preset_is_listed():
    kinds = backbones.image_presets()
    assert all(kinds.values()) and "dinov2_small" in kinds["DINOV2Backbone"]
