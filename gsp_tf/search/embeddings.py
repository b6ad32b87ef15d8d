"""Embeddings from anywhere: one Arrow table, which is read in blocks."""

import dataclasses
import functools
import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from gsp_tf import runs
from gsp_tf._arguments import check_choice, checked_seed
from gsp_tf._console import bulleted, counted, listed, show_progress
from gsp_tf._files import check_zip, json_object, replacing
from gsp_tf._metadata import ModelInfo, check_same_model, parsed
from gsp_tf._typing import PathLike
from gsp_tf.data import LeftOut, find_images
from gsp_tf.evaluation import TokenSets, checked_embeddings
from gsp_tf.search._embedded import FILE_COLUMNS, EmbeddingsFolder
from gsp_tf.search._tables import (
    TOKEN_COLUMNS,
    ImageTable,
    class_names,
    column_texts,
    list_rows,
    located,
    num_tokens,
    opened_parquet,
    parquet_files,
    plain_columns,
    read_batches,
    token_columns,
    token_sets,
    vector_column,
    vectors_of,
)
from gsp_tf.search.embed import embed_files, list_images
from gsp_tf.search.embedder import RunModel
from gsp_tf.search.index._folder import joined_items
from gsp_tf.search.index._where import ConditionError, rows_where
from gsp_tf.search.index.image_index import Index

MOST_IMAGES = 60_000
_BLOCK = 1024
_ARRAYS = (".npz", ".npy")
_KNOWN = ("embedding", "path", "label")
_NOT_METADATA = ("id", *FILE_COLUMNS, *TOKEN_COLUMNS)
_IDENTITY_KEY = b"gsp_tf embeddings"
Split = Literal["validation", "test", "gallery"]


@dataclasses.dataclass(frozen=True)
class _Identity:
    """What `to_parquet` writes of the model that made the embeddings, and of their distance."""

    model: ModelInfo | None
    metric: Literal["euclidean", "cosine"] | None


