"""Saves in one file the state that interrupted training needs to continue."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import keras
import numpy as np

from gsp_tf._files import reading_arrays, replacing
from gsp_tf._typing import PathLike
from gsp_tf.training.distribute import is_chief

_WHAT = "a checkpoint"
_KERAS_STATE = {
    keras.callbacks.EarlyStopping: ("wait", "best", "best_epoch", "best_weights"),
    keras.callbacks.ModelCheckpoint: ("best",),
    keras.callbacks.ReduceLROnPlateau: ("wait", "best", "cooldown_counter"),
}


class _Stateful(Protocol):
    """A part of training that a `Checkpoint` saves; its state holds JSON values and arrays."""

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


class Checkpoint(keras.callbacks.Callback):
    """Saves the state of training before every epoch, or continues from such a file.

    The state covers the model and its losses (with random seeds and memories), the optimizer and
    the given parts. The file is written under a temporary name and then renamed. It holds arrays
    and JSON, but no code. With several workers, the first writes the file and all read it.

    To continue, build the same model and call `fit` with the file's epoch as `initial_epoch` and
    with the batches from that epoch on. The state is restored in the first epoch, after the
    `on_train_begin` of all callbacks.

    Args:
        path: file to write; ends in ".npz".
        parts: further parts of training by name. Each is a Keras `EarlyStopping`,
            `ModelCheckpoint` or `ReduceLROnPlateau`, or has the methods `state()`, which returns a
            dict of JSON values and NumPy arrays, and `restore(state)`.
        resume: whether to restore the file's state first.

    Example:
        >>> import keras, numpy as np
        >>> from tempfile import TemporaryDirectory
        >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        >>> model.compile("adam", "mse")
        >>> x = np.ones((4, 1))
        >>> with TemporaryDirectory() as folder:
        ...     path = f"{folder}/state.npz"
        ...     _ = model.fit(x, x, epochs=3, callbacks=[Checkpoint(path)], verbose=0)
        ...     epoch_of(path)
        2
    """

    def __init__(
        self,
        path: PathLike,
        parts: Mapping[str, _Stateful | keras.callbacks.Callback] | None = None,
        resume: bool = False,
    ):
        super().__init__()
        self.path = Path(path)
        self.parts = parts or {}
        self._restores_next = resume

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        if self._restores_next:
            self._restore(epoch)
            self._restores_next = False
        elif is_chief(self.model):
            self._save(epoch)

    def _save(self, epoch):
        arrays = {
            f"variable_{i}": _plain(keras.ops.convert_to_numpy(variable))
            for i, variable in enumerate(self._variables())
        }
        numbers = {}

        def reference(value):
            if isinstance(value, np.generic):
                return value.item()
            number = numbers.setdefault(id(value), len(numbers))
            arrays[f"array_{number}"] = value
            return {"array": number}

        state = {"epoch": epoch, "parts": {name: _state(p) for name, p in self.parts.items()}}
        text = json.dumps(state, default=reference)
        with replacing(self.path) as temporary:
            np.savez(temporary, state=np.frombuffer(text.encode(), "uint8"), **arrays)

    def _restore(self, epoch):
        with reading_arrays(self.path, _WHAT) as file:
            state = _read_state(file, lambda number: file[f"array_{number}"])
            count = sum(name.startswith("variable_") for name in file.files)
            saved = [file[f"variable_{i}"] for i in range(count)]
        variables = self._variables()
        shapes = [tuple(variable.shape) for variable in variables]
        if state["epoch"] != epoch or [value.shape for value in saved] != shapes:
            raise ValueError(
                f"{self.path} does not fit: it was saved before epoch {state['epoch']} with "
                f"{len(saved)} variables, and this is epoch {epoch} of a model with {len(shapes)} "
                "variables, or their shapes differ."
            )
        for variable, value in zip(variables, saved, strict=True):
            variable.assign(value)
        for name, part in self.parts.items():
            if name in state["parts"]:  # a run may be continued with a new patience
                _restore_state(part, state["parts"][name])

    def _variables(self):
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        return [*self.model.variables, *optimizer.variables]


def epoch_of(path: PathLike) -> int:
    """The epoch, counted from 0, with which a checkpoint continues.

    Args:
        path: file of a `Checkpoint`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is damaged or is not a checkpoint.

    Example:
        >>> epoch_of("no/such.npz")
        Traceback (most recent call last):
            ...
        FileNotFoundError: ...no/such.npz...
    """
    with reading_arrays(path, _WHAT) as file:
        return _read_state(file, lambda number: None)["epoch"]


def _read_state(file, array):
    return json.loads(
        file["state"].tobytes(),
        object_hook=lambda value: array(value["array"]) if set(value) == {"array"} else value,
    )


def _plain(array):
    """The array in a native NumPy type, which loads without another package."""
    return array.astype("float32") if array.dtype.kind == "V" else array


def _state(part):
    for kind, names in _KERAS_STATE.items():
        if isinstance(part, kind):
            return {name: getattr(part, name) for name in names}
    return part.state()


def _restore_state(part, state):
    if isinstance(part, tuple(_KERAS_STATE)):
        for name, value in state.items():
            setattr(part, name, value)
    else:
        part.restore(state)
