"""Embeddings of large collections by many workers, any of which may be killed."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gsp_tf._console import show_progress
from gsp_tf._files import locked
from gsp_tf._typing import PathLike
from gsp_tf.serving.embedding._job import (
    FILE_COLUMNS,
    SHARD_SIZE,
    begin,
    file_columns,
    finish,
    missing_shards,
)
from gsp_tf.serving.embedding._ray import ray_session
from gsp_tf.serving.embedding.batch_embedder import BatchEmbedder
from gsp_tf.serving.embedding.collection import Collection
from gsp_tf.serving.embedding.folder import EmbeddingsFolder, ImageList, Shard
from gsp_tf.serving.embedding.run_model import RunModel

_MOST_BLOCKS = 10_000
_BATCH = 512
_MOST_ATTEMPTS = 5


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
    process that takes shard after shard, and writes the file of each under a temporary name, which
    it renames. Which rows a file holds does not depend on who writes it, how often it was tried or
    in which order: a worker that is killed is replaced and its shards are tried again, and the same
    call after everything was killed continues with the shards that are missing. In the end every
    shard must account for all of its rows. What cannot be read is left out and listed in
    `corrupt.csv`. A worker holds a shard of embeddings, and a few of its images.

    Ray works as it is connected, on the cluster that RAY_ADDRESS names, or on this machine. The
    run, the collection and `out` have to be under the same paths on all machines.

    Args:
        run: Run folder.
        source: A Parquet file or a folder of them, as `Collection` takes them.
        out: Folder to write; `None` is the folder `embeddings` in the run.
        workers: Number of processes; `None` is as many as there are cores for.
        cpus_per_worker: Cores of each, which is the number of threads of its TensorFlow.
        shard_size: Images in a file; embeddings that were begun continue with theirs.

    Returns:
        `EmbeddingsFolder`.

    Raises:
        ImportError: If Ray is not installed.
        FileNotFoundError: If `run` is not a run folder, or `source` does not exist.
        BlockingIOError: If another process is writing `out`.
        FileExistsError: If `out` holds something else.
        ValueError: If `out` holds embeddings of another model, other preprocessing or another
            collection, a file of the collection cannot be used, no image can be read, or a shard
            kills each worker that tries it.

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
        missing, attempts = missing_shards(folder, metadata), _Attempts(folder.path)
        attempts.forget()
        if missing:
            run, out = str(model.folder.path.absolute()), str(folder.path.absolute())
            _embed(missing, (run, out, collection, cpus_per_worker), workers, cpus_per_worker)
            attempts.forget()
        finish(folder, metadata)
    return folder


def _embed(missing: list[int], arguments: tuple, workers: int | None, cpus: int) -> None:
    """Writes the shards that are missing."""
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
    """What a worker does: writes the shards that are missing, and says which it cannot write."""

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
            _Attempts(self.folder.path).count(number)
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


class _Attempts:
    """How often workers have begun each shard, in a file for each."""

    def __init__(self, folder):
        self._folder = Path(folder)

    def count(self, number):
        """Counts an attempt; refuses a shard that was begun too often and never written."""
        path = self._folder / f".attempts-{number:05}"
        attempts = int(path.read_text() or 0) if path.exists() else 0
        if attempts >= _MOST_ATTEMPTS:
            raise ValueError(
                f"{attempts} workers were killed while they wrote it. Is there enough memory?"
            )
        path.write_text(str(attempts + 1))

    def forget(self):
        """Removes the files."""
        for path in self._folder.glob(".attempts-*"):
            path.unlink()
