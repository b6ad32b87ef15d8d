"""State dicts in files of PyTorch and safetensors."""

import zipfile
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from gsp_tf._console import to_install


def read_state_dict(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a `.safetensors` file, or of a file of `torch.save`, by key.

    No code in a file is run: PyTorch reads tensors and containers of them alone (weights_only).
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    return _of_safetensors(path) if path.suffix == ".safetensors" else _of_torch(path)


def _of_safetensors(path):
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
