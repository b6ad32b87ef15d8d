import shutil

import numpy as np
import pytest
from embedded import save_run
from PIL import Image
from sklearn.datasets import load_digits

from gsp_tf.cli import main


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """Handwritten digits as a folder of PNG files, 8 of each of 10 classes."""
    folder = tmp_path_factory.mktemp("images") / "Ziffern é"
    pixels, labels = load_digits(return_X_y=True)
    for digit in range(10):
        (folder / f"<b>{digit}").mkdir(parents=True)
        for i in np.flatnonzero(labels == digit)[:8]:
            picture = Image.fromarray((pixels[i].reshape(8, 8) * 15.9).astype("uint8"))
            picture.resize((24, 20)).save(folder / f"<b>{digit}" / f"bild {i}.png")
    return folder


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory, images):
    """A run folder, to be copied."""
    return save_run(tmp_path_factory.mktemp("runs") / "run", images)


@pytest.fixture
def digits_run(finished_run, tmp_path):
    """A run folder of one's own."""
    return shutil.copytree(finished_run, tmp_path / "run")


@pytest.fixture
def command(capfd):
    """Function that gives the exit code, the output and the errors of a command."""

    def call(*arguments):
        with pytest.raises(SystemExit) as exit:
            main([str(argument) for argument in arguments])
        return exit.value.code, *capfd.readouterr()

    return call
