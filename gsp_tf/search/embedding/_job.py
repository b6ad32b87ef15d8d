"""Starting, resuming and finishing the embedding of many images."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace

import pyarrow as pa

from gsp_tf._console import bulleted, counted
from gsp_tf._files import remove_partial
from gsp_tf._metadata import versions
from gsp_tf.search.embedding.folder import (
    FILE_COLUMNS,
    EmbeddingsFolder,
    EmbeddingsMetadata,
    ImageList,
    Outcome,
)
from gsp_tf.search.embedding.run_model import RunModel

SHARD_SIZE = 4096
_MOST_ATTEMPTS = 5


def begin(
    folder: EmbeddingsFolder, model: RunModel, images: ImageList, shard_size: int
) -> EmbeddingsMetadata:
    """The metadata of a new or resumed folder; `shard_size` applies only to a new one."""
    import keras  # here: other functions need no TensorFlow

    if shard_size < 1:
        raise ValueError(f"shard_size must be 1 or more, received {shard_size}.")
    if folder.metadata_path.exists():
        begun = folder.metadata()
        _check_same(folder, begun, model, images)
        return begun
    metadata = EmbeddingsMetadata(
        model=model.info,
        images=images,
        dim=model.dim,
        metric="euclidean",
        shard_size=shard_size,
        versions=versions("keras", keras.backend.backend(), "numpy", "pyarrow"),
    )
    metadata.write(folder.metadata_path)
    return metadata


def _check_same(folder, begun, model, images):
    """Raises `ValueError` if the model, its preprocessing or the list of images differs."""
    ours, theirs = model.info, begun.model
    if theirs.sha256 != ours.sha256:
        problem = f"of {'an earlier' if theirs.run == ours.run else 'the'} model of {theirs.run}"
    elif theirs.preprocessing != ours.preprocessing:
        there, now = asdict(theirs.preprocessing), asdict(ours.preprocessing)
        problem = f"with other preprocessing: {there} there, {now} now"
    elif begun.images == images:
        return
    else:
        problem = (
            f"of another list of images: {begun.images.listed:,} there, {images.listed:,} now. To "
            "add images to an index, embed them alone (--out NEW), then run gsp-tf index INDEX "
            "--add NEW"
        )
    raise ValueError(
        f"{folder.path} holds embeddings {problem}. Choose another folder (--out NEW) or remove it."
    )


def missing_shards(folder: EmbeddingsFolder, metadata: EmbeddingsMetadata) -> list[int]:
    """The numbers of the shards that are not written yet; empty for a complete folder."""
    numbers = range(metadata.num_shards if metadata.outcome is None else 0)
    return [number for number in numbers if not folder.shard_path(number).is_file()]


def finish(folder: EmbeddingsFolder, metadata: EmbeddingsMetadata) -> None:
    """Checks every shard, lists unreadable images and warns of them, and completes the folder."""
    if metadata.outcome is None:
        metadata = replace(metadata, outcome=_outcome(folder, metadata))
        metadata.write(folder.metadata_path)
        forget_attempts(folder)
        remove_partial(folder.path)  # left by a worker killed after renaming its shard
    corrupt = folder.corrupt()
    if corrupt:
        warnings.warn(
            f"{len(corrupt)} of {counted(metadata.images.listed, 'file')} cannot be read as images "
            f"and are left out; {folder.corrupt_path} lists them:\n"
            f"{bulleted([f'{path}: {reason}' for path, reason in corrupt])}",
            stacklevel=3,
        )


def _outcome(folder, metadata):
    count, corrupt, lengths = 0, [], []
    for number in range(metadata.num_shards):
        shard = folder.summarize_shard(number)
        found = shard.count + len(shard.corrupt)
        expected = min(metadata.shard_size, metadata.images.listed - number * metadata.shard_size)
        if found != expected:
            raise ValueError(
                f"{folder.shard_path(number)} is damaged: it accounts for {found} of {expected} "
                "images. Remove it and embed again."
            )
        count += shard.count
        corrupt += shard.corrupt
        lengths += shard.lengths
    if corrupt:
        folder.write_corrupt(corrupt)
    if not count:
        raise ValueError(
            f"No image can be read of {counted(len(corrupt), 'file')}; see {folder.corrupt_path}."
        )
    return Outcome(count, len(corrupt), (min(lengths), max(lengths)))


def count_attempt(folder: EmbeddingsFolder, number: int) -> None:
    """Counts an attempt to write a shard; raises `ValueError` after too many."""
    path = folder.path / f".attempts-{number:05}"
    attempts = int(path.read_text() or 0) if path.exists() else 0
    if attempts >= _MOST_ATTEMPTS:
        raise ValueError(
            f"{attempts} workers were killed while they wrote it. Is there enough memory?"
        )
    path.write_text(str(attempts + 1))


def forget_attempts(folder: EmbeddingsFolder) -> None:
    """Removes the attempt counts."""
    for path in folder.path.glob(".attempts-*"):
        path.unlink()


def file_columns(images: Sequence[str | bytes | None]) -> dict[str, pa.Array]:
    """Sizes in bytes and modification times of files; contents have only a size."""
    found = list(map(_size_and_time, images))
    return {
        name: pa.array([values[column] for values in found], kind)
        for column, (name, kind) in enumerate(FILE_COLUMNS.items())
    }


def _size_and_time(image):
    if not isinstance(image, str):
        return None if image is None else len(image), None
    try:
        file = os.stat(image)
    except OSError:
        return None, None
    return file.st_size, file.st_mtime_ns
