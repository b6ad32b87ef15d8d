"""Keras weights from PyTorch state dicts."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import keras
import numpy as np

from gsp_tf._console import listed, to_install
from gsp_tf._files import replacing
from gsp_tf._names import Convertible
from gsp_tf._typing import PathLike
from gsp_tf.backbones._bn_inception import bn_inception
from gsp_tf.backbones._efficientnet_lite import efficientnet_lite, state_dict_prefix
from gsp_tf.backbones._googlenet import googlenet


def _of_safetensors(path):
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError as error:
        raise ImportError(
            f"safetensors reads {path}, and it is not installed: pip install safetensors."
        ) from error
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path}: {error}") from error
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(
            f"{path} has tensors of a type that NumPy does not have ({error}). Save them as F32."
        ) from error


def _of_torch(path):
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"PyTorch reads {path}, and it is not installed: {to_install('torch')}. A file of "
            "safetensors needs no PyTorch."
        ) from error
    _refuse_bombs(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged and hostile files raise any type
        raise ValueError(
            f"{path} is damaged, or not a state dict as torch.save(model.state_dict(), path) "
            "writes it: torch.load(path, weights_only=True) refuses it."
        ) from error
    if not isinstance(state, dict):
        raise ValueError(f"{path} holds a {type(state).__name__}, not a dict of tensors.")
    for key, value in state.items():
        if not isinstance(key, str):
            raise ValueError(f"{path} has a key that is not a name but a {type(key).__name__}.")
        if not isinstance(value, torch.Tensor):
            kind = type(value).__name__
            raise ValueError(f"{path}: its entry {key[:80]!r} is not a tensor but a {kind}.")
    # NumPy has no bfloat16.
    return {
        key: (value.detach().float() if value.is_floating_point() else value.detach()).numpy()
        for key, value in state.items()
    }


def _refuse_bombs(path):
    """Refuses a zip archive that unpacks to more than the file has, which PyTorch never writes."""
    if zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                unpacked = sum(record.file_size for record in archive.infolist())
        except (zipfile.BadZipFile, NotImplementedError) as error:
            raise ValueError(f"{path}: {error}.") from error
        if unpacked > path.stat().st_size:
            raise ValueError(f"{path}: its records claim more bytes than the file has.")


_NORMALIZATION = {
    "weight": "gamma",
    "bias": "beta",
    "running_mean": "moving_mean",
    "running_var": "moving_variance",
}
_HEAD = ("weight", "bias")
_AUXILIARY = (
    "conv.conv.weight",
    *(f"conv.bn.{name}" for name in (*_NORMALIZATION, "num_batches_tracked")),
    *(f"{layer}.{name}" for layer in ("fc1", "fc2") for name in _HEAD),
)
_MAX_NAMED = 5
_HEADER = 4096  # most bytes that HDF5 uses for a tensor besides its values


@dataclass(frozen=True)
class _Architecture:
    """A backbone, the start of a layer's keys from its name, and the keys to leave out."""

    build: Callable[[tuple], keras.Model]
    prefix: Callable[[str], str]
    heads: frozenset[str]


_ARCHITECTURES = {
    "bn_inception": _Architecture(
        bn_inception, str, frozenset(f"last_linear.{name}" for name in _HEAD)
    ),
    "googlenet": _Architecture(
        googlenet,
        lambda name: name.replace("_", "."),
        frozenset(f"fc.{name}" for name in _HEAD)
        | {f"{head}.{key}" for head in ("aux1", "aux2") for key in _AUXILIARY},
    ),
} | {
    f"efficientnet_lite{number}": _Architecture(
        partial(efficientnet_lite, number),
        partial(state_dict_prefix, number),
        frozenset(f"_fc.{name}" for name in _HEAD),
    )
    for number in range(3)
}
_AXES = {keras.layers.Conv2D: (2, 3, 1, 0), keras.layers.DepthwiseConv2D: (2, 3, 0, 1)}


@dataclass(frozen=True)
class _Conversion:
    """The file that was written, and the sorted keys that the backbone does not use."""

    path: Path
    num_tensors: int
    left_out: list[str]


