"""The kernel gives the same numbers on every backend of Keras."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from on_backends import outcomes

SCRIPT = Path(__file__).parent / "on_backends.py"


@pytest.fixture(scope="module")
def on_tensorflow():
    return outcomes()


@pytest.mark.parametrize("backend", ["torch"])
def test_values_and_gradients_are_those_of_tensorflow(on_tensorflow, backend, tmp_path):
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": paths}
    path = tmp_path / "outcomes.npz"
    subprocess.run([sys.executable, SCRIPT, path], check=True, env=environment)
    found = dict(np.load(path))
    assert not found.pop("uses_tensorflow")
    assert set(found) == set(on_tensorflow)
    for name, expected in on_tensorflow.items():
        tolerance = 1e-5 * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(found[name], expected, 1e-4, tolerance, err_msg=name)
