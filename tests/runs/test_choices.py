import shutil
from dataclasses import replace
from unittest.mock import Mock

import keras
import numpy as np
import pytest
from PIL import Image

from gsp_tf import backbones
from gsp_tf.data import load_folder
from gsp_tf.recipe import BackboneRecipe
from gsp_tf.runs import Run, RunFolder, choices_text, choose_recipe, load_images, load_splits


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


@pytest.mark.parametrize(("num_classes", "each", "batch"), [(6, 2, (2, 2)), (40, 3, (10, 3))])
def test_batches_have_no_more_classes_than_train(photographs, num_classes, each, batch):
    data = choose_recipe(photographs(num_classes, each)).data
    assert (data.classes_per_batch, data.images_per_class) == batch


def test_large_photographs_are_decoded_once_as_large_as_the_smallest_crop_needs(photographs):
    folder = photographs(6, 2, (800, 600))
    recipe = choose_recipe(folder)
    assert (recipe.backbone.name, recipe.backbone.weights) == ("conv4", None)
    assert recipe.pooling.name == "gsp" and recipe.data.horizontal_flip
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


def test_a_network_whose_weights_are_there(photographs, tmp_path):
    folder = photographs(6, 2, (160, 120))
    cache("efficientnet_lite0", 224, tmp_path)
    recipe = choose_recipe(folder)
    assert (recipe.backbone.name, recipe.backbone.weights) == ("efficientnet_lite0", "imagenet")
    assert (recipe.data.image_size, recipe.pooling.name) == (224, "gap")
    assert recipe.training.learning_rate < 1e-3


def test_why_weights_are_random(photographs, tmp_path):
    cache("resnet50", 32, tmp_path)
    recipe = choose_recipe(photographs(6, 2))
    for network, reason in (
        ("conv4", ": no ImageNet weights in "),
        ("resnet20", ": no pretrained ones come with it"),
        ("resnet50", "; --backbone.weights imagenet takes its own, which are on this machine"),
        ("mobilenet_v2", "; --backbone.weights imagenet takes its own, which are not on this mach"),
    ):
        of_network = replace(recipe, backbone=BackboneRecipe(network))
        said = choices_text(of_network, load_images(recipe.data))
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


def test_too_few_classes(photographs, refused):
    reason = "5 classes with enough images, and 6 or more are needed"
    refused(reason, "train", photographs(5, 2))


SHORT = ["--training.epochs", "1", "--training.steps_per_epoch", "1", "--pooling.name", "gap"]


def test_a_messy_folder_trains(photographs, tmp_path, command, monkeypatch):
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
    code, printed, notes = command("train", folder, extra, *SHORT)
    lines = printed.splitlines()
    assert code == 0 and lines[0].startswith("photographs  28 of 7 classes (4 each)")
    assert "" in lines[:11] and "last map                8 x 8 x 64" in lines
    assert "broken.jpg" in notes and "single" in notes
    run_folder = RunFolder("runs/my_images-0")
    recipe = run_folder.recipe()
    assert (recipe.training.epochs, recipe.pooling.name, recipe.embedding.dim) == (1, "gap", 8)
    assert recipe.loss.name == choose_recipe(folder).loss.name
    assert len(Run(run_folder.path).splits.test) == 8
    options = "--initial_run", "runs/my_images-0", *SHORT[:4]
    code, printed, notes = command("check", folder, *options)
    assert code == 0 and "network      conv4 as runs/my_images-0 trained it" in printed
    assert "embedding               8 dimensions" in printed
    assert "run folder              runs/my_images-0-2" in printed
    assert "runs/my_images-0 exists, so this run goes to runs/my_images-0-2" in notes


def test_all_that_is_missing_is_said_at_once(photographs, tmp_path, monkeypatch, command):
    monkeypatch.setattr("socket.getaddrinfo", Mock(side_effect=OSError))
    (tmp_path / "taken").write_text("mine")
    options = ["--backbone.name", "mobilenet_v2", "--backbone.weights", "imagenet"]
    options += ["--data.image_size", "32", "--data.classes_per_batch", "9", "--run", "taken"]
    options += ["--pooling.name", "gsp"]
    code, printed, notes = command("check", photographs(), *options)
    assert code == 1 and "Missing (3):" in printed
    assert "must be at most 6, received 9: 6 classes train of 10" in printed
    assert "1.0_224_no_top.h5, which is not there" in printed and "taken exists" in printed
    assert "The last map of mobilenet_v2 is 1 x 1" in notes


def test_weights_that_can_be_downloaded_are_announced(photographs, monkeypatch, printed_by):
    monkeypatch.setattr("socket.getaddrinfo", lambda *arguments: [])
    options = ["--backbone.name", "mobilenet_v2", "--backbone.weights", "imagenet"]
    options += ["--data.image_size", "96"]  # the smallest with weights
    printed = printed_by("check", photographs(), *options)
    assert "which Keras will download, about 9 MB" in printed
