"""From a run folder to a model for other programs."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from keras import ops

from gsp_tf._files import new_folder, refuse_existing
from gsp_tf.experiment import fingerprint, load_splits
from gsp_tf.serving.embedding import RunModel
from gsp_tf.serving.export_metadata import write_metadata
from gsp_tf.serving.keras_file import read_keras_file, write_keras_file
from gsp_tf.serving.onnx_file import read_onnx_file, write_onnx_file
from gsp_tf.serving.saved_model import read_saved_model, write_saved_model
from gsp_tf.serving.served_embedder import ServedEmbedder

TOLERANCE = 1e-5


class _Format(NamedTuple):
    write: Callable
    read: Callable


FORMATS = {
    "saved_model": _Format(write_saved_model, read_saved_model),
    "onnx": _Format(write_onnx_file, read_onnx_file),
    "keras": _Format(write_keras_file, read_keras_file),
}


def export_run(path, format, out=None, attributes=False, pooling_weights=False, splits=None):
    """Export the best model of a run: a folder with the model and `metadata.json`.

    What was written is loaded again and compared with the model on random images, in batches of
    different sizes; the folder appears under its name when all of that is done.

    Args:
        path: run folder.
        format: "saved_model" (serves without this library, files of images too), "onnx" (serves
            without TensorFlow) or "keras" (the layers themselves; loading needs this library).
        out: folder to make; `None` is the format's name in the run folder.
        attributes: also give the attributes of generalized sum pooling; not with "keras".
        pooling_weights: also give the weights of the local features; not with "keras".
        splits: what `load_splits` gives for the run's recipe, if that is loaded. The names of the
            training classes are taken from it. If the images are not there, the names are left out;
            nothing is downloaded.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        FileExistsError: if `out` exists.
        FileNotFoundError: if `path` is not a run folder.
        ImportError: if a package for ONNX is missing.
        ValueError: if the format is unknown, the run is an ensemble or its files do not fit
            together, the pooling does not have what is asked for, or the exported model deviates by
            more than 1e-5.

    Example:
        >>> export_run("no/such/run", "onnx")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}; received {format!r}.")
    if format == "keras" and (attributes or pooling_weights):
        raise ValueError(
            "Attributes and pooling weights are outputs of saved_model and onnx; a .keras file "
            "holds the layers themselves, whose methods give them."
        )
    model = RunModel(path)
    folder, recipe = model.folder, model.recipe
    out = Path(folder.path / format if out is None else out)
    refuse_existing(out)
    served = ServedEmbedder(model.embedder, attributes, pooling_weights)
    train_classes = _train_classes(folder, recipe, splits)
    with new_folder(out) as temporary:
        FORMATS[format].write(served, recipe, temporary)
        _compare(served, FORMATS[format].read(temporary))
        write_metadata(temporary, format, served, recipe, folder.metrics(), train_classes)
    return out


def _train_classes(folder, recipe, splits):
    """Names of the classes that the run was trained on; `None` if its images are not there."""
    data = dataclasses.replace(recipe.data, download=False, cache=None)
    try:
        images = (splits or load_splits(dataclasses.replace(recipe, data=data))).train
    except (OSError, ValueError):
        return None
    known = folder.metrics().get("train_classes") == fingerprint(images)
    return list(images.class_names) if known else None


def _compare(served, read):
    """Refuse an exported model that does not give what the model gives."""
    random = np.random.default_rng(0)
    for batch_size in (3, 1):
        shape = (batch_size, *served.embedder.input_shape[1:])
        images = random.uniform(0, 255, shape).astype("float32")
        expected = served(images)
        for name, output in read(images).items():
            deviation = np.abs(np.asarray(output) - ops.convert_to_numpy(expected[name])).max()
            if not deviation <= TOLERANCE:
                raise ValueError(
                    f"The exported model deviates by {deviation:.1e} in {name}, more than "
                    f"{TOLERANCE:.0e}. Nothing was written."
                )
