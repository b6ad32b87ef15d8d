"""Small runs on handwritten digits: their images, recipes and commands."""

import contextlib
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from gsp_tf.cli import main
from gsp_tf.runs import RunFolder, open_run
from gsp_tf.training import RetrievalEvaluation

RECIPE = """
name: digits
data:
  name: folder
  path: {path}
  channels: 1
  image_size: 16
  split_fractions: [0.4, 0.3, 0.3]
  classes_per_batch: 4
  images_per_class: 4
backbone: {{name: conv4}}
embedding: {{dim: 8}}
pooling: {{name: gap}}
training: {{epochs: 2, steps_per_epoch: 3}}
"""


def write_digits(folder, per_class=20, name="Ziffer {} é", size=(20, 20)):
    """The digits as PNG files, with one folder for each of the ten classes."""
    images, labels = load_digits(return_X_y=True)
    for digit in range(10):
        of_class = folder / name.format(digit)
        of_class.mkdir(parents=True)
        for i in np.flatnonzero(labels == digit)[:per_class]:
            pixels = (images[i].reshape(8, 8) * 15.9).astype("uint8")
            Image.fromarray(pixels).resize(size).save(of_class / f"bild {i}.png")
    return folder


def recipe_of_digits(digits, sections=""):
    """The text of a recipe on the digits; `sections` replace sections of the same name."""
    names = [line.split(":")[0] for line in sections.splitlines() if line[:1].isalpha()]
    kept, drop = [], False
    for line in RECIPE.format(path=digits).splitlines():
        drop = line.split(":")[0] in names if line[:1].isalpha() else drop
        kept += [] if drop else [line]
    return "\n".join([*kept, sections])


def with_noise_to_test(run, path):
    """A copy of a run with images of its own, of which noise replaces those of test."""
    folder = RunFolder(shutil.copytree(run, path / "run"))
    recipe = folder.recipe()
    images = shutil.copytree(recipe.data.path, path / "images")
    folder.write_recipe(replace(recipe, data=replace(recipe.data, path=str(images))))
    rng = np.random.default_rng(0)
    for file in open_run(folder.path).folds[0].test.paths:
        Image.fromarray(rng.integers(0, 256, (20, 20), "uint8")).save(file)
    return folder


@contextlib.contextmanager
def eagerly():
    """Functions of TensorFlow are not traced here: few steps cost less than a graph."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


@contextlib.contextmanager
def interrupted_in(epoch):
    """Ctrl-C ends a training at the end of an epoch, which is counted from 0."""

    def stop(callback, number, logs, original=RetrievalEvaluation.on_epoch_end):
        if number == epoch:
            raise KeyboardInterrupt
        original(callback, number, logs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RetrievalEvaluation, "on_epoch_end", stop)
        yield


def run_command(*arguments):
    """Exit code of a command in this process."""
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    return exit.value.code
