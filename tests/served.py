"""Fixtures of the tests of search and of export."""

import functools
import re
import shutil

import numpy as np
import pytest
from digit_runs import run_command
from embedded import RECIPE, save_digits, save_run, untrained_run
from PIL import Image
from sklearn.datasets import load_sample_image

from gsp_tf._files import file_sha256
from gsp_tf.recipe import load_recipe
from gsp_tf.search import RunModel, build_index, embed_images


@pytest.fixture(scope="package", autouse=True)
def models_are_loaded_once():
    """Every `RunModel` of the same model file shares what is loaded and traced of it."""
    shared = {}

    def sharing(name):
        compute = getattr(RunModel, name).func

        def value(model):
            file = model.folder.model_path
            key = name, file_sha256(file), model.recipe.data.image_size
            if key not in shared:
                shared[key] = compute(model)
            return shared[key]

        replacement = functools.cached_property(value)
        replacement.__set_name__(RunModel, name)
        return replacement

    with pytest.MonkeyPatch.context() as patch:
        for name in ("embedder", "_forward", "_token_model"):
            patch.setattr(RunModel, name, sharing(name))
        yield


@pytest.fixture(scope="session")
def recipe_file(tmp_path_factory):
    """A recipe on parts of photographs: JPEG files, some turned by EXIF, and PNG files."""
    folder = tmp_path_factory.mktemp("data")
    photograph = Image.fromarray(load_sample_image("china.jpg"))
    rng = np.random.default_rng(0)
    for c in range(8):
        (folder / "images" / f"place {c}").mkdir(parents=True)
        for i in range(4):
            width, height = (int(side) for side in rng.integers(18, 200, 2))
            part = photograph.crop((70 * c, 40, 70 * c + width, 40 + height))
            path = folder / "images" / f"place {c}" / f"{i}"
            if i == 0:
                part.save(path.with_suffix(".png"))
            else:
                tags = Image.Exif()
                tags[0x0112] = 6 if i == 1 else 1
                part.save(path.with_suffix(".jpg"), exif=tags)
    file = folder / "recipe.yaml"
    pooling = "{name: gsp, num_prototypes: 4}"
    text = RECIPE.format(path=folder / "images", channels=3, pooling=pooling)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def run(recipe_file):
    """Run folder of the recipe."""
    return untrained_run(recipe_file.parent / "run", load_recipe(recipe_file))


@pytest.fixture
def make_run(recipe_file, tmp_path):
    """Function from options of the recipe to a run folder."""
    return lambda *options: untrained_run(tmp_path / "run", load_recipe(recipe_file, options))


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """Handwritten digits as a folder of PNG files, 8 of each of 10 classes."""
    return save_digits(tmp_path_factory.mktemp("images") / "Ziffern é")


@pytest.fixture(scope="session")
def query(images):
    """One of the images, which others of its class are near."""
    return sorted((images / "<b>7").iterdir())[3]


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory, images):
    """A run folder, to be copied."""
    return save_run(tmp_path_factory.mktemp("runs") / "run", images)


@pytest.fixture(scope="session")
def prepared_run(finished_run, images, tmp_path_factory):
    """A run with the embeddings of all images, in shards of 16, and their index; to be copied."""
    path = shutil.copytree(finished_run, tmp_path_factory.mktemp("prepared") / "run")
    build_index(embed_images(path, [images], shard_size=16))
    return path


@pytest.fixture
def command(capfd):
    """Function that gives the exit code, the output and the errors of a command."""

    return lambda *arguments: (run_command(*arguments), *capfd.readouterr())


@pytest.fixture
def printed_by(command):
    """Function that gives the output of a command that succeeds."""

    def call(*arguments):
        code, output, errors = command(*arguments)
        assert code == 0, errors
        return output

    return call


@pytest.fixture
def refused(command):
    """Function that finds a pattern in why a command is refused, on one line; gives its output."""

    def call(pattern, *arguments):
        code, output, errors = command(*arguments)
        why = " ".join(errors.split())
        assert code == 1 and re.search(pattern, why) and "Traceback" not in why, (arguments, why)
        return output

    return call


@pytest.fixture(scope="session")
def embedded(prepared_run):
    """The embeddings of all images, 80 of them, in shards of 16; to be copied."""
    return prepared_run / "embeddings"


@pytest.fixture
def digits_run(finished_run, tmp_path):
    """A run folder of one's own."""
    return shutil.copytree(finished_run, tmp_path / "run")
