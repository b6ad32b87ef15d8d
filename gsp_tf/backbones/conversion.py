"""Keras weights from PyTorch state dicts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

import keras
import numpy as np

from gsp_tf._files import replacing
from gsp_tf._names import Convertible
from gsp_tf._typing import PathLike
from gsp_tf.backbones._bn_inception import bn_inception
from gsp_tf.backbones._efficientnet_lite import efficientnet_lite, state_dict_prefix
from gsp_tf.backbones._googlenet import googlenet
from gsp_tf.backbones._state_dicts import read_state_dict

CONVERTIBLE = get_args(Convertible)
"""The backbones whose PyTorch weights `convert_weights` takes."""

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
class Conversion:
    """The result of `convert_weights`.

    Args:
        path: the file that was written.
        num_tensors: number of converted tensors.
        left_out: sorted keys that the backbone does not use: classifier, auxiliary heads, counters
            of batches.

    Example:
        >>> Conversion(Path("bn_inception.weights.h5"), 345, ["last_linear.bias"]).num_tensors
        345
    """

    path: Path
    num_tensors: int
    left_out: list[str]


def convert_weights(path: PathLike, architecture: Convertible, out: PathLike) -> Conversion:
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
        The path, the number of tensors and the keys that were left out.

    Raises:
        ValueError: if a name is unknown, or if the file lacks keys, has unknown keys, or has
            tensors of another shape or type or with values that are not finite. The message names
            the keys.
        OSError: if the file cannot be read or written.
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
    state = read_state_dict(path)
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
    return Conversion(Path(out), len(variables), left_out)


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
    suffix = ".running_mean"
    normalizations = [key.removesuffix(suffix) for key in keys if key.endswith(suffix)]
    return {f"{name}.num_batches_tracked" for name in normalizations}


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
    if not keys:
        return
    shown = sorted(keys)[:_MAX_NAMED]
    more = f" and {len(keys) - len(shown):,} more" if len(keys) > len(shown) else ""
    raise ValueError(f"{path} {verb} {', '.join(shown)}{more}.")
