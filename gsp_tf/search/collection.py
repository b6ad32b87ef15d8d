"""Large collections of images in Parquet files, embedded by many workers; any may be killed."""

import contextlib
import functools
import hashlib
import itertools
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gsp_tf._console import show_progress, to_install
from gsp_tf._typing import PathLike
from gsp_tf.search._embedded import EmbeddingsFolder, ImageList
from gsp_tf.search._tables import (
    class_names,
    located,
    opened_parquet,
    parquet_files,
    read_batches,
)
from gsp_tf.search.embed import (
    SHARD_SIZE,
    count_attempt,
    embed_shard,
    forget_attempts,
    writing,
)
from gsp_tf.search.embedder import RunModel

_READ = ("path", "bytes", "label")
_WRITTEN = ("embedding", "file_size", "file_time")


class _CollectionBatch(NamedTuple):
    """A batch of images of a collection, one per row."""

    names: list[str]  # absolute path, or Parquet file and row number
    labels: list[str | None]
    images: list[str | None] | list[bytes | None]
    columns: dict[str, pa.Array]


class _Collection:
    """Images in the rows of Parquet files, in the order of the files' paths.

    `embed_collection` says which columns they have. `sha256` is that of the names, sizes and
    footers of the files; a footer records where the values of each column are, and their limits.
    """

    def __init__(self, path: PathLike):
        path = Path(path).absolute()
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist; expected a Parquet file or a folder.")
        self.files = parquet_files(path)
        if not self.files:
            raise ValueError(f"There are no Parquet files (*.parquet) in {path}.")
        self.counts: list[int] = []
        self.columns: dict[str, pa.DataType] = {}
        digest = hashlib.sha256()
        for file in self.files:
            count, footer, columns = _checked(file)
            self.counts.append(count)
            for name, kind in columns.items():
                if self.columns.setdefault(name, kind) != kind:
                    raise ValueError(
                        f"The column {name} of {path} is of type {self.columns[name]} and, in "
                        f"{file}, of type {kind}; give it one type, or leave it out."
                    )
            name = os.path.relpath(file, path)
            digest.update(repr((name, os.path.getsize(file), footer)).encode())
        self.sha256 = digest.hexdigest()
        if not len(self):
            raise ValueError(f"{path} lists no images: its Parquet files have no rows.")

    def __len__(self) -> int:
        return sum(self.counts)

    def batches(self, start: int, stop: int, size: int) -> Iterator[_CollectionBatch]:
        """Reads the rows from `start` to `stop` lazily, in batches of at most `size`."""
        first = 0
        for file, count in zip(self.files, self.counts, strict=True):
            low, high = max(start - first, 0), min(stop - first, count)
            if low < high:
                yield from self._batches(file, count, low, high, size)
            first += count

    def _batches(self, file, count, low, high, size):
        """Reads the rows of a file from `low` to `high`, using only the row groups they need."""
        with opened_parquet(file) as opened:
            if opened.metadata.num_rows != count:
                raise ValueError(f"{file} was changed: it had {count} rows before.")
            sizes = [opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)]
            ends = list(itertools.accumulate(sizes))
            groups = [i for i, end in enumerate(ends) if low < end and high > end - sizes[i]]
            row = ends[groups[0]] - sizes[groups[0]]
            columns = [n for n in (*_READ, *self.columns) if n in opened.schema_arrow.names]
            for batch in read_batches(file, opened, columns, size, groups):
                wanted = batch.slice(max(low - row, 0), max(high - max(low, row), 0))
                if len(wanted):
                    yield self._named(wanted, file, max(low, row))
                row += len(batch)

    def _named(self, rows, file, first_row):
        """The `_CollectionBatch` of rows of a file, numbered from `first_row`."""
        found = {name: rows[name] for name in rows.schema.names}
        names = [f"{file}#{number}" for number in range(first_row, first_row + len(rows))]
        images = found["bytes"].to_pylist() if "bytes" in found else None
        if "path" in found:
            folder = os.path.dirname(file)
            paths = [located(path, folder) if path else None for path in found["path"].to_pylist()]
            names = [path or name for path, name in zip(paths, names, strict=True)]
            images = images or paths
        labels = [None] * len(rows)
        if "label" in found:
            labels = class_names(found["label"]).to_pylist()
        columns = {
            name: found[name].cast(kind) if name in found else pa.nulls(len(rows), kind)
            for name, kind in self.columns.items()
        }
        return _CollectionBatch(names, labels, images, columns)


