import contextlib
import errno
import gc
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Keras and this library are imported within fixtures: the process that only hands out the tests
# does without them.

# Every run has the same cases; `--hypothesis-profile explore --hypothesis-seed N` tries others.
# A slow machine does not fail a test.
UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **UNHURRIED)
settings.register_profile("explore", print_blob=True, **UNHURRIED)
settings.load_profile("repeatable")

ORACLES = Path(__file__).parent / "oracles"


def pytest_collection_finish():
    """Exclude the objects that imports created from garbage collection, which then runs rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(7000)


@pytest.fixture(autouse=True)
def default_keras_state():
    """Seed every test, and restore Keras' global settings after it."""
    import keras
    from tensorflow.python import pywrap_tfe

    # TensorFlow would also forget the kernels of its operations, and every test would make them
    # again. That resets random kernels with a state of their own, which nothing here uses.
    with mock.patch.object(pywrap_tfe, "TFE_ContextClearCaches"):
        keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")
    keras.config.set_image_data_format("channels_last")


@pytest.fixture(scope="session", autouse=True)
def coarse_maps():
    """The maps of reports take few iterations of t-SNE; the tests of t-SNE take all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gsp_tf.visual.plane._ITERATIONS", 250)
        yield


@pytest.fixture
def published(monkeypatch):
    """Function that makes a loader expect the counts of a miniature."""

    def publish(load, counts):
        monkeypatch.setitem(load.__kwdefaults__, "counts", counts)

    return publish


@pytest.fixture
def locked_folder(monkeypatch):
    """Make folders called `locked` unreadable, even for root."""
    scan = os.scandir

    def scandir(path):
        if os.path.basename(path) == "locked":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)


HOLD = """
import sys
from gsp_tf._files import locked

with locked(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def locked_elsewhere():
    """Context manager that yields another process, which holds the lock of a folder."""

    @contextlib.contextmanager
    def hold(folder):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", HOLD, folder], **pipes) as process:
            assert process.stdout.readline() == b"locked\n"
            yield process

    return hold


@pytest.fixture
def oracle():
    def load(name):
        return dict(np.load(ORACLES / f"{name}.npz"))

    return load


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """Scikit-learn's handwritten digits as a folder of PNG files, 20 per class."""
    from runs import write_digits

    return write_digits(tmp_path_factory.mktemp("handwritten digits"))


@pytest.fixture(scope="session")
def write_recipe(tmp_path_factory, digits):
    """Function that writes a recipe on the digits with some sections replaced."""
    from runs import recipe_of_digits

    def write(sections=""):
        path = tmp_path_factory.mktemp("recipes") / "recipe.yaml"
        path.write_text(recipe_of_digits(digits, sections), encoding="utf-8")
        return path

    return write


GSP = """
pooling: {name: gsp, num_prototypes: 4}
zero_shot: {weight: 0.1, embedding_dim: 8}
training: {epochs: 2, steps_per_epoch: 8, adapt_batches: 1}
evaluation: {clustering: true}
"""


@pytest.fixture(scope="session")
def trained(write_recipe, tmp_path_factory):
    """A finished run with GSP to read or copy: `path`, `recipe` file and printed text."""
    from runs import run_command

    path, recipe = tmp_path_factory.mktemp("runs") / "run", write_recipe(GSP)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run_command("train", recipe, "--run", path, "--seed", "3") == 0
    return SimpleNamespace(path=path, recipe=recipe, printed=printed.getvalue())
