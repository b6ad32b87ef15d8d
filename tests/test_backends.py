"""The backends of Keras give the same numbers, run the same programs and exchange models."""

from pathlib import Path

import in_float64
import numpy as np
import processes
import pytest
from digit_runs import run_command
from on_backends import outcomes

from gsp_tf.runs import RunFolder
from gsp_tf.search import RunModel

FOLDER = Path(__file__).parent
# Arguments: a recipe, a run folder to make, a run of another backend, a file for the embeddings by
# both models, and the images to embed.
RUN_AND_EMBED = """
import sys
import numpy as np
from digit_runs import run_command
from gsp_tf.search import RunModel

recipe, run, other, out, *images = sys.argv[1:]
assert run_command("train", recipe, "--run", run) == 0
assert run_command("export", run, "--format", "keras") == 0
assert run_command("export", run, "--format", "onnx") == 1
models = {"here": RunModel(run), "there": RunModel(other)}
np.savez(out, **{name: model.embed_images(images).embeddings for name, model in models.items()})
"""


@pytest.fixture(scope="module")
def on_tensorflow():
    return outcomes()


@pytest.mark.evidence  # JAX compiles for a minute; it computes in float32, as for users
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_values_and_gradients_are_those_of_tensorflow(on_tensorflow, backend, tmp_path):
    path = tmp_path / "outcomes.npz"
    float32 = {"KERAS_BACKEND": backend, "JAX_ENABLE_X64": "0"}
    processes.run_fresh(FOLDER / "on_backends.py", path, **float32)
    found = dict(np.load(path))
    assert not found.pop("uses_tensorflow")
    assert set(found) == set(on_tensorflow)
    for name, expected in on_tensorflow.items():
        tolerance = 1e-5 * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(found[name], expected, 1e-4, tolerance, err_msg=name)


@pytest.mark.evidence
def test_runs_move_between_backends(trained, digits, tmp_path, backend="torch"):
    run, out = tmp_path / "run", tmp_path / "embeddings.npz"
    images = sorted(map(str, digits.rglob("*.png")))[::20]
    arguments = trained.recipe, run, trained.path, out, *images
    command = "-c", RUN_AND_EMBED, *arguments
    said = processes.run_fresh(*command, folder=tmp_path, KERAS_BACKEND=backend)
    assert f"onnx runs on the TensorFlow backend; Keras runs on {backend} here" in said
    assert set(RunFolder(run).metrics()["versions"]) == {"gsp_tf", "keras", backend, "python"}
    found = np.load(out)
    for name, path in {"here": run, "there": trained.path}.items():
        expected = RunModel(path).embed_images(images).embeddings
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-5)
    assert run_command("train", "--resume", run, "--training.epochs", "3") == 0
    assert len(RunFolder(run).history()["loss"]) == 3


@pytest.mark.parametrize("name", [*in_float64.LOSSES, *in_float64.LAYERS])
def test_values_in_float64_are_those_of_tensorflow(name):
    expected, found = np.load(FOLDER / "oracles" / "float64.npz")[name], in_float64.outcome(name)
    np.testing.assert_allclose(found, expected, 1e-10, 1e-10)
    # A change of 1e-10 is one of about 1e-10. After a step in float32 it is none, or one of 1e-7.
    change = np.abs(in_float64.outcome(name, 1e-10) - found).max()
    if name != "PixelNormalization":  # which computes in float32
        assert 0 < change < 1e-8 * max(1.0, np.abs(found).max())
