import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "backbones" / "reference.py"


@pytest.fixture(scope="session")
def reference():
    """The module that evaluates the networks with PyTorch and makes the random weights."""
    specification = importlib.util.spec_from_file_location("backbones_reference", TOOL)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def converted(reference, tmp_path_factory):
    """Path of the Keras weights that are converted from the random weights, by architecture."""
    from safetensors.numpy import save_file

    from gsp_tf.backbones import convert_weights

    folder = tmp_path_factory.mktemp("converted")
    paths = {}

    def path(architecture):
        if architecture not in paths:
            state_dict = folder / f"{architecture}.safetensors"
            save_file(reference.random_state(architecture), state_dict)
            paths[architecture] = folder / f"{architecture}.weights.h5"
            convert_weights(state_dict, architecture, paths[architecture])
        return paths[architecture]

    return path
