"""How embeddings of many images begin, continue after a stop, and end."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace

import pyarrow as pa

from gsp_tf._console import bulleted, counted
from gsp_tf._files import remove_partial
from gsp_tf.serving._metadata import versions
from gsp_tf.serving.embedding.folder import (
    EmbeddingsFolder,
    EmbeddingsMetadata,
    ImageList,
    Outcome,
)
from gsp_tf.serving.embedding.run_model import RunModel

SHARD_SIZE = 4096
FILE_COLUMNS = {"file_size": pa.int64(), "file_time": pa.timestamp("ns", "UTC")}


def begin(
    folder: EmbeddingsFolder, model: RunModel, images: ImageList, shard_size: int
) -> EmbeddingsMetadata:
    """The metadata of a folder, new or as it was begun; `shard_size` is for a new one."""
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
        versions=versions(),
    )
    metadata.write(folder.metadata_path)
    return metadata


def _check_same(folder, begun, model, images):
    """Refuses to mix two models, two preprocessings or two lists of images."""
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
    """Which shards are not written yet; none of a complete folder."""
    numbers = range(metadata.num_shards if metadata.outcome is None else 0)
    return [number for number in numbers if not folder.shard_path(number).is_file()]


def finish(folder: EmbeddingsFolder, metadata: EmbeddingsMetadata) -> None:
    """Checks every shard, lists and warns of what could not be read, and completes the folder."""
    if metadata.outcome is None:
        metadata = replace(metadata, outcome=_outcome(folder, metadata))
        metadata.write(folder.metadata_path)
        remove_partial(folder.path)  # what a worker left that had already renamed its shard
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


def file_columns(images: Sequence[str | bytes | None]) -> dict[str, pa.Array]:
    """Sizes in bytes and times of the last change of files; of contents the sizes alone."""
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