def _checked(file: str) -> tuple[int, bytes, dict[str, pa.DataType]]:
    """Checks the types of a file; returns its number of rows, footer and other columns."""
    with opened_parquet(file) as opened:
        metadata = opened.metadata
        schema = metadata.schema.to_arrow_schema()
    types = {field.name: field.type for field in schema}
    text, binary = (pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())
    problems = [
        f"{name} is of type {types[name]}; expected {accepted[0]}"
        for name, accepted in {"path": text, "bytes": binary}.items()
        if name in types and types[name] not in accepted
    ]
    if "label" in types and pa.types.is_nested(types["label"]):
        problems.append(f"label is of type {types['label']}; expected string")
    if not {"path", "bytes"} & set(types):
        columns = ", ".join(schema.names)
        problems = [f"it has neither a column path nor bytes; received the columns {columns}"]
    if problems:
        raise ValueError(f"{file} cannot be used: {'; '.join(problems)}.")
    with open(file, "rb") as opened:
        opened.seek(-8 - metadata.serialized_size, os.SEEK_END)
        footer = opened.read()
    others = {
        name: kind.value_type if pa.types.is_dictionary(kind) else kind
        for name, kind in types.items()
        if name not in (*_READ, *_WRITTEN)
    }
    return metadata.num_rows, footer, others


class BatchEmbedder:
    """Adds embeddings to batches of images, as `embed_images` computes them.

    A batch is a dict of arrays `(N,)`. Its column `path` holds image files, or its column `bytes`
    holds their contents; `bytes` is used if both exist. Ray Data can map an instance directly, but
    the class depends on no engine. An instance can be pickled; it loads the model with its first
    batch.

    Args:
        run: Run folder, available under the same path on every machine.
        threads: TensorFlow threads in the process; `None` leaves the setting unchanged. Set it
            where several processes share a machine. The process must not have used TensorFlow yet.

    Input: a batch.

    Output: the same dict without `bytes`, plus `embedding`, float32 `(N, D)`, and `problem`, `(N,)`
    of str: empty, or why the image cannot be read. The embedding of an unreadable image is NaN.

    Raises:
        ValueError: If the run holds the models of several folds, or `threads` is below 1.

    Example:
        >>> BatchEmbedder("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """

    def __init__(self, run: PathLike, threads: int | None = None):
        RunModel(run)
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be 1 or more, or None; received {threads}.")
        self.run = str(Path(run).absolute())
        self.threads = threads

    def __reduce__(self) -> tuple:
        return BatchEmbedder, (self.run, self.threads)

    @functools.cached_property
    def model(self) -> RunModel:
        """The model, loaded on first use."""
        from gsp_tf._backend import limit_threads  # here: other functions need no backend

        if self.threads is not None:
            limit_threads(self.threads)
        return RunModel(self.run)

    def __call__(self, batch: Mapping[str, Sequence]) -> dict[str, Any]:
        name = next((name for name in ("bytes", "path") if name in batch), None)
        if name is None:
            raise ValueError(
                f"A batch needs a column path or bytes; received the columns {', '.join(batch)}."
            )
        kind = {"bytes": bytes, "path": str}[name]
        images = [None if image is None else kind(image) for image in batch[name]]
        embeddings, problems = self.model.embed_images(images)
        others = {name: values for name, values in batch.items() if name != "bytes"}
        return {**others, "embedding": embeddings, "problem": np.array(problems, dtype=str)}


_LONGEST = 40  # characters; Ray adds up to 62, and a socket path holds at most 107
_OBJECT_STORE = 100_000_000  # bytes; images and embeddings do not pass through it


