"""Commands and models of runs, on the backend KERAS_BACKEND.

Arguments: a recipe, a run folder to make, a run of another backend, a file for the embeddings by
both models, and the images to embed.
"""

import sys

import numpy as np
from digit_runs import run_command

from gsp_tf.search import RunModel


def run_and_embed(recipe, run, other, out, images):
    """Train and export a run; save the embeddings of images by its model and another."""
    assert run_command("train", recipe, "--run", run) == 0
    assert run_command("export", run, "--format", "keras") == 0
    assert run_command("export", run, "--format", "onnx") == 1
    models = {"here": RunModel(run), "there": RunModel(other)}
    np.savez(out, **{name: m.embed_images(images).embeddings for name, m in models.items()})


if __name__ == "__main__":
    recipe, run, other, out, *images = sys.argv[1:]
    run_and_embed(recipe, run, other, out, images)