def convert_weights(path: PathLike, architecture: Convertible, out: PathLike) -> _Conversion:
    """Convert the PyTorch state dict of a network to Keras weights of the same backbone.

    Args:
        path: `.safetensors` file, or with PyTorch installed a `.pth` (`.pt`, `.bin`), of a state
            dict as `torch.save(model.state_dict(), path)` writes it: bn_inception of the package
            `pretrainedmodels`, googlenet of torchvision, or efficientnet-lite of
            `efficientnet-lite-pytorch`, with or without classifiers and auxiliary heads. No code
            in it is run.
        architecture: the network.
        out: file to write; its name ends in `.weights.h5`. An existing file is replaced in one
            step. `create(architecture, weights=out)` loads it.

    Returns:
        `path`, `num_tensors` and the sorted keys `left_out` that the backbone does not use:
        classifier, auxiliary heads, counters of batches.

    Raises:
        ValueError: if the file lacks keys, has unknown keys, or has tensors of another shape or
            type or with values that are not finite. The message names the keys.
        ImportError: if the file is one of PyTorch and PyTorch is not installed.

    Example:
        >>> convert_weights("bn_inception.pth", "bn_inception", "bn_inception.h5")
        Traceback (most recent call last):
            ...
        ValueError: The file to write must end in .weights.h5, received bn_inception.h5.
    """
    if architecture not in _ARCHITECTURES:
        known = ", ".join(_ARCHITECTURES)
        raise ValueError(f"Unknown architecture {architecture!r}, known are {known}.")
    if not Path(out).name.endswith(".weights.h5"):
        raise ValueError(f"The file to write must end in .weights.h5, received {out}.")
    known = _ARCHITECTURES[architecture]
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    state = (_of_safetensors if path.suffix == ".safetensors" else _of_torch)(path)
    model = known.build((None, None, 3))
    variables = _variables(model, known.prefix)
    left_out = sorted(set(state) - set(variables))
    _refuse(path, "lacks", set(variables) - set(state))
    _refuse(path, "also has", set(left_out) - known.heads - _counters(variables))
    for key, (variable, axes) in variables.items():
        variable.assign(_checked(f"{path}: {key}", state[key], variable, axes))
    with replacing(out) as temporary:
        # HDF5 does not recover from a disk that fills up while it writes, so check the room first.
        temporary.write_bytes(bytes(4 * model.count_params() + _HEADER * len(variables)))
        model.save_weights(temporary)
    return _Conversion(Path(out), len(variables), left_out)


def _variables(model, prefix):
    """The variables of a backbone and, for kernels, their axes in PyTorch, by state dict keys."""
    variables = {}
    for layer in model.layers:
        if type(layer) in _AXES:
            name = prefix(layer.name)
            variables[f"{name}.weight"] = layer.kernel, _AXES[type(layer)]
            if layer.use_bias:
                variables[f"{name}.bias"] = layer.bias, None
        elif isinstance(layer, keras.layers.BatchNormalization):
            for key, attribute in _NORMALIZATION.items():
                variables[f"{prefix(layer.name)}.{key}"] = getattr(layer, attribute), None
    return variables


def _counters(keys):
    """Keys of the batch counters of PyTorch's batch normalisation."""
    mean = "running_mean"
    return {key.removesuffix(mean) + "num_batches_tracked" for key in keys if key.endswith(mean)}


def _checked(name, value, variable, axes):
    """A tensor of a state dict, in the shape of its variable."""
    shape = tuple(variable.shape)
    expected = shape if axes is None else tuple(shape[axes.index(axis)] for axis in range(4))
    # Weights that came from Caffe through Lua keep their vectors as (1, C).
    accepted = {expected, (1, *expected)} if axes is None else {expected}
    if value.shape not in accepted:
        raise ValueError(f"{name} must have shape {expected}, received {value.shape}.")
    if value.dtype.kind != "f":
        raise ValueError(f"{name} must be of floats, received {value.dtype}.")
    value = value.reshape(expected).astype("float32")
    if not np.isfinite(value).all():
        raise ValueError(f"{name} has values that are not finite.")
    return value if axes is None else value.transpose(axes)


def _refuse(path, verb, keys):
    if keys:
        raise ValueError(f"{path} {verb} {listed(sorted(keys), _MAX_NAMED)}.")
