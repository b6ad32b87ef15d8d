"""Embeddings from anywhere, in blocks that can be read again."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gsp_tf._typing import PathLike
from gsp_tf.data import LeftOut, find_images
from gsp_tf.evaluation import TokenSets, checked_embeddings
from gsp_tf.serving._metadata import ModelInfo
from gsp_tf.serving.embedding import EmbeddingsFolder
from gsp_tf.serving.embedding._parquet import parquet_files, reading_parquet
from gsp_tf.serving.embedding._token_columns import TOKEN_COLUMNS, num_tokens, token_sets
from gsp_tf.serving.image_table import column_texts, located
from gsp_tf.serving.index import Index

_BLOCK = 1024


class VectorBlock(NamedTuple):
    """The embeddings of n images, and what is known of the images.

    Attributes:
        names: n paths, or FILE#ROW for images without a path.
        labels: n class names, `None` where unknown.
        embeddings: Numbers `(n, D)`.
        columns: Arrays of n texts by name, empty texts where unknown: the columns that were asked
            for and are there.
        has_paths: Whether names are paths.
        tokens: The local features of the images, if they were asked for.

    Example:
        >>> VectorBlock(["a.png"], ["cat"], np.eye(1)).columns
        {}
    """

    names: Sequence[str]
    labels: Sequence[str | None]
    embeddings: np.ndarray
    columns: dict[str, np.ndarray] = {}
    has_paths: bool = True
    tokens: TokenSets | None = None


class VectorSource(NamedTuple):
    """Embeddings that can be read again, in blocks.

    Attributes:
        read: Function that gives blocks, such as `VectorBlock`, of any size.
        count: Number of embeddings N.
        dim: Their dimension D.
        metric: The distance that they are made for, `None` if it is unknown.
        model: The model that made them, `None` if it is unknown.
        name: The source, in words.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/a.npz", embeddings=np.eye(3))
        ...     vector_source(f"{folder}/a.npz").count
        3
    """

    read: Callable[[], Iterable[VectorBlock]]
    count: int
    dim: int
    metric: str | None = None
    model: ModelInfo | None = None
    name: str = "the source"

    def blocks(self) -> Iterator[VectorBlock]:
        """Yields blocks of at most 1,024 images, with checked embeddings.

        Raises:
            ValueError: If the source is damaged, or is a compressed index.
        """
        count = 0
        for names, labels, embeddings, columns, has_paths, tokens in self.read():
            embeddings = checked_embeddings(embeddings, f"The embeddings of {self.name}")
            if embeddings.shape[1] != self.dim:
                raise ValueError(
                    f"{self.name} holds embeddings of different dimensions, {self.dim} and "
                    f"{embeddings.shape[1]}."
                )
            count += len(names)
            if count > self.count:
                break
            for start in range(0, len(names), _BLOCK):
                part = slice(start, start + _BLOCK)
                some = {name: values[part] for name, values in columns.items()}
                sets = None if tokens is None else tokens.take(part)
                described = names[part], labels[part], embeddings[part]
                yield VectorBlock(*described, some, has_paths, sets)
        if count != self.count:
            raise ValueError(f"{self.name} does not hold {self.count:,} embeddings, as expected.")

    @property
    def num_blocks(self) -> int:
        """About how many blocks there are, to show progress."""
        return -(-self.count // _BLOCK)


def holds_embeddings(path: Path) -> bool:
    """Whether a path, not that of a run, is one for `vector_source`; a folder of images is not."""
    described = any((path / name).is_file() for name in ("index.json", "embeddings.json"))
    if described or path.suffix == ".npz":
        return True
    has_images = path.is_dir() and bool(find_images(path, LeftOut()))
    return not has_images and bool(_parquet_files(path))


def vector_source(
    path: PathLike,
    columns: Sequence[str] = (),
    needs_labels: bool = False,
    tokens: bool = False,
) -> VectorSource:
    """Opens the embeddings of a folder, an index or a file, with or without labels.

    Args:
        path: Folder of `embed_images`, or a run folder that holds one; index that keeps its
            vectors; Parquet file or folder of Parquet files with the column embedding, and path and
            label if the images have them; or `.npz` file with the array embeddings, and paths and
            labels. Paths of Parquet and `.npz` files are relative to the folder of the file, or
            absolute.
        columns: Names of further columns to read where they are, such as the camera.
        needs_labels: Whether a file without labels is refused.
        tokens: Whether to read the local features, which a folder or an index keeps of images that
            were embedded with them.

    Raises:
        FileNotFoundError: If there is nothing at the path, or a run has no embeddings.
        ValueError: If it holds no embeddings, lacks labels or tokens that are needed, or is
            damaged.

    Example:
        >>> vector_source("no/such/folder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder does not exist.
    """
    path = Path(path)
    if not path.exists():
        of_run = path.name == "index" and (path.parent / "recipe.yaml").is_file()
        advice = f" gsp-tf index {path.parent} makes it." if of_run else ""
        raise FileNotFoundError(f"{path} does not exist.{advice}")
    is_run = (path / "recipe.yaml").is_file()
    path = path / "embeddings" if is_run else path
    if (path / "index.json").is_file():
        source = _of_index(Index(path), columns, tokens)
    elif is_run or (path / "embeddings.json").is_file():
        source = _of_folder(EmbeddingsFolder.open(path), columns, tokens)
    elif tokens:
        raise ValueError(
            f"{path} holds no local features, which transport compares. Give a run, or a folder or "
            "an index of images that were embedded with --tokens."
        )
    elif path.suffix == ".npz":
        source = _of_arrays(path, columns, needs_labels)
    else:
        source = _of_parquet(path, columns, needs_labels)
    if not source.count:
        raise ValueError(f"{path} holds no embeddings.")
    return source._replace(name=str(path))


def validation_source(path: PathLike) -> VectorSource:
    """The validation images of a run, embedded by its model."""
    from gsp_tf.experiment import evaluation_batches, fingerprint, load_splits
    from gsp_tf.serving.embedding import RunModel

    model = RunModel(path)
    recipe = model.recipe
    others = "Embed images of other classes with gsp-tf embed, and calibrate these."
    if recipe.trainer == "classification":
        raise ValueError(
            f"The run {path} of trainer=classification has no validation classes but its training "
            f"classes. {others}"
        )
    if recipe.protocol.name in ("conventional", "tuning"):
        raise ValueError(
            f"The run {path} of protocol {recipe.protocol.name} has no validation classes but its "
            f"test classes. {others}"
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
    block = _block(path, getattr(images, "paths", None), labels, embeddings)
    name = f"the validation classes of {path}"
    return VectorSource(lambda: [block], *embeddings.shape, "euclidean", model.info, name)


def _block(file, paths, labels, embeddings, columns=None, first=0):
    """A block of a file, which may lack paths or labels, from row `first`."""
    count = len(embeddings)
    names = [f"{file}#{row}" for row in range(first, first + count)]
    if paths is not None:
        folder, both = os.path.dirname(file), zip(paths, names, strict=True)
        names = [located(path, folder) if path else name for path, name in both]
    labels = [None] * count if labels is None else labels
    return VectorBlock(names, labels, embeddings, columns or {}, paths is not None)


def _of_index(index, columns, tokens):
    some = [name for name in columns if name in index.columns]

    def read():
        for ids, embeddings in index.embeddings():
            found = column_texts({name: index.column(name, ids) for name in some})
            sets = index.token_sets(ids) if tokens else None
            described = index.paths(ids), index.labels(ids), embeddings
            yield VectorBlock(*described, found, tokens=sets)

    metadata = index.metadata
    return VectorSource(read, len(index), metadata.dim, metadata.metric, metadata.model)


def _of_folder(folder, columns, tokens):
    if tokens and not num_tokens(folder.shard_schema(0)):
        raise ValueError(
            f"{folder.path} keeps no local features; embed the images with --tokens to another "
            "folder."
        )

    def read():
        for shard in folder.shards():
            if shard.paths:
                found = {name: shard.columns[name] for name in columns if name in shard.columns}
                found = column_texts(found)
                sets = None
                if tokens:
                    sets = token_sets(pa.table({of: shard.columns[of] for of in TOKEN_COLUMNS}))
                described = shard.paths, shard.labels, shard.embeddings
                yield VectorBlock(*described, found, tokens=sets)

    metadata = folder.metadata()
    count = metadata.outcome.embedded
    return VectorSource(read, count, metadata.dim, metadata.metric, metadata.model)


def _of_arrays(path, columns, needs_labels):
    needed = ["labels", "embeddings"] if needs_labels else ["embeddings"]
    try:
        with np.load(path) as arrays:
            embeddings = checked_embeddings(arrays["embeddings"], "embeddings")
            wanted = {"labels", "paths", *columns} & {*arrays, *needed}
            found = {name: arrays[name].astype(str) for name in sorted(wanted)}
    except Exception as error:  # a broken archive may raise anything: EOFError, zlib.error...
        raise ValueError(
            f"{path} cannot be read; expected arrays {' and '.join(needed)}: {error}"
        ) from error
    for name, texts in found.items():
        if texts.shape != embeddings.shape[:1]:
            raise ValueError(
                f"{path} must have one value of {name} per embedding; received {name} "
                f"{texts.shape} and embeddings {embeddings.shape}."
            )
    known = (found[of].tolist() if of in found else None for of in ("paths", "labels"))
    some = {name: found[name] for name in columns if name in found}
    block = _block(path, *known, embeddings, some)
    return VectorSource(lambda: [block], *embeddings.shape)


def _of_parquet(path, columns, needs_labels):
    files = _parquet_files(path)
    if not files:
        raise ValueError(
            f"{path} holds no embeddings that can be read; expected a run folder, an index, a "
            "folder of gsp-tf embed, Parquet files (*.parquet) or a .npz file."
        )

    def read():
        for file in files:
            yield from _parquet_blocks(file, columns, needs_labels)

    first, count = next(read(), None), 0
    for file in files:
        with reading_parquet(file), pq.ParquetFile(file) as opened:
            count += opened.metadata.num_rows
    return VectorSource(read, count, 0 if first is None else first.embeddings.shape[1])


def _parquet_files(path):
    """The Parquet files of a folder, or that at the path."""
    return [file for file in parquet_files(path) if file.endswith(".parquet")]


def _parquet_blocks(file, columns, needs_labels):
    """Blocks of a Parquet file."""
    start = 0
    with reading_parquet(file), pq.ParquetFile(file) as opened:
        names = opened.schema_arrow.names
        missing = {"embedding", "label"} if needs_labels else {"embedding"}
        missing -= set(names)
        if missing:
            raise ValueError(
                f"{file} lacks the column {', '.join(sorted(missing))}; received "
                f"{', '.join(names)}."
            )
        wanted = sorted({"label", "path", *columns} & set(names))
        for batch in opened.iter_batches(_BLOCK, columns=[*wanted, "embedding"]):
            if len(batch):
                known = (
                    batch[of].cast(pa.string()).to_pylist() if of in wanted else None
                    for of in ("path", "label")
                )
                some = column_texts({name: batch[name] for name in columns if name in wanted})
                yield _block(file, *known, _rows(batch["embedding"], file), some, start)
                start += len(batch)


def _rows(column, file):
    """A column of lists of one length as an array `(n, D)`."""
    kind = column.type
    lists = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    numbers = pa.types.is_floating, pa.types.is_integer
    is_list = any(is_kind(kind) for is_kind in lists)
    if not (is_list and any(is_kind(kind.value_type) for is_kind in numbers)) or column.null_count:
        raise ValueError(
            f"{file} must hold a list of numbers in every row of embedding; received {kind} and "
            f"{column.null_count} rows without one."
        )
    values = column.flatten()
    lengths = np.asarray(pc.list_value_length(column))
    if values.null_count or len(set(lengths.tolist())) != 1:
        raise ValueError(f"{file} must hold embeddings of one length, without null.")
    return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
