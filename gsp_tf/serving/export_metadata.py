"""What is written beside an exported model, and the check of its files against that."""

import json
from pathlib import Path, PurePosixPath

from gsp_tf._files import read_json, replace_text
from gsp_tf.data import MAX_PIXELS
from gsp_tf.recipe import recipe_values
from gsp_tf.serving.checksum import file_sha256
from gsp_tf.serving.metadata import versions
from gsp_tf.serving.onnx_file import ONNX_PACKAGES

METADATA_NAME = "metadata.json"
_PATHS = (("data", "path"), ("data", "cache"), ("backbone", "weights"))


def write_metadata(folder, format, served, recipe, metrics, train_classes):
    """Write `metadata.json` into a folder that holds an exported model, with its checksums.

    Args:
        folder: `pathlib.Path` of the folder.
        format: "saved_model", "onnx" or "keras".
        served: the `ServedEmbedder`.
        recipe: `gsp_tf.recipe.Recipe` of the run; of paths in it the last part is written.
        metrics: dict, what the run's `metrics.json` holds.
        train_classes: names of the classes it was trained on; `None` if they are not known.
    """
    _, size, _, channels = served.embedder.input_shape
    described = {
        "format": format,
        "name": recipe.name,
        "inputs": _inputs(format, size, channels),
        "outputs": {name: list(shape) for name, shape in served.shapes.items()},
        "preprocessing": _preprocessing(recipe, size, channels),
        "train_classes": train_classes,
        "metrics": metrics,
        "recipe": _without_folders(recipe),
        "versions": versions("keras", "tensorflow", *(ONNX_PACKAGES if format == "onnx" else ())),
        "sha256": _checksums(folder),
    }
    replace_text(folder / METADATA_NAME, json.dumps(described, indent=2) + "\n")


def verify_export(path):
    """Check that the files of an exported model are those that were written.

    Nothing is loaded but `metadata.json`. The checksums find damage; they are no signature, for who
    can change the files can change them too.

    Args:
        path: folder of `export_run`.

    Returns:
        dict, what `metadata.json` holds.

    Raises:
        FileNotFoundError: if the folder has no `metadata.json`.
        ValueError: if that is damaged, names a file outside of the folder, or a file is missing,
            not listed or not what was written.

    Example:
        >>> verify_export("no/such/folder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder is not an exported model: it has no metadata.json.
    """
    folder = Path(path)
    file = folder / METADATA_NAME
    if not file.is_file():
        raise FileNotFoundError(f"{path} is not an exported model: it has no {METADATA_NAME}.")
    described = read_json(file)
    listed = described.get("sha256")
    if not isinstance(listed, dict) or not all(isinstance(v, str) for v in listed.values()):
        raise ValueError(f"{file} is damaged: it does not list the SHA-256 of files.")
    root = folder.resolve()
    for name in listed:
        parts = PurePosixPath(name.replace("\\", "/"))
        inside = "\0" not in name and (root / name).resolve().is_relative_to(root)
        if parts.is_absolute() or ".." in parts.parts or not inside:
            raise ValueError(f"{file} names a file outside of its folder: {name!r}")
    found = _checksums(folder)
    wrong = sorted(name for name in {*listed, *found} if listed.get(name) != found.get(name))
    if wrong:
        raise ValueError(
            f"Files of {path} are not those that {METADATA_NAME} lists (missing, not listed or "
            f"changed): {', '.join(wrong[:5])}"
        )
    return described


def _checksums(folder):
    """SHA-256 of every file but the metadata, by its path within the folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: file_sha256(path) for name, path in names.items() if name != METADATA_NAME}


def _inputs(format, size, channels):
    inputs = {
        "images": {
            "dtype": "float32",
            "shape": [None, size, size, channels],
            "minimum": 0,
            "maximum": 255,
            "channels": "grey" if channels == 1 else "RGB",
        }
    }
    if format == "saved_model":
        inputs["image_bytes"] = {
            "dtype": "string",
            "shape": [None],
            "accepted": ["JPEG", "PNG"],
            "max_pixels": MAX_PIXELS,
        }
    return inputs


def _preprocessing(recipe, size, channels):
    """From a file to `images`, as the evaluation of the run prepares it."""
    shorter_side = recipe.data.resize or size
    colours = "grey (ITU-R 601 luma)" if channels == 1 else "RGB"
    return {
        "image_size": size,
        "shorter_side": shorter_side,
        "channels": channels,
        "steps": [
            f"decode to {colours}, 8 bits a channel, upright by EXIF, transparency on white",
            f"cut out the central square, {size}/{shorter_side} of the shorter side wide",
            f"of a JPEG, decode it at 1/2, 1/4 or 1/8, the smallest with {size} pixels or more",
            f"resize to {size} x {size}, bilinear; antialiased if it is over {2 * size} wide",
            "no scaling: pixels in [0, 255]; the model centres and scales them itself",
        ],
    }


def _without_folders(recipe):
    fields = recipe_values(recipe)
    for section, name in _PATHS:
        if fields[section][name] is not None:
            fields[section][name] = Path(fields[section][name]).name
    return fields