@dataclasses.dataclass(frozen=True)
class Embeddings:
    """Embeddings of images, and what is known of the images: a table that is read in blocks.

    The columns are `embedding` (lists of D float32 numbers), `path` (FILE#ROW for images without a
    path), `label` (null where unknown) and those of the source, such as the camera. Nothing is held
    in memory before `table` or what follows from it is asked for.

    Args:
        read_tables: function that gives tables with these columns, of any number of rows.
        count: number of embeddings N.
        dim: their dimension D.
        name: the source, in words.
        metric: the distance that they are made for, `None` if it is unknown.
        model: the model that made them, `None` if it is unknown.
        path: the file or folder that was read, `None` for arrays.
        has_paths: whether the images have paths.
        notes: sentences about images that were left out.
        others: columns that were left out, with their types.
        has_tokens: whether the columns `tokens`, `token_weights` and `token_places` hold the local
            features of the images.
        largest: what no absolute value of a vector exceeds, `None` if it is unknown.

    Example:
        >>> cats = Embeddings.from_arrays(np.eye(3), labels=["cat", "dog", "cat"]).where(
        ...     "label == 'cat'"
        ... )
        >>> cats.vectors.tolist()
        [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """

    read_tables: Callable[[], Iterable[pa.Table]]
    count: int
    dim: int
    name: str = "the embeddings"
    metric: str | None = None
    model: ModelInfo | None = None
    path: Path | None = None
    has_paths: bool = True
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    has_tokens: bool = False
    largest: float | None = None

    @classmethod
    def from_arrays(
        cls,
        embeddings: ArrayLike,
        paths: Sequence[str] | None = None,
        labels: Sequence[str | None] | None = None,
        columns: Mapping[str, ArrayLike] | None = None,
        metric: str | None = None,
        model: ModelInfo | None = None,
        name: str = "the embeddings",
        tokens: TokenSets | None = None,
    ) -> "Embeddings":
        """Embeddings in memory; their arrays are not copied, and must not change afterwards.

        Args:
            embeddings: numbers `(N, D)`.
            paths: N paths of the images.
            labels: N class names, `None` where unknown.
            columns: further columns of N values by name.
            metric, model, name: as for the class.
            tokens: the local features of the images.
        """
        embeddings = checked_embeddings(embeddings, f"The embeddings of {name}")
        columns = dict(columns or {}) | ({} if tokens is None else token_columns(tokens))
        table = _table(name, paths, labels, embeddings, columns)
        has_paths = paths is not None
        described = {"has_paths": has_paths, "has_tokens": tokens is not None}
        return cls(lambda: [table], *embeddings.shape, name, metric, model, **described)

    @classmethod
    def read(
        cls,
        source: "Embeddings | PathLike | Sequence[PathLike]",
        run: PathLike | RunModel | None = None,
        split: Split | None = None,
        tokens: bool | None = False,
    ) -> "Embeddings":
        """Reads embeddings from anywhere, or embeds images.

        Args:
            source: folder of `embed_images`, or a run folder that holds one; index that keeps its
                vectors; Parquet file or folder of Parquet files with the column embedding, and path
                and label if the images have them; `.npz` file with the array embeddings, and paths
                and labels; `.npy` file with embeddings alone; or `Embeddings`, which are given
                back. Paths of Parquet and `.npz` files are relative to the folder of the file, or
                absolute. With a run also image files, folders of images and CSV files with the
                columns path and label. Columns of numbers, texts, truth values, dates and times are
                read too; of an `.npz` file, arrays with one value per embedding.
            run: run folder, its `RunModel` or the name of a pretrained network, which embeds
                images.
            split: images of a run folder, the source, to read instead of those that it has
                embedded: those of its last evaluation ("test"), their gallery, or those of its
                validation classes, which are embedded.
            tokens: whether to read the local features, which a folder or an index keeps of images
                that were embedded with them; `None` reads them where they are.

        Raises:
            FileNotFoundError: if there is nothing at the path, or a run has no embeddings.
            ValueError: if there are no embeddings, tokens are missing, or a file is damaged.
        """
        if isinstance(source, Embeddings):
            if tokens and not source.has_tokens:
                raise _without_tokens(source.name)
            return source
        several = isinstance(source, list | tuple)
        if several or (run is not None and not holds_embeddings(Path(source))):
            sources = source if several else [source]
            if tokens:
                raise _without_tokens(listed(sources))
            return _of_images(sources, run)
        path = Path(source)
        if split is None:
            return _opened(path, tokens)
        check_choice("split", split, Split)
        if tokens:
            raise _without_tokens(f"The run {path}")
        if split == "validation":
            return _of_validation(path)
        found = evaluated_embeddings(path)[split == "gallery"]
        if found is None:
            raise ValueError(f"The run {path} has no gallery.")
        return found

    def blocks(self) -> Iterator[pa.Table]:
        """Yields tables of at most 1,024 rows."""
        count = 0
        for table in self.read_tables():
            dim = table["embedding"].type.list_size
            if dim != self.dim:
                raise ValueError(
                    f"{self.name} holds embeddings of different dimensions, {self.dim} and {dim}."
                )
            count += len(table)
            if count > self.count:
                break
            for start in range(0, len(table), _BLOCK):
                yield table.slice(start, _BLOCK)
        if count != self.count:
            raise ValueError(f"{self.name} does not hold {self.count:,} embeddings, as expected.")

    @property
    def num_blocks(self) -> int:
        """About how many blocks there are, to show progress."""
        return -(-self.count // _BLOCK)

    @functools.cached_property
    def table(self) -> pa.Table:
        """All rows, in memory."""
        vectors, others, start = np.empty((self.count, self.dim), np.float32), [], 0
        for block in self.blocks():
            vectors[start : start + len(block)] = vectors_of(block)
            start += len(block)
            others.append(block.drop_columns("embedding"))
        table = pa.concat_tables(others, promote_options="permissive").combine_chunks()
        return table.append_column("embedding", vector_column(vectors))

    @property
    def vectors(self) -> np.ndarray:
        """The embeddings, float32 `(N, D)`."""
        return vectors_of(self.table)

    @property
    def paths(self) -> list[str]:
        """N paths, or FILE#ROW for images without one."""
        return self.table["path"].to_pylist()

    @property
    def labels(self) -> list[str | None]:
        """N class names, `None` where unknown."""
        return self.table["label"].to_pylist()

    @functools.cached_property
    def classes(self) -> tuple[list[str], np.ndarray]:
        """The names of the C classes, and the number of each image's class, integers `(N,)`.

        Raises:
            ValueError: if an image has no label; `labelled` leaves such images out.
        """
        labels = self.labels
        if None in labels:
            raise ValueError(f"{self.name} has images without a label; `labelled` leaves them out.")
        names, numbers = np.unique(labels, return_inverse=True)
        return names.tolist(), numbers

    @property
    def tokens(self) -> TokenSets | None:
        """The local features of the images, if they were read."""
        return token_sets(self.table) if self.has_tokens else None

    def texts(self, column: str) -> np.ndarray:
        """A column as texts `(N,)`, empty where a value is missing."""
        if column not in self.table.column_names:
            raise ValueError(
                f"{self.name} has no column {column}. Name a table with the columns path and "
                f"{column} (--table FILE)."
            )
        return column_texts(self.table, column)

    def where(self, condition: str) -> "Embeddings":
        """The embeddings of the images that meet a condition.

        Args:
            condition: such as `camera != 3 and year > 2020`, on the columns, as for `rows_where`.

        Raises:
            ConditionError: if the condition cannot be used, or no image meets it.
        """
        found = self._kept(lambda block: rows_where(block, condition))
        if not found.count:
            raise ConditionError(f"No image of {self.name} meets the condition {condition!r}.")
        return found

    def labelled(self, most_images: int | None = MOST_IMAGES, seed: int = 0) -> "Embeddings":
        """The embeddings of images with a label; of too many, those of random classes.

        Args:
            most_images: number of images to keep at most, in whole classes; `None` keeps all.
            seed: seed of the choice of classes.

        Raises:
            ValueError: if no image has a label, or `most_images` are less than those of two
                classes.
        """
        counts = Counter()
        for block in self.blocks():
            counts.update(block["label"].drop_null().to_pylist())
        if not counts:
            raise ValueError(f"{self.name} has no labels; the classes of images are needed.")
        names, sizes = list(counts), np.array(list(counts.values()))
        order = np.random.default_rng(checked_seed(seed)).permutation(len(names))
        most = sizes.sum() if most_images is None else most_images
        taken = order[np.cumsum(sizes[order]) <= most]
        if len(taken) < min(2, len(names)):
            raise ValueError(f"{self.name} has classes of more than {most:,} images.")
        notes = []
        if sizes.sum() < self.count:
            notes.append(f"{self.count - sizes.sum():,} images without a label are left out.")
        if len(taken) < len(names):
            notes.append(
                f"{sizes[taken].sum():,} of {sizes.sum():,} images are used, those of "
                f"{len(taken):,} random classes of {len(names):,}."
            )
        kept = pa.array([names[row] for row in taken], pa.string())
        found = self._kept(lambda block: pc.is_in(block["label"], kept), int(sizes[taken].sum()))
        return dataclasses.replace(found, notes=(*self.notes, *notes))

    def _kept(self, mask, count=None):
        """The rows for which a function of a block is true."""
        if count is None:
            count = sum(pc.sum(mask(block)).as_py() or 0 for block in self.blocks())
        return dataclasses.replace(
            self,
            read_tables=lambda: (block.filter(mask(block)) for block in self.blocks()),
            count=count,
        )

    def with_columns(self, table: PathLike, names: Sequence[str] | None = None) -> "Embeddings":
        """The embeddings with columns of a table that `ImageTable` reads, in place of their own.

        Args:
            table: CSV or Parquet file with the column path.
            names: columns to take; `None` takes all but the label. Paths and embeddings stay.

        Raises:
            ValueError: if the table cannot be read or lacks an image, or the images have no paths.
        """
        if not self.has_paths:
            raise ValueError(f"{self.name} names no image files to look up in {table}.")
        found = ImageTable(table, names)
        kept = {"path", "embedding", *TOKEN_COLUMNS} | ({"label"} if names is None else set())

        def read():
            for block in self.blocks():
                rows = found.rows(block["path"].to_pylist())
                for name in (name for name in rows.column_names if name not in kept):
                    if name in block.column_names:
                        block = block.drop_columns(name)
                    column = class_names(rows[name]) if name == "label" else rows[name]
                    block = block.append_column(name, column)
                yield block

        return dataclasses.replace(self, read_tables=read)

    def to_parquet(self, path: PathLike) -> Path:
        """Writes a Parquet file, which `read` reads with the model and the metric."""
        identity = json.dumps(dataclasses.asdict(_Identity(self.model, self.metric)))
        blocks = self.blocks()
        first = next(blocks).replace_schema_metadata({_IDENTITY_KEY: identity})
        with replacing(path) as file, pq.ParquetWriter(file, first.schema) as writer:
            writer.write_table(first)
            for block in blocks:
                writer.write_table(block.cast(first.schema))
        return Path(path)


def read_labelled(
    source: Embeddings | PathLike,
    most_images: int | None = MOST_IMAGES,
    seed: int = 0,
    tokens: bool = False,
) -> Embeddings:
    """The labelled embeddings of a source, of a run those of its validation classes."""
    is_run = not isinstance(source, Embeddings) and runs.is_run(source)
    found = Embeddings.read(source, split="validation" if is_run else None, tokens=tokens)
    return found.labelled(most_images, seed)


def holds_embeddings(path: Path) -> bool:
    """Whether `Embeddings.read` takes a path without a run; a folder of images holds none."""
    if runs.is_run(path) or is_index(path) or _is_embedded(path) or path.suffix in _ARRAYS:
        return True
    has_images = path.is_dir() and bool(find_images(path, LeftOut()))
    return not has_images and bool(_parquet_files(path))


def metric_of(source: Embeddings, metric: str | None) -> str:
    """The given distance, or that of a source of embeddings; refuses one that they cannot have."""
    if metric == "euclidean" and source.metric == "cosine":
        raise ValueError(
            "Embeddings for cosine distances may have lost their lengths, which Euclidean "
            "distances need; received metric='euclidean', accepted is 'cosine' or no metric."
        )
    return metric or source.metric or "euclidean"


def is_index(path: PathLike) -> bool:
    """Whether a folder is that of an index."""
    return Path(path, "index.json").is_file()


def _is_embedded(path):
    return EmbeddingsFolder(path).metadata_path.is_file()


def _without_tokens(whose):
    return ValueError(
        f"{whose} keeps no local features, which transport compares. Give a folder or an index of "
        "images that were embedded with --tokens to another folder."
    )


def _opened(path, tokens):
    if not path.exists():
        makes = {"index": f"index {path.parent}", "embeddings": f"embed {path.parent} IMAGES"}
        of_run = path.name in makes and runs.is_run(path.parent)
        advice = f" gsp-tf {makes[path.name]} makes it." if of_run else ""
        raise FileNotFoundError(f"{path} does not exist.{advice}")
    is_run = runs.is_run(path)
    path = path / "embeddings" if is_run else path
    if is_index(path):
        found = _of_index(Index(path), tokens)
    elif is_run or _is_embedded(path):
        found = _of_folder(EmbeddingsFolder.open(path), tokens)
    elif tokens:
        raise _without_tokens(path)
    else:
        found = (_of_arrays if path.suffix in _ARRAYS else _of_parquet)(path)
    if not found.count:
        raise ValueError(f"{path} holds no embeddings.")
    return dataclasses.replace(found, name=str(path), path=path)


def _table(whose, paths, labels, embeddings, columns, folder="", first=0):
    """A table of a source, which may lack paths or labels, from row `first`."""
    count = len(embeddings)
    own = {"path": "paths", "label": "labels", "embedding": "embeddings"}
    for name in own.keys() & columns.keys():
        raise ValueError(f"{whose} must have {own[name]}; received the column {name}.")
    for name, values in (("paths", paths), ("labels", labels), *columns.items()):
        shape = (count,) if values is None else getattr(values, "shape", (len(values),))
        if shape != (count,):
            raise ValueError(
                f"{whose} must have one value of {name} per embedding; received {name} {shape} and "
                f"embeddings {embeddings.shape}."
            )
    names = [f"{whose}#{row}" for row in range(first, first + count)]
    if paths is not None:
        both = zip(paths, names, strict=True)
        names = [located(path, folder) if path else name for path, name in both]
    known = {
        "path": pa.array(names, pa.string()),
        "label": pa.nulls(count, pa.string()) if labels is None else class_names(labels),
        "embedding": vector_column(embeddings),
    }
    return pa.table(columns | known)


def _of_index(index, tokens):
    tokens = index.has_tokens if tokens is None else tokens

    def read():
        for ids, vectors in index.embeddings():
            items = index.items(ids).drop_columns("id")
            if tokens:
                for name, column in token_columns(index.token_sets(ids)).items():
                    items = items.append_column(name, column)
            yield items.append_column("embedding", vector_column(vectors))

    metadata = index.metadata
    described = {"metric": metadata.metric, "model": metadata.model, "has_tokens": tokens}
    return Embeddings(read, len(index), metadata.dim, **described)


def _of_folder(folder, tokens):
    schema = folder.shard_schema(0)
    tokens = bool(num_tokens(schema)) if tokens is None else tokens
    if tokens and not num_tokens(schema):
        raise _without_tokens(folder.path)
    own = ["embedding", *(TOKEN_COLUMNS if tokens else ())]
    left_out = [name for name in schema.names if name in (*own, *_NOT_METADATA)]
    plain, others = plain_columns(schema.empty_table().drop_columns(left_out))
    if "id" in left_out:
        others.append("id (an index has one of its own)")

    def read():
        for shard in folder.shards():
            if len(shard):
                checked_embeddings(vectors_of(shard), f"The embeddings of {folder.path}")
                kept = plain_columns(shard.select(plain.column_names))[0]
                for name in own:
                    kept = kept.append_column(name, shard[name])
                yield kept.replace_schema_metadata()

    metadata = folder.metadata()
    described = {"metric": metadata.metric, "model": metadata.model, "others": tuple(others)}
    described |= {"has_tokens": tokens, "largest": metadata.outcome.lengths[1]}
    return Embeddings(read, metadata.outcome.embedded, metadata.dim, **described)


def _of_arrays(path):
    try:
        if path.suffix == ".npz":
            check_zip(path, "an archive of arrays")
        loaded = np.load(path)
        with nullcontext({"embeddings": loaded}) if path.suffix == ".npy" else loaded as arrays:
            embeddings = checked_embeddings(arrays["embeddings"], "embeddings")
            paths = arrays["paths"].astype(str) if "paths" in arrays else None
            labels = class_names(pa.array(arrays["labels"])) if "labels" in arrays else None
            values = {n: arrays[n] for n in sorted({*arrays} - {"embeddings", "paths", "labels"})}
    except Exception as error:  # a broken archive may raise anything: EOFError, zlib.error...
        expected = "an array (N, D)"
        if path.suffix == ".npz":
            expected = "arrays embeddings (N, D), and paths and labels (N,)"
        raise ValueError(f"{path} cannot be read; expected {expected}: {error}") from error
    columns, others = {}, []
    for name, of in values.items():
        if of.shape == (len(embeddings),):
            try:
                columns[name] = pa.array(of)
            except pa.ArrowException:  # such as complex numbers
                others.append(f"{name} ({of.dtype})")
    plain, more = plain_columns(pa.table(columns))
    columns = dict(zip(plain.column_names, plain.columns, strict=True))
    table = _table(path, paths, labels, embeddings, columns, path.parent)
    described = {"has_paths": paths is not None, "others": (*others, *more)}
    return Embeddings(lambda: [table], *embeddings.shape, **described)


def _of_parquet(path):
    files = _parquet_files(path)
    if not files:
        raise ValueError(
            f"{path} holds no embeddings that can be read; expected a run folder, an index, a "
            "folder of gsp-tf embed, Parquet files (*.parquet), a .npz or a .npy file."
        )
    count, others, has_paths, columns, identities = 0, {}, True, [], []
    for file in files:
        with opened_parquet(file) as opened:
            count += opened.metadata.num_rows
            schema = opened.schema_arrow
        if "embedding" not in schema.names:
            raise ValueError(
                f"{file} lacks the column embedding; received {', '.join(schema.names)}."
            )
        for name in ("path", "label"):
            if name in schema.names and pa.types.is_nested(schema.field(name).type):
                raise ValueError(
                    f"{file} cannot be used: {name} is of type {schema.field(name).type}; expected "
                    "string."
                )
        has_paths &= "path" in schema.names
        plain, left_out = _metadata_of(schema)
        columns.append(plain)
        others |= dict.fromkeys(left_out)
        identities.append(_identity(file, schema))
        first, found = identities[0], identities[-1]
        both = f"{files[0]} and {file}"
        check_same_model(first.model, found.model, both)
        if first.metric != found.metric:
            raise ValueError(
                f"{both} do not belong together: the distances are {first.metric} and "
                f"{found.metric}."
            )
    read = functools.partial(_parquet_tables, files, path, joined_items(columns).schema)
    table = next(read(), None)
    return Embeddings(
        read,
        count,
        0 if table is None else table["embedding"].type.list_size,
        metric=first.metric,
        model=first.model,
        has_paths=has_paths,
        others=tuple(others),
    )


def _metadata_of(schema):
    """An empty table with the columns of metadata in a Parquet file, and the columns left out."""
    return plain_columns(
        schema.empty_table().drop_columns([name for name in _KNOWN if name in schema.names])
    )


def _identity(file, schema):
    """What `to_parquet` has written in a Parquet file."""
    text = (schema.metadata or {}).get(_IDENTITY_KEY)
    if text is None:
        return _Identity(None, None)
    entries = json_object(file, text)
    try:
        return parsed(_Identity, entries, "")
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error


def _parquet_files(path):
    """The Parquet files of a folder, or that at the path."""
    return [file for file in parquet_files(path) if file.endswith(".parquet")]


def _parquet_tables(files, whose, schema):
    """Tables of Parquet files with the metadata of a schema, missing where a file has none."""
    for file in files:
        start = 0
        with opened_parquet(file) as opened:
            plain = _metadata_of(opened.schema_arrow)[0].column_names
            known = [name for name in ("path", "label") if name in opened.schema_arrow.names]
            for batch in read_batches(file, opened, [*plain, *known, "embedding"]):
                if len(batch):
                    paths = batch["path"].cast(pa.string()).to_pylist() if "path" in known else None
                    labels = batch["label"] if "label" in known else None
                    vectors = list_rows(batch["embedding"], file)
                    vectors = checked_embeddings(vectors, f"The embeddings of {whose}")
                    columns = {
                        name: batch[name].cast(kind)
                        if name in plain
                        else pa.nulls(len(batch), kind)
                        for name, kind in zip(schema.names, schema.types, strict=True)
                    }
                    folder = os.path.dirname(file)
                    yield _table(file, paths, labels, vectors, columns, folder, start)
                    start += len(batch)


def _of_images(sources, run):
    if run is None:
        raise ValueError(
            f"{listed(sources)} are images; name the run or the network that embeds them (run=...)."
        )
    model = run if isinstance(run, RunModel) else RunModel(runs.run_folder(str(run)))
    images = list_images(sources)
    table, corrupt = embed_files(model, images, "Embedding")
    reasons = bulleted([f"{path}: {reason}" for path, reason in corrupt])
    if not len(table):
        raise ValueError(f"No image can be read of {counted(len(images), 'file')}:\n{reasons}")
    if corrupt:
        warnings.warn(
            f"{len(corrupt)} of {counted(len(images), 'file')} cannot be read as images and are "
            f"left out:\n{reasons}",
            stacklevel=4,
        )
    table = table.drop_columns(list(FILE_COLUMNS))
    described = {"name": listed(sources), "metric": "euclidean", "model": model.info}
    return Embeddings(lambda: [table], len(table), model.dim, **described)


def _of_validation(path):
    """The validation images of a run, embedded by its model."""
    model = RunModel(path)
    recipe = model.recipe
    known, by = None, f"protocol {recipe.protocol.name}"
    if recipe.trainer == "classification":
        known, by = "training", "trainer=classification"
    elif recipe.protocol.name in ("conventional", "tuning"):
        known = "test"
    if known is not None:
        raise ValueError(
            f"The run {path} of {by} has no validation classes but its {known} classes. Embed "
            "images of other classes with gsp-tf embed, and calibrate these."
        )
    splits = runs.load_splits(recipe, download=False)
    trained = model.folder.metrics().get("train_classes")
    if trained not in (None, runs.fingerprint(splits.train)):
        raise ValueError(
            f"The training classes are not those that {path} was trained on: the data or the split "
            "in its recipe have changed, and the model may have been trained on the others."
        )
    images = splits.validation
    embeddings = model.embed_batches(
        runs.evaluation_batches(recipe, images), "Embedding the validation images"
    )
    found = _of_set(model, images, embeddings, f"the validation classes of {path}")
    return dataclasses.replace(found, path=path)


def _of_set(model, images, embeddings, name, tokens=None):
    """The embeddings of an `ImageSet` by the model of a run."""
    labels = [images.class_names[label] for label in images.labels]
    paths = getattr(images, "paths", None)
    described = {"metric": "euclidean", "model": model.info, "name": name, "tokens": tokens}
    return Embeddings.from_arrays(embeddings, paths, labels, **described)


def evaluated_embeddings(
    path: PathLike, with_gallery: bool = True, tokens: int | None = None
) -> tuple[Embeddings, Embeddings | None]:
    """The test images of a run and its gallery, as its last evaluation embedded them."""
    model = RunModel(path)  # refuses the folder of several models
    token_model = None if tokens is None else runs.TokenModel(model.embedder, tokens)
    run = runs.Run(path)
    run.splits = runs.load_splits(run.recipe, download=False)
    kept = run.test_embeddings()

    def embedded(images, embeddings):
        sets = None
        if token_model is not None:
            batches = runs.evaluation_batches(run.recipe, images)
            batches = show_progress(batches, "Local features of the test images", len(batches))
            sets = token_model.embed(batches)
        return _of_set(model, images, embeddings, str(path), sets)

    gallery = run.splits.gallery if with_gallery else None
    queries = embedded(run.splits.test, kept.queries)
    return queries, None if gallery is None else embedded(gallery, kept.references)
