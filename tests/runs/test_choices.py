import shutil
from dataclasses import replace

import keras
import numpy as np
import pytest
from digit_runs import run_command as run
from PIL import Image

from gsp_tf import backbones
from gsp_tf.data import load_folder
from gsp_tf.recipe import BackboneRecipe
from gsp_tf.runs import (
    Run,
    RunFolder,
    choices,
    choices_text,
    choose_recipe,
    load_images,
    load_splits,
)


@pytest.fixture
def photographs(tmp_path, monkeypatch):
    """Function that writes a folder of photographs; no pretrained weights are on the machine."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setenv("GSP_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(backbones.WeightsPackage, "installed", lambda self: None)
    monkeypatch.chdir(tmp_path)

    def write(num_classes=10, each=4, size=(60, 40)):
        rng = np.random.default_rng(0)
        for label in range(num_classes):
            folder = tmp_path / "my_images" / f"class {label}"
            folder.mkdir(parents=True)
            for number in range(each):
                pixels = rng.integers(0, 256, (size[1] // 20, size[0] // 20, 3), "uint8")
                photograph = Image.fromarray(pixels).resize(size, Image.Resampling.NEAREST)
                photograph.save(folder / f"{number}.png")
        return tmp_path / "my_images"

    return write


def cache(name, side, tmp_path):
    """Puts a file where Keras looks for the weights of a network."""
    path = backbones.weights_source(name, side).path
    assert tmp_path in path.parents
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"weights")


@pytest.mark.parametrize(
    ("num_classes", "each", "batch"), [(6, 2, (2, 2)), (10, 20, (6, 5)), (40, 3, (10, 3))]
)
def test_batches_have_no_more_classes_than_train(photographs, num_classes, each, batch):
    data = choose_recipe(photographs(num_classes, each)).data
    assert (data.classes_per_batch, data.images_per_class) == batch


@pytest.mark.parametrize(("size", "side"), [((60, 40), 32), ((100, 80), 48), ((400, 300), 64)])
def test_larger_photographs_make_larger_images(photographs, size, side):
    recipe = choose_recipe(photographs(6, 2, size))
    assert (recipe.backbone.name, recipe.backbone.weights) == ("conv4", None)
    assert recipe.pooling.name == "gsp"
    assert recipe.data.image_size == side and recipe.data.horizontal_flip
    assert recipe.data.min_crop_area < 1


def test_large_photographs_are_decoded_once_as_large_as_the_smallest_crop_needs(photographs):
    folder = photographs(6, 2, (800, 600))
    recipe = choose_recipe(folder)
    assert (recipe.data.image_size, recipe.data.min_crop_area) == (64, 0.25)
    assert recipe.data.cache == "runs/images"
    for of in recipe, replace(recipe, data=replace(recipe.data, min_crop_area=1.0)):
        for images in None, load_images(of.data):
            image = load_splits(of, images).train.image(0)
            assert image.shape == (128, 171, 3)  # a crop of a quarter of the square has side 64
    assert "decoded once, to reduced copies in runs/images" in choices_text(
        recipe, load_folder(folder)
    )


def test_a_manifest_without_splits_gives_the_recipe_of_its_folder(photographs):
    folder = photographs()
    rows = [f"{path},{path.parent.name}" for path in sorted(folder.glob("*/*.png"))]
    manifest = folder.with_name("photos.CSV")
    manifest.write_text("\n".join(["path,label", *rows]))
    of_folder, of_manifest = choose_recipe(folder), choose_recipe(manifest)
    data = replace(of_folder.data, name="manifest", path=str(manifest))
    assert of_manifest == replace(of_folder, name="photos", data=data)
    texts = [choices_text(recipe, load_images(recipe.data)) for recipe in (of_folder, of_manifest)]
    assert texts[0].replace(str(folder), str(manifest)) == texts[1]


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "efficientnet_lite0"])
def test_a_network_whose_weights_are_there(photographs, tmp_path, name):
    folder = photographs(6, 2, (160, 120))
    cache(name, 224, tmp_path)
    recipe = choose_recipe(folder)
    assert (recipe.backbone.name, recipe.backbone.weights) == (name, "imagenet")
    assert (recipe.data.image_size, recipe.pooling.name) == (224, "gap")
    assert recipe.training.learning_rate < 1e-3


def test_weights_have_the_name_that_their_network_gives_them(photographs, tmp_path, monkeypatch):
    folder = photographs(6, 2, (300, 200))
    monkeypatch.setattr("kagglehub.config.get_cache_folder", lambda: str(tmp_path))
    monkeypatch.setattr(choices, "_side", lambda network, wanted: wanted)  # builds the network
    recipe = choose_recipe(folder, backbone="dinov2_small")
    assert recipe.backbone.weights is None
    said = choices_text(recipe, load_images(recipe.data))
    assert (
        "dinov2_small from random weights; --backbone.weights lvd142m takes its own, which are not "
        "on this machine: keras-hub downloads them from kaggle://keras/dinov2/" in said
    )
    place = said.split("kaggle://")[1].splitlines()[0]
    (tmp_path / "models" / place).mkdir(parents=True)
    (tmp_path / "models" / place / "model.weights.h5").touch()
    assert choose_recipe(folder, backbone="dinov2_small").backbone.weights == "lvd142m"


def test_every_network_takes_the_weights_that_are_chosen_for_it(photographs, monkeypatch):
    folder, local = photographs(6, 2), backbones.WeightsSource(True, "here")
    monkeypatch.setattr(choices, "_side", lambda network, wanted: wanted)
    monkeypatch.setattr(backbones, "weights_source", lambda *_: local)
    for name in backbones.names():
        own = backbones.pretrained(name)
        if own and name != "hub":
            assert choose_recipe(folder, backbone=name).backbone.weights in own, name


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        ("conv4", ": no ImageNet weights in "),
        ("resnet20", ": no pretrained ones come with it"),
        ("resnet50", "; --backbone.weights imagenet takes its own, which are on this machine"),
    ],
)
def test_why_weights_are_random(photographs, tmp_path, network, reason):
    folder = photographs(6, 2)
    cache("resnet50", 32, tmp_path)
    recipe = replace(choose_recipe(folder), backbone=BackboneRecipe(network))
    said = choices_text(recipe, load_images(recipe.data))
    assert f"{network} from random weights{reason}" in said


def test_a_network_gets_images_that_give_a_map_of_4_x_4(photographs, monkeypatch):
    monkeypatch.setattr(backbones.registry, "_BUILDERS", dict(backbones.registry._BUILDERS))

    @backbones.register("coarse")
    def build(input_shape):
        if input_shape[0] % 64:
            raise ValueError("coarse takes images of a side that 64 divides")
        images = keras.Input(input_shape)
        return keras.Model(images, keras.layers.AveragePooling2D(40)(images))

    data = choose_recipe(photographs(6, 2), backbone="coarse").data
    assert data.image_size == 192


def test_too_few_classes(photographs, capsys):
    folder = photographs(5, 2)
    for command in ("train", "check"):
        assert run(command, folder) == 1
        assert "5 classes with enough images, and 6 or more are needed" in capsys.readouterr().err


SHORT = ["--training.epochs", "1", "--training.steps_per_epoch", "1", "--pooling.name", "gap"]


def test_a_messy_folder_trains(photographs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Run, "show", lambda self: None)
    folder = photographs(7, 4)
    (folder / "__MACOSX").mkdir()
    (folder / "empty").mkdir()
    (folder / "single").mkdir()
    shutil.copy(folder / "class 0" / "0.png", folder / "single")
    (folder / "class 0" / "broken.jpg").write_bytes(b"no image")
    (folder / "notes.txt").write_text("mine")
    extra = tmp_path / "extra.yaml"
    extra.write_text("embedding: {dim: 8}")
    assert run("train", folder, extra, *SHORT) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0].startswith("photographs  28 of 7 classes (4 each)")
    assert "" in lines[:11] and "last map                8 x 8 x 64" in lines
    assert "broken.jpg" in printed.err and "single" in printed.err
    run_folder = RunFolder("runs/my_images-0")
    recipe = run_folder.recipe()
    assert (recipe.training.epochs, recipe.pooling.name, recipe.embedding.dim) == (1, "gap", 8)
    assert recipe.loss.name == choose_recipe(folder).loss.name
    assert len(Run(run_folder.path).splits.test) == 8
    options = ["--initial_run", "runs/my_images-0", *SHORT[:4]]
    assert run("check", folder, *options) == 0
    printed = capsys.readouterr()
    assert "network      conv4 as runs/my_images-0 trained it" in printed.out
    assert "embedding               8 dimensions" in printed.out
    assert run("check", folder, *SHORT) == 0
    printed = capsys.readouterr()
    assert "run folder              runs/my_images-0-2" in printed.out
    assert "runs/my_images-0 exists, so this run goes to runs/my_images-0-2" in printed.err


def test_all_that_is_missing_is_said_at_once(photographs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("socket.getaddrinfo", _no_network)
    (tmp_path / "taken").write_text("mine")
    options = ["--backbone.name", "mobilenet_v2", "--backbone.weights", "imagenet"]
    options += ["--data.image_size", "32", "--data.classes_per_batch", "9", "--run", "taken"]
    options += ["--pooling.name", "gsp"]
    assert run("check", photographs(), *options) == 1
    printed = capsys.readouterr()
    assert "Missing (3):" in printed.out
    assert "must be at most 6, received 9: 6 classes train of 10" in printed.out
    assert "1.0_224_no_top.h5, which is not there" in printed.out
    assert "taken exists" in printed.out
    assert "The last map of mobilenet_v2 is 1 x 1" in printed.err


def test_weights_that_can_be_downloaded_are_announced(photographs, monkeypatch, capsys):
    monkeypatch.setattr("socket.getaddrinfo", lambda *arguments: [])
    options = ["--backbone.name", "mobilenet_v2", "--backbone.weights", "imagenet"]
    options += ["--data.image_size", "96"]  # the smallest with weights
    assert run("check", photographs(), *options) == 0
    assert "which Keras will download, about 9 MB" in capsys.readouterr().out


def _no_network(*arguments):
    raise OSError("Name or service not known")
