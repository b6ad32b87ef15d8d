import functools
import gc
import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

TOOLS = Path(__file__).parents[2] / "tools" / "backbones"
HEADS = {
    "bn_inception": {
        "last_linear.weight": (1000, 1024),
        "last_linear.bias": (1000,),
        "conv1_7x7_s2_bn.num_batches_tracked": (),
    },
    "googlenet": {
        "fc.weight": (10, 1024),
        "aux1.conv.bn.running_var": (128,),
        "aux2.fc1.weight": (16, 2048),
        "conv1.bn.num_batches_tracked": (),
    },
}


@pytest.fixture(autouse=True)
def networks_are_given_back():
    """Large networks, which refer to themselves, wait for no collection."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def import_tool():
    """Function that imports a module of tools/backbones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOLS)
        yield importlib.import_module


@pytest.fixture(scope="session")
def reference(import_tool):
    """The module that evaluates the networks with PyTorch and makes the random weights."""
    return import_tool("reference")


@pytest.fixture(scope="session")
def state_of(reference):
    """Random state dict of an architecture."""
    return functools.cache(reference.random_state)


@pytest.fixture(scope="session")
def converted(state_of, tmp_path_factory):
    """Result of the conversion of the random weights with heads, by architecture.

    Those of BN-Inception are written by PyTorch in its older format, which the published file has,
    those of GoogLeNet as safetensors.
    """
    import torch
    from safetensors.numpy import save_file

    from gsp_tf.backbones import convert_weights

    folder = tmp_path_factory.mktemp("converted")

    @functools.cache
    def convert(architecture):
        heads = {key: np.zeros(shape, "float32") for key, shape in HEADS[architecture].items()}
        arrays, out = {**heads, **state_of(architecture)}, folder / f"{architecture}.weights.h5"
        if architecture == "bn_inception":
            path = folder / f"{architecture}.pth"
            tensors = {key: torch.from_numpy(value) for key, value in arrays.items()}
            torch.save(tensors, path, _use_new_zipfile_serialization=False)
        else:
            path = folder / f"{architecture}.safetensors"
            save_file(arrays, path)
        result = convert_weights(path, architecture, out)
        return SimpleNamespace(path=out, result=result, heads=sorted(heads))

    return convert


@pytest.fixture(scope="session")
def network(converted):
    """Function that gives a network with the random weights and both maps, built once."""
    from gsp_tf import backbones

    return functools.cache(
        lambda name: backbones.create(name, weights=converted(name).path, intermediate=True)
    )