@contextlib.contextmanager
def _ray_session(cpus: int | None = None) -> Iterator[ModuleType]:
    """Ray as already connected, on RAY_ADDRESS, or on a local cluster that ends with the block."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError(
            f"Collections are embedded by Ray Data, which is not installed: {to_install('ray')}."
        ) from error
    if ray.is_initialized():
        yield ray
        return
    # The folder for Ray's sockets, which need short paths.
    folder = os.path.join(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray")
    quiet = {"log_to_driver": False, "logging_level": logging.WARNING}
    if os.environ.get("RAY_ADDRESS"):
        ray.init(**quiet)
    else:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            "local",
            num_cpus=cpus,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE,
            _temp_dir=folder if len(folder) <= _LONGEST else "/tmp/ray",
            **quiet,
        )
    try:
        yield ray
    finally:
        ray.shutdown()


_MOST_BLOCKS = 10_000
_BATCH = 512


def embed_collection(
    run: PathLike,
    source: PathLike,
    out: PathLike | None = None,
    workers: int | None = None,
    cpus_per_worker: int = 1,
    shard_size: int = SHARD_SIZE,
) -> EmbeddingsFolder:
    """Embeds the images that Parquet files list or hold, with the workers of Ray Data.

    The rows of the collection, in the order of the files, are divided into shards. Each worker is a
    process that writes one shard at a time to a temporary file, which it then renames. The rows of
    a shard do not depend on which worker writes it, on the number of attempts or on their order.
    A killed worker is replaced and its shards are retried. If everything was killed, the same call
    continues with the missing shards. At the end, every shard must account for all of its rows.
    Unreadable images are left out and listed in `corrupt.csv`. A worker keeps one shard of
    embeddings and a few images in memory.

    Ray uses its existing connection, the cluster at RAY_ADDRESS, or this machine. The run, the
    collection and `out` must have the same paths on all machines.

    Args:
        run, out, shard_size: As for `embed_images`.
        source: Parquet file, or folder that is searched for Parquet files at any depth. The column
            `path` names image files, absolute or relative to the folder of the Parquet file, or the
            column `bytes` holds their contents. If both exist, `path` only names the images. The
            column `label` is optional and holds the classes. Other columns are passed on.
        workers: Number of processes; `None` means as many as the cores allow.
        cpus_per_worker: Cores per worker, and threads of its TensorFlow.

    Raises:
        ImportError: If Ray is not installed.
        ValueError: If a file of the collection cannot be used, or a shard kills all workers.
        OSError, ValueError: As `embed_images`.

    Example:
        >>> embed_collection("no/such/run", "photos")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    for name, number in (("workers", workers), ("cpus_per_worker", cpus_per_worker)):
        if number is not None and number < 1:
            raise ValueError(f"{name} must be 1 or more, received {number}.")
    model, collection = RunModel(run), _Collection(source)
    images = ImageList(len(collection), collection.sha256)
    with writing(out, model, images, shard_size) as (folder, _, missing):
        forget_attempts(folder)
        if missing:
            run, out = str(model.folder.path.absolute()), str(folder.path.absolute())
            _embed(missing, (run, out, collection, cpus_per_worker), workers, cpus_per_worker)
    return folder


def _embed(missing: list[int], arguments: tuple, workers: int | None, cpus: int) -> None:
    with _ray_session() as ray:
        if workers is None:
            workers = max(1, int(ray.cluster_resources().get("CPU", 0) // cpus))
        workers = min(workers, len(missing))
        shards = ray.data.from_items(
            [{"shard": number} for number in missing],
            override_num_blocks=min(len(missing), _MOST_BLOCKS),
        )
        shards.context.enable_progress_bars = False
        written = shards.map_batches(
            _ShardEmbedder,
            fn_constructor_args=arguments,
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=1),
            num_cpus=cpus,
        )
        description = f"Embedding, {workers} workers"
        for row in show_progress(written.iter_rows(), description, len(missing)):
            if row["problem"]:
                raise ValueError(f"{row['problem']} The same call continues with what is missing.")


class _ShardEmbedder:
    """A worker that writes missing shards and reports those that it cannot write."""

    def __init__(self, run: str, out: str, collection: _Collection, threads: int | None):
        self.embedder = BatchEmbedder(run, threads)
        self.folder = EmbeddingsFolder(out)
        self.collection = collection
        self.metadata = self.folder.metadata()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        problems = [self._try(int(number)) for number in batch["shard"]]
        return {"shard": batch["shard"], "problem": np.array(problems, dtype=str)}

    def _try(self, number):
        if self.folder.shard_path(number).is_file():
            return ""
        try:
            count_attempt(self.folder, number)
            self.folder.write_shard(number, *self._shard(number))
        except (ValueError, OSError) as error:
            return f"Shard {number}: {error}"
        return ""

    def _shard(self, number):
        model, metadata = self.embedder.model, self.metadata
        if model.info.sha256 != metadata.model.sha256:
            raise ValueError(f"the model of {self.embedder.run} changed while it was used.")
        start = number * metadata.shard_size
        stop = min(start + metadata.shard_size, metadata.images.listed)
        batches = self.collection.batches(start, stop, _BATCH)
        tables, corrupt = zip(*(embed_shard(model, *batch) for batch in batches), strict=True)
        return pa.concat_tables(tables), list(itertools.chain(*corrupt))
