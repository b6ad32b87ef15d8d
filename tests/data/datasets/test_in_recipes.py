"""The splits that recipes make of the published sets."""

import pytest
from miniatures import CLOTHES, HUNDRED

from gsp_tf import data
from gsp_tf.recipe import CollageRecipe, DataRecipe, ProtocolRecipe, Recipe
from gsp_tf.runs import load_splits


def recipe(name, path, protocol="fractions", image_size=8, **arguments):
    images = DataRecipe(name, str(path), image_size=image_size, **arguments)
    return Recipe(data=images, protocol=ProtocolRecipe(protocol))


def num_classes(splits):
    return [len(images.class_names) for images in splits[:3]]


def test_every_protocol_on_official_halves(tmp_path, published):
    published(CLOTHES.load, CLOTHES.counts)
    CLOTHES.write(tmp_path)

    def of(protocol="fractions", **arguments):
        return recipe("in_shop", tmp_path, protocol, **arguments)

    conventional = load_splits(of("conventional"))
    training, test = conventional.train.class_names, conventional.test.class_names
    assert len(training) == 10 and not set(training) & set(test)
    assert conventional.gallery.class_names == test
    ablation = load_splits(of("ablation"))
    assert ablation.train.class_names == training[:7]
    assert ablation.validation.class_names == training[7:]
    assert ablation.test.class_names == test
    tuning = load_splits(of("tuning"))
    assert (tuning.train.class_names, tuning.test.class_names) == (training[:8], training[8:])
    with pytest.raises(ValueError, match="in_shop has official halves.*choose .*name=mlrc"):
        load_splits(of())
    with pytest.raises(ValueError, match="grid must be 0 with data.name=in_shop"):
        load_splits(of("ablation", collage=CollageRecipe(grid=2)))


def test_collages(tmp_path, published):
    published(data.load_cifar_collage, HUNDRED.counts)
    HUNDRED.write(tmp_path)

    def collages(protocol="fractions", **arguments):
        return recipe("cifar_collage", tmp_path, protocol, 64, collage=CollageRecipe(**arguments))

    assert num_classes(load_splits(collages())) == [32, 16, 32]
    assert num_classes(load_splits(collages(label="super_class"))) == [16, 16, 16]
    with pytest.raises(ValueError, match="cifar_collage brings its own splits: .*name=fractions"):
        load_splits(collages("ablation"))
    with pytest.raises(ValueError, match="grid must be 1 or 2, received 3"):
        load_splits(collages(grid=3))
