"""Embeddings from anywhere, in blocks that can be read again."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gsp_tf.serving._metadata import ModelInfo
from gsp_tf.serving.embedding import EmbeddingsFolder
from gsp_tf.serving.index import Index
from gsp_tf.serving.thresholds import NAME
from gsp_tf.serving.vector_sources import embedding_rows


class Block(NamedTuple):
    """Some images; paths and further columns are `None` or empty where the source has none."""

    labels: Sequence[str | None]
    embeddings: np.ndarray
    paths: Sequence[str] | None = None
    columns: dict[str, Sequence] = {}


class Source(NamedTuple):
    """Blocks of images, which can be read again, and where they come from."""

    blocks: Callable[[], Iterable[Block]]
    source: str
    path: Path
    metric: str | None = None
    model: ModelInfo | None = None


def vector_source(
    path: Path, columns: Sequence[str] = (), needs_labels: bool = True
) -> Source | None:
    """The embeddings at a path with some further columns; `None` if they are not there."""
    if (path / "index.json").is_file():
        return _index(path)
    if (path / "embeddings.json").is_file():
        folder = EmbeddingsFolder.open(path)
        metadata = folder.metadata()

        def shards():
            return (
                Block(shard.labels, shard.embeddings, shard.paths, shard.columns)
                for shard in folder.shards()
                if shard.paths
            )

        return Source(shards, str(path), path / NAME, metadata.metric, metadata.model)
    if path.suffix == ".npz":
        return Source(
            lambda: _npz(path, columns, needs_labels),
            str(path),
            path.with_name(f"{path.name}.{NAME}"),
        )
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files or any(file.suffix != ".parquet" for file in files):
        return None
    own = path / NAME if path.is_dir() else path.with_name(f"{path.name}.{NAME}")
    return Source(
        lambda: (block for file in files for block in _parquet(file, columns, needs_labels)),
        str(path),
        own,
    )


def validation_source(path: Path) -> Source:
    """The validation images of a run."""
    from gsp_tf.experiment import evaluation_batches, fingerprint, load_splits
    from gsp_tf.serving.embedding import RunModel

    model = RunModel(path)
    recipe = model.recipe
    if recipe.protocol.name in ("conventional", "tuning"):
        raise ValueError(
            f"The run {path} of protocol {recipe.protocol.name} has no validation classes but its "
            "test classes. Embed images of other classes with gsp-tf embed, and calibrate these."
        )
    data = dataclasses.replace(recipe.data, download=False)
    splits = load_splits(dataclasses.replace(recipe, data=data))
    trained = model.folder.metrics().get("train_classes")
    if trained not in (None, fingerprint(splits.train)):
        raise ValueError(
            f"The training classes are not those that {path} was trained on: the data or the split "
            "in its recipe have changed, and the model may have been trained on the others."
        )
    images = splits.validation
    labels = [images.class_names[label] for label in images.labels]
    batches = evaluation_batches(recipe, images)
    embeddings = model.embed_batches(batches, "Embedding the validation images")
    source = f"the validation classes of {path}"
    block = Block(labels, embeddings, getattr(images, "paths", None))
    return Source(lambda: [block], source, path / NAME, "euclidean", model.info)


def _index(path):
    """The vectors of an exact index."""
    index = Index(path)
    if not index.keeps_vectors:
        raise ValueError(
            f"The index {path} is compressed ({index.metadata.kind}), which changes distances "
            "between its images. Take the embeddings that it was made of."
        )

    def blocks():
        return (
            Block(index.labels(ids), embeddings, index.paths(ids))
            for ids, embeddings in index.embeddings()
        )

    metadata = index.metadata
    return Source(blocks, str(path), path / NAME, metadata.metric, metadata.model)


def _npz(path, columns, needs_labels):
    """The arrays of a file of NumPy."""
    needed = ["labels", "embeddings"] if needs_labels else ["embeddings"]
    try:
        with np.load(path) as arrays:
            embeddings = [arrays[name] for name in needed][-1]
            found = {name: arrays[name] for name in ("labels", "paths", *columns) if name in arrays}
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"{path} cannot be read; expected arrays {' and '.join(needed)}: {error}"
        ) from error
    for name, array in found.items():
        if array.shape != embeddings.shape[:1]:
            raise ValueError(
                f"{path} must have one value of {name} per embedding; received {name} "
                f"{array.shape} and embeddings {embeddings.shape}."
            )
    labels = found.get("labels")
    labels = [None] * len(embeddings) if labels is None else list(map(str, labels.tolist()))
    paths = found.get("paths")
    paths = None if paths is None else list(map(str, paths.tolist()))
    yield Block(labels, embeddings, paths, {name: found[name] for name in columns if name in found})


def _parquet(file, columns, needs_labels):
    """Blocks of a Parquet file."""
    try:
        with pq.ParquetFile(file) as opened:
            names = opened.schema_arrow.names
            missing = {"embedding"} | ({"label"} if needs_labels else set())
            missing -= set(names)
            if missing:
                raise ValueError(
                    f"{file} lacks the column {', '.join(sorted(missing))}; received "
                    f"{', '.join(names)}."
                )
            texts = sorted({"label", *columns, "path"} & set(names))
            for batch in opened.iter_batches(columns=[*texts, "embedding"]):
                if len(batch):
                    found = {name: batch[name].cast(pa.string()).to_pylist() for name in texts}
                    embeddings = embedding_rows(batch["embedding"], file)
                    labels = found.get("label", [None] * len(batch))
                    yield Block(labels, embeddings, found.get("path"), found)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{file} is damaged, or no Parquet file: {error}") from error
