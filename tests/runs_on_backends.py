"""Commands, models of runs and the README's example, on the backend KERAS_BACKEND.

Arguments: a recipe, a run folder to make, a run of another backend, a file for the embeddings by
both models, and the images to embed.
"""

import re
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from digit_runs import run_command

from gsp_tf.search import RunModel

ROOT = Path(__file__).parent.parent


def run_and_embed(recipe, run, other, out, images):
    """Train and export a run; save the embeddings of images by its model and another."""
    assert run_command("train", recipe, "--run", run) == 0
    assert run_command("export", run, "--format", "keras") == 0
    assert run_command("export", run, "--format", "onnx") == 1
    models = {"here": RunModel(run), "there": RunModel(other)}
    np.savez(out, **{name: m.embed_images(images).embeddings for name, m in models.items()})


def run_readme():
    """The README's example, with one step of training."""
    patch, fit = pytest.MonkeyPatch(), keras.Model.fit
    short = {"epochs": 1, "steps_per_epoch": 1}
    patch.setattr(keras.Model, "fit", lambda *args, **options: fit(*args, **options | short))
    namespace = {"monkeypatch": patch}
    text = (ROOT / "README.md").read_text("utf-8")
    for code in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(code, namespace)
    patch.undo()


if __name__ == "__main__":
    recipe, run, other, out, *images = sys.argv[1:]
    run_and_embed(recipe, run, other, out, images)
    run_readme()
