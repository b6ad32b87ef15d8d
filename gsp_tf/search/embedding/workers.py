"""Embedding of large collections by many workers; any worker may be killed."""

from typing import Any

import numpy as np
import pyarrow as pa

from gsp_tf._console import show_progress
from gsp_tf._files import locked
from gsp_tf._typing import PathLike
from gsp_tf.search.embedding._job import (
    SHARD_SIZE,
    begin,
    count_attempt,
    file_columns,
    finish,
    forget_attempts,
    missing_shards,
)
from gsp_tf.search.embedding._ray import ray_session
from gsp_tf.search.embedding.batch_embedder import BatchEmbedder
from gsp_tf.search.embedding.collection import Collection
from gsp_tf.search.embedding.folder import FILE_COLUMNS, EmbeddingsFolder, ImageList, Shard
from gsp_tf.search.embedding.run_model import RunModel

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
        run: Run folder.
        source: Parquet file or folder of Parquet files, as for `Collection`.
        out: Folder to write; `None` means the folder `embeddings` in the run.
        workers: Number of processes; `None` means as many as the cores allow.
        cpus_per_worker: Cores per worker, and threads of its TensorFlow.
        shard_size: Images per file; a resumed folder keeps its own.

    Returns:
        The folder of embeddings.

    Raises:
        ImportError: If Ray is not installed.
        FileNotFoundError: If `run` is not a run folder, or `source` does not exist.
        BlockingIOError: If another process is writing `out`.
        FileExistsError: If `out` holds other files.
        ValueError: If a number is below 1, `out` holds embeddings of another model, preprocessing
            or collection, a file of the collection cannot be used, no image can be read, or a shard
            kills every worker that tries it.

    Example:
        >>> embed_collection("no/such/run", "photos")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    for name, number in (("workers", workers), ("cpus_per_worker", cpus_per_worker)):
        if number is not None and number < 1:
            raise ValueError(f"{name} must be 1 or more, received {number}.")
    model, collection = RunModel(run), Collection(source)
    folder = EmbeddingsFolder(model.folder.path / "embeddings" if out is None else out)
    folder.refuse_other_files()
    with locked(folder.path):
        images = ImageList(len(collection), collection.sha256)
        metadata = begin(folder, model, images, shard_size)
        missing = missing_shards(folder, metadata)
        forget_attempts(folder)
        if missing:
            run, out = str(model.folder.path.absolute()), str(folder.path.absolute())
            _embed(missing, (run, out, collection, cpus_per_worker), workers, cpus_per_worker)
        finish(folder, metadata)
    return folder


def _embed(missing: list[int], arguments: tuple, workers: int | None, cpus: int) -> None:
    """Writes the missing shards."""
    with ray_session() as ray:
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
            compute=ray.data.ActorPoolStrategy(size=workers),
            num_cpus=cpus,
        )
        description = f"Embedding, {workers} workers"
        for row in show_progress(written.iter_rows(), description, len(missing)):
            if row["problem"]:
                raise ValueError(f"{row['problem']} The same call continues with what is missing.")


class _ShardEmbedder:
    """A worker that writes missing shards and reports those that it cannot write."""

    def __init__(self, run: str, out: str, collection: Collection, threads: int | None):
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
            self.folder.write_shard(number, self._shard(number))
        except (ValueError, OSError) as error:
            return f"Shard {number}: {error}"
        return ""

    def _shard(self, number):
        model, metadata = self.embedder.model, self.metadata
        if model.info.sha256 != metadata.model.sha256:
            raise ValueError(f"the model of {self.embedder.run} changed while it was used.")
        start = number * metadata.shard_size
        stop = min(start + metadata.shard_size, metadata.images.listed)
        types = FILE_COLUMNS | self.collection.columns
        columns = {name: [] for name in types}
        paths, labels, corrupt, done = [], [], [], 0
        embeddings = np.empty((stop - start, metadata.dim), np.float32)
        for batch in self.collection.batches(start, stop, _BATCH):
            embedded, problems = model.embed_images(batch.images)
            rows = [row for row, problem in enumerate(problems) if not problem]
            corrupt += [(n, why) for n, why in zip(batch.names, problems, strict=True) if why]
            paths += [batch.names[row] for row in rows]
            labels += [batch.labels[row] for row in rows]
            for name, values in (file_columns(batch.images) | batch.columns).items():
                columns[name].append(values.take(pa.array(rows, pa.int64())))
            embeddings[done : len(paths)] = embedded[rows]
            done = len(paths)
        columns = {name: pa.chunked_array(columns[name], kind) for name, kind in types.items()}
        return Shard(paths, labels, embeddings[:done], corrupt, columns)
