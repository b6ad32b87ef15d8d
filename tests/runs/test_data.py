from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gsp_tf._names import NAMES
from gsp_tf.data import ArrayImages, CanvasImages
from gsp_tf.recipe import CanvasRecipe, CollageRecipe, DataRecipe, ProtocolRecipe, Recipe
from gsp_tf.runs import load_folds, load_splits


@pytest.fixture
def manifest(tmp_path):
    """Function that writes a manifest from (class, split, number of images) and gives a recipe."""

    def write(rows, protocol):
        lines = ["path,label,split"]
        for name, split, count in rows:
            for i in range(count):
                file = f"{name}-{split}-{i}.png"
                Image.new("L", (8, 8)).save(tmp_path / file)
                lines.append(f"{file},{name},{split}")
        (tmp_path / "images.csv").write_text("\n".join(lines), encoding="utf-8")
        data = DataRecipe("manifest", str(tmp_path / "images.csv"), image_size=8, channels=1)
        return Recipe(data=data, protocol=protocol)

    return write


def names(images):
    return list(images.class_names)


def folder_recipe(digits, protocol):
    return Recipe(
        data=DataRecipe("folder", str(digits), image_size=16, channels=1), protocol=protocol
    )


def test_mlrc_halves_and_folds_of_a_folder(digits):
    digit = [f"Ziffer {i} é" for i in range(10)]
    folds = load_folds(folder_recipe(digits, ProtocolRecipe("mlrc", num_folds=2)))
    assert [names(splits.validation) for splits in folds] == [digit[:3], digit[3:5]]
    assert [names(splits.train) for splits in folds] == [digit[3:5], digit[:3]]
    assert all(names(splits.test) == digit[5:] and splits.gallery is None for splits in folds)
    one = load_splits(folder_recipe(digits, ProtocolRecipe("mlrc", num_folds=2, fold=1)))
    assert names(one.validation) == digit[3:5] and names(one.train) == digit[:3]


def test_the_digest_changes_with_a_label(manifest):
    splits = "train", "validation", "test"
    rows = [(f"{split}{name}", split, 3) for split in splits for name in "ab"]
    recipe = manifest(rows, ProtocolRecipe())
    before = load_splits(recipe)
    path = Path(recipe.data.path)
    path.write_text(path.read_text().replace("0.png,traina", "0.png,trainb"))
    after = load_splits(recipe)
    assert after.train.paths == before.train.paths and after.digest() != before.digest()
    assert after.digest("test", "gallery") == before.digest("test", "gallery")


IN_SHOP = [
    *((f"train{i}", "train", 3) for i in range(8)),
    *((f"test{i}", "query", 1) for i in range(5)),
    *((f"test{i}", "gallery", 2) for i in range(1, 7)),
]


@pytest.mark.parametrize(
    ("rows", "protocol", "message"),
    [
        (
            [*IN_SHOP, ("other", "test", 2), ("more", "test", 2)],
            ProtocolRecipe("ablation"),
            "either test, or query and gallery; received both",
        ),
        (
            [row for row in IN_SHOP if row[1] != "gallery"],
            ProtocolRecipe("ablation"),
            "no rows with split gallery; needed are gallery, query, train",
        ),
        (
            [*IN_SHOP, ("a", "validation", 2), ("b", "validation", 2)],
            ProtocolRecipe("mlrc", fold=0),
            "rows with split validation, and a protocol divides",
        ),
        (IN_SHOP, ProtocolRecipe(), "no rows with split validation"),
    ],
)
def test_manifests_that_do_not_fit_are_refused(manifest, rows, protocol, message):
    with pytest.raises(ValueError, match=message):
        load_splits(manifest(rows, protocol))


def test_a_grid_of_one_is_the_labelled_tile_alone():
    pixels = np.random.default_rng(0).integers(0, 256, (60, 6, 6, 1), "uint8")
    tiles = ArrayImages(pixels, np.arange(60) // 2, [str(label) for label in range(30)])

    def splits(grid):
        data = DataRecipe(image_size=6 * grid, collage=CollageRecipe(grid))
        return load_splits(Recipe(data=data), tiles)

    for alone, collages in zip(splits(1)[:3], splits(2)[:3], strict=True):
        assert alone.class_names == collages.class_names
        np.testing.assert_array_equal(alone.labels, collages.labels)
        np.testing.assert_array_equal(alone.image(3), collages.foreground.image(3))


@pytest.mark.parametrize("name", [name for name in NAMES["data"] if name != "glyphs"])
def test_every_data_set_needs_a_folder(name, tmp_path):
    divided = name in ("cifar_collage", "unlabelled")
    protocol = ProtocolRecipe("fractions" if divided else "ablation")
    pairs = {"views": 2, "classes_per_batch": 0, "unlabelled_per_batch": 8}
    data = DataRecipe(name, **(pairs if name == "unlabelled" else {}))
    with pytest.raises(ValueError, match=f"data.path is needed for data.name={name}"):
        load_splits(Recipe(data=data, protocol=protocol))
    with pytest.raises((FileNotFoundError, ValueError), match=str(tmp_path)):
        load_splits(Recipe(data=replace(data, path=str(tmp_path)), protocol=protocol))


@pytest.fixture
def on_canvases(digits):
    """Function that gives a recipe of digits on canvases of digits, with fields of the canvas."""

    def make(protocol=None, **fields):
        canvas = CanvasRecipe(**{"name": "folder", "path": str(digits), "tile_size": 5} | fields)
        data = DataRecipe("folder", str(digits), image_size=16, channels=1, canvas=canvas)
        return Recipe(data=data, protocol=protocol or ProtocolRecipe("ablation"))

    return make


def test_training_and_other_images_are_on_canvases_of_other_classes(on_canvases):
    splits = load_splits(on_canvases(share=0.25, seed=2))
    digit = [f"Ziffer {i} é" for i in range(10)]
    assert [names(part) for part in splits[:3]] == [digit[:3], digit[3:5], digit[5:]]
    for part, classes in zip(splits[:3], (digit[:5], digit[5:], digit[5:]), strict=True):
        assert isinstance(part, CanvasImages)
        assert (part.side, part.share, part.seed) == (16, 0.25, 2)
        assert names(part.tiles) == classes and part.tiles.images.shape[1:] == (5, 5, 1)
        assert part.image(0).shape == (16, 16, 1)
    assert splits.gallery is None


def test_models_share_the_canvases_of_their_test_images(on_canvases):
    first, second = load_folds(on_canvases(ProtocolRecipe("mlrc", num_folds=2)))
    assert first.test is second.test and first.train is not second.train
    conventional = load_splits(on_canvases(ProtocolRecipe("conventional")))
    assert conventional.validation is conventional.test
