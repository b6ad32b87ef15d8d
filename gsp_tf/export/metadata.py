"""Metadata of an exported model, and verification of its files."""

import dataclasses
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Self

import keras

from gsp_tf._console import listed
from gsp_tf._files import SEAL, check_seal, file_sha256, json_object
from gsp_tf._metadata import parsed_entries, versions, write_entries
from gsp_tf._typing import PathLike
from gsp_tf.data import MAX_PIXELS
from gsp_tf.recipe import recipe_values
from gsp_tf.runs import untrained_note

CARD = "README.md"
"""The model card, which is edited, so that it has no checksum."""

_NAME = "metadata.json"
_AGAIN = (
    "gsp-tf export, or gsp-tf publish, writes the folder again. If you edited it, remove its entry "
    "seal."
)
_MAX_NAMED = 5


@dataclasses.dataclass(frozen=True)
class ExportMetadata:
    """The contents of `metadata.json` in an exported model; docs/export.md has its fields."""

    format: str
    name: str
    inputs: dict
    outputs: dict
    preprocessing: dict
    train_classes: list | None
    metrics: dict
    recipe: dict
    thresholds: dict | None
    versions: dict[str, str]
    sha256: dict[str, str]

    @classmethod
    def read(cls, folder: PathLike) -> Self:
        """Read `metadata.json`, without its checksum where someone has edited it."""
        file = Path(folder) / _NAME
        if not file.is_file():
            raise FileNotFoundError(f"{folder} is not an exported model: it has no {_NAME}.")
        content = file.read_bytes()
        entries = json_object(file, content)
        if SEAL in entries:
            check_seal(file, content, _AGAIN)
        return parsed_entries(cls, file, entries)

    def with_checksums(self, folder: PathLike) -> Self:
        """The same metadata with the checksums of the files that are now in a folder."""
        return dataclasses.replace(self, sha256=_checksums(Path(folder)))

    def write(self, folder: PathLike) -> None:
        """Write `metadata.json` into the folder of an exported model."""
        write_entries(Path(folder) / _NAME, dataclasses.asdict(self))


def verify_export(path: PathLike) -> ExportMetadata:
    """Check the files of an exported model against the checksums in `metadata.json`.

    No other file is loaded. Checksums detect damage but are not a signature: whoever can change the
    files can also change the checksums.

    Args:
        path: folder written by `export_run`.

    Returns:
        The metadata, with its entries as attributes.

    Raises:
        ValueError: if `metadata.json` is damaged or names a file outside the folder, or if a file
            is missing, not listed or changed.

    Example:
        >>> verify_export("no/such/folder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder is not an exported model: it has no metadata.json.
    """
    folder = Path(path)
    metadata = ExportMetadata.read(folder)
    check_files(folder, metadata)
    return metadata


def check_files(folder, metadata, may_have_more=False):
    """Refuses a folder whose files are not those of its metadata; it may also have others.

    The card may be there or not, with any text.
    """
    root = folder.resolve()
    for name in metadata.sha256:
        parts = PurePosixPath(name.replace("\\", "/"))
        try:  # the file itself may be a link, as all are in the cache of Hugging Face
            inside = "\0" not in name and (root / name).parent.resolve().is_relative_to(root)
        except (OSError, RuntimeError):  # links that lead to each other
            inside = False
        if parts.is_absolute() or ".." in parts.parts or not inside:
            raise ValueError(f"{folder / _NAME} names a file outside of its folder: {name!r}")
    names = set(metadata.sha256) | (set() if may_have_more else set(_files(folder)))
    wrong = sorted(
        name
        for name in names
        if not (folder / name).is_file() or metadata.sha256.get(name) != file_sha256(folder / name)
    )
    if wrong:
        raise ValueError(
            f"Files of {folder} are not those that {_NAME} lists (missing, not listed or "
            f"changed): {listed(wrong, _MAX_NAMED)}"
        )


def describe(folder, format, served, recipe, metrics, train_classes, thresholds, packages):
    """The metadata of a folder that holds only an exported `ServedEmbedder`."""
    _, size, _, channels = served.embedder.input_shape
    note = untrained_note(metrics)
    if thresholds is not None:
        thresholds = dataclasses.asdict(without_place(thresholds))
        del thresholds["model"]
    return ExportMetadata(
        format=format,
        name=recipe.name,
        inputs=_inputs(format, size, channels),
        outputs={name: list(shape) for name, shape in served.shapes.items()},
        preprocessing=_preprocessing(recipe, size, channels),
        train_classes=train_classes,
        metrics=metrics if note is None else metrics | {"note": note},
        recipe=recipe_values(public_recipe(recipe)),
        thresholds=thresholds,
        versions=versions("keras", keras.backend.backend(), *packages),
        sha256=_checksums(folder),
    )


def _files(folder):
    """The names of the files of a folder but the metadata and the card, as paths in it.

    Hidden ones, such as the .gitattributes of Hugging Face, are not part of an export.
    """
    files = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    shown = (path for path in files if not any(part.startswith(".") for part in path.parts))
    return [path.as_posix() for path in shown if path.as_posix() not in (_NAME, CARD)]


def _checksums(folder):
    """SHA-256 of each file except the metadata and the card, by its path in the folder."""
    return {name: file_sha256(folder / name) for name in _files(folder)}


def _inputs(format, size, channels):
    inputs = {
        "images": {
            "dtype": "float32",
            "shape": [None, size, size, channels],
            "minimum": 0,
            "maximum": 255,
            "channels": {1: "grey", 3: "RGB"}.get(channels, f"{channels} channels"),
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
    """How the evaluation of the run prepares `images` from a file."""
    shorter_side = recipe.data.resize or size
    colours = "grey (ITU-R 601 luma)" if channels == 1 else "RGB"
    return {
        "image_size": size,
        "shorter_side": shorter_side,
        "channels": channels,
        "steps": [
            f"decode to {colours}, 8 bits per channel, upright by EXIF, transparency on white",
            f"cut out the central square, {size}/{shorter_side} of the shorter side wide",
            f"decode a JPEG at 1/2, 1/4 or 1/8, the smallest with {size} pixels or more",
            f"resize to {size} x {size}, bilinear; antialiased if it is over {2 * size} wide",
            "no scaling: pixels in [0, 255]; the model centres and scales them itself",
        ],
    }


def without_place(thresholds):
    """Thresholds whose source has lost the folder that it was in."""
    source = thresholds.calibrated_on
    source = dataclasses.replace(source, source=Path(source.source).name)
    return dataclasses.replace(thresholds, calibrated_on=source)


def public_recipe(recipe):
    """A recipe without trackers and without the folders that files are in."""
    return _without_folders(dataclasses.replace(recipe, callbacks={}))


def _without_folders(value):
    """A field with the last part of each path in it; a list holds patterns or names, not paths."""
    if dataclasses.is_dataclass(value):
        parts = {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
        return dataclasses.replace(value, **_without_folders(parts))
    if isinstance(value, dict):
        return {name: _without_folders(part) for name, part in value.items()}
    is_path = isinstance(value, str) and ("://" not in value or value.startswith("file://"))
    return PureWindowsPath(value).name if is_path else value  # both slashes and backslashes
