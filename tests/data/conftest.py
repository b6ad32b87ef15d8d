import miniatures
import numpy as np
import pytest

from gsp_tf.experiment import load_folds, load_splits
from gsp_tf.recipe import DataRecipe, ProtocolRecipe, Recipe


@pytest.fixture
def save_image():
    """Function that saves a small image of one colour, and makes its folder."""
    return miniatures.save_image


@pytest.fixture
def check_protocols():
    """Function that loads a set of 10 training classes under every protocol."""

    def check(name, path):
        def recipe(protocol, **arguments):
            data = DataRecipe(name, str(path), image_size=8)
            return Recipe(data=data, protocol=ProtocolRecipe(protocol, **arguments))

        conventional = load_splits(recipe("conventional"))
        training, test = conventional.train.class_names, conventional.test.class_names
        assert len(training) == 10 and not set(training) & set(test)
        assert conventional.validation is conventional.test
        ablation = load_splits(recipe("ablation"))
        assert ablation.train.class_names == training[:7]
        assert ablation.validation.class_names == training[7:]
        assert ablation.test.class_names == test
        tuning = load_splits(recipe("tuning"))
        assert tuning.train.class_names == training[:8]
        assert tuning.test.class_names == training[8:]
        folds = load_folds(recipe("mlrc"))
        validation = [fold.validation.class_names for fold in folds]
        assert sum(validation, ()) == training
        for fold in folds:
            assert not set(fold.train.class_names) & set(fold.validation.class_names)
            assert fold.test.class_names == test
        with pytest.raises(ValueError, match=f"{name} has official halves.*choose .*name=mlrc"):
            load_splits(recipe("fractions"))
        grid = recipe("ablation")
        grid.data.collage.grid = 2
        with pytest.raises(ValueError, match=f"grid must be 0 with data.name={name}"):
            load_splits(grid)
        return conventional

    return check


@pytest.fixture
def broken_image():
    """Function that overwrites an image with what cannot be decoded."""

    def overwrite(path):
        path.write_bytes(np.arange(50, dtype=np.uint8).tobytes())

    return overwrite
