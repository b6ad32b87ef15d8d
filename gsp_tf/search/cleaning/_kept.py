"""Embeddings of image files that a folder keeps, so that each file is embedded once."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from gsp_tf._files import advising, locked
from gsp_tf._metadata import Metadata, ModelInfo, check_same_model
from gsp_tf.search._tables import as_text
from gsp_tf.search.embedding import EmbeddingsFolder, RunModel
from gsp_tf.search.embedding._job import FILE_COLUMNS, file_columns
from gsp_tf.search.embedding._listing import ListedImage
from gsp_tf.search.embedding.embed import embed_shard

_SHARD = 1024


@dataclass(frozen=True)
class _KeptMetadata(Metadata):
    """The contents of `kept.json`."""

    format: ClassVar[str] = "gsp_tf kept embeddings"
    format_version: ClassVar[int] = 1
    again: ClassVar[str] = "Remove its folder; the same command embeds the images again."
    model: ModelInfo
    dim: int


class KeptEmbeddings(NamedTuple):
    """Embeddings `(N, D)`, NaN for unreadable files, why they are unreadable, and new ones."""

    embeddings: np.ndarray
    problems: dict[str, str]
    num_new: int


def embed_and_keep(model: RunModel, paths: list[str], path: Path) -> KeptEmbeddings:
    """Embeds the files that a folder does not have yet; changed files are embedded again."""
    folder = EmbeddingsFolder(path)
    with advising(lambda: "Free some space; the same command continues."), locked(path):
        metadata = _metadata(model, path / "kept.json")
        embeddings = np.full((len(paths), metadata.dim), np.nan, np.float32)
        rows = {name: row for row, name in enumerate(paths)}
        states = _states(file_columns(paths))
        is_known = np.zeros(len(paths), bool)
        number = 0
        while folder.shard_path(number).is_file():
            shard = folder.read_shard(number, metadata.dim)
            _take(shard, rows, states, embeddings, is_known)
            number += 1
        new = [name for name, known in zip(paths, is_known, strict=True) if not known]
        problems: dict[str, str] = {}
        total = -(-len(new) // _SHARD)
        for part in range(total):
            images = [ListedImage(name, None) for name in new[part * _SHARD :][:_SHARD]]
            shard = embed_shard(model, images, f"Embedding, part {part + 1} of {total}", 0)
            problems |= shard.corrupt
            if shard.paths:
                folder.write_shard(number, shard)
                number += 1
                _take(shard, rows, states, embeddings, is_known)
        for name, known in zip(paths, is_known, strict=True):
            if not known:
                problems.setdefault(as_text(name), "it changed while it was read")
    return KeptEmbeddings(embeddings, problems, len(new) - len(problems))


def _metadata(model, file):
    """The metadata of a folder of this model, which is written if it is new."""
    if not file.is_file():
        _KeptMetadata(model.info, model.dim).write(file)
    metadata = _KeptMetadata.read(file)
    try:
        check_same_model(model.info, metadata.model, f"{model.folder.path} and {file.parent}")
    except ValueError as error:
        raise ValueError(f"{error} Choose another folder (--out NEW).") from None
    return metadata


def _take(shard, rows, states, embeddings, is_known):
    """Takes the embeddings of the files of a shard that have not changed since."""
    there = _states({name: shard.columns[name] for name in FILE_COLUMNS})
    for place, name in enumerate(shard.paths):
        row = rows.get(name)
        if row is not None and there[place] == states[row]:
            embeddings[row], is_known[row] = shard.embeddings[place], True


def _states(columns):
    """The size and modification time of each file, as pairs."""
    sizes, times = (columns[name] for name in FILE_COLUMNS)
    return list(zip(sizes.to_pylist(), times.cast(pa.int64()).to_pylist(), strict=True))
