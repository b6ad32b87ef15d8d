"""Export of the model of a run for other programs."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import keras
import numpy as np
from keras import ops

from gsp_tf._files import new_folder, refuse_existing
from gsp_tf._keras import first_output
from gsp_tf._typing import PathLike
from gsp_tf.export._formats import (
    ONNX_PACKAGES,
    ServedEmbedder,
    read_litert,
    read_onnx,
    read_saved_model,
    write_litert,
    write_onnx,
    write_saved_model,
)
from gsp_tf.export.metadata import describe
from gsp_tf.runs import fingerprint, load_splits
from gsp_tf.search import RunModel, find_thresholds

_TOLERANCE = 1e-5
_ANY_SIDE = 64  # of a model that takes images of any size
KERAS_NAME = "embedder.keras"


def export_run(
    path: PathLike,
    format: Literal["saved_model", "onnx", "litert", "keras"],
    out: PathLike | None = None,
    attributes: bool = False,
    pooling_weights: bool = False,
) -> Path:
    """Export the best model of a run to a folder with the model and `metadata.json`.

    The exported model is loaded again and compared with the original on random images, in batches
    of different sizes. The folder appears only after this check. The names of the training classes
    come from the run's images. If the images are missing, the names are left out; nothing is
    downloaded. All but "keras" are written on the TensorFlow backend, from runs of any.

    Args:
        path: run folder.
        format: "saved_model" (serves without this library, also from image files), "onnx" (serves
            without TensorFlow), "litert" (serves in the plain interpreter of LiteRT) or "keras"
            (the layers themselves; loading needs this library).
        out: folder to create; `None` means a folder in the run folder, named after the format.
        attributes: also output the attributes of generalized sum pooling; not with "keras".
        pooling_weights: also output the weights of the local features; not with "keras".

    Returns:
        The exported folder.

    Raises:
        FileExistsError: if `out` exists.
        FileNotFoundError: if `path` is not a run folder.
        ImportError: if a package for ONNX is missing.
        ValueError: if the format is unknown, the run is an ensemble, its files do not match, its
            `thresholds.json` is of another model, a requested output is not available, the backend
            of Keras cannot write the format, or the outputs deviate by more than 1e-5.

    Example:
        >>> export_run("no/such/run", "onnx")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    if format not in _FORMATS:
        raise ValueError(f"format must be one of {', '.join(_FORMATS)}; received {format!r}.")
    if format == "keras" and (attributes or pooling_weights):
        raise ValueError(
            "Attributes and pooling weights are outputs of the other formats; a .keras file "
            "holds the layers themselves, whose methods give them."
        )
    backend = keras.backend.backend()
    if format != "keras" and backend != "tensorflow":
        raise ValueError(
            f"Export as {format} runs on the TensorFlow backend; Keras runs on {backend} here. Set "
            "KERAS_BACKEND=tensorflow: it loads the models of runs from every backend."
        )
    model = RunModel(path)
    out = Path(model.folder.path / format if out is None else out)
    refuse_existing(out)
    thresholds = find_thresholds(None, model.info, model.folder.path, metric=None)
    served = ServedEmbedder(model.embedder, attributes, pooling_weights)
    classes = train_classes(model)
    write, read, packages = _FORMATS[format]
    with new_folder(out) as temporary:
        write(served, model.recipe, temporary)
        compare(served, read(temporary), served.embedder.input_shape)
        metrics = model.folder.metrics()
        described = temporary, format, served, model.recipe, metrics, classes, thresholds
        describe(*described, packages).write(temporary)
    return out


def _write_keras(served, recipe, folder):
    served.embedder.save(folder / KERAS_NAME)


def _read_keras(folder):
    """A function from images to the embedding; Keras' safe mode runs no code in the file."""
    embedder = keras.models.load_model(folder / KERAS_NAME, compile=False)
    return lambda images: {"embedding": first_output(embedder(images, training=False))}


class _Format(NamedTuple):
    """Functions that write and read a format, and the packages that it needs."""

    write: Callable
    read: Callable
    packages: tuple[str, ...] = ()


_FORMATS = {
    "saved_model": _Format(write_saved_model, read_saved_model),
    "onnx": _Format(write_onnx, read_onnx, ONNX_PACKAGES),
    "litert": _Format(write_litert, read_litert),
    "keras": _Format(_write_keras, _read_keras),
}


def train_classes(model):
    """Names of the run's training classes; `None` if its images are missing or changed."""
    data = dataclasses.replace(model.recipe.data, download=False, cache=None)
    try:
        images = load_splits(dataclasses.replace(model.recipe, data=data)).train
    except (OSError, ValueError):
        return None
    is_known = model.folder.metrics().get("train_classes") == fingerprint(images)
    return list(images.class_names) if is_known else None


def compare(expected, received, shape):
    """Raises `ValueError` if the outputs of a written model deviate from those expected."""
    random = np.random.default_rng(0)
    for batch_size in (3, 1):
        sides = [side or _ANY_SIDE for side in shape[1:]]
        images = random.uniform(0, 255, (batch_size, *sides)).astype("float32")
        outputs = expected(images)
        for name, output in received(images).items():
            difference = ops.convert_to_numpy(output) - ops.convert_to_numpy(outputs[name])
            deviation = np.abs(difference).max()
            if not deviation <= _TOLERANCE:
                raise ValueError(
                    f"The exported model deviates by {deviation:.1e} in {name}, more than "
                    f"{_TOLERANCE:.0e}. Nothing was written."
                )
