"""Embeddings of large collections by many workers, any of which may be killed."""

from gsp_tf._console import show_progress
from gsp_tf._files import locked
from gsp_tf.serving.collection import Collection
from gsp_tf.serving.embedding_job import SHARD_SIZE, begin, finish, warn_of_corrupt
from gsp_tf.serving.embeddings_folder import EmbeddingsFolder
from gsp_tf.serving.ray_session import ray_session
from gsp_tf.serving.run_model import RunModel
from gsp_tf.serving.shard_embedder import ShardEmbedder

_MOST_BLOCKS = 10_000


def embed_collection(run, source, out=None, workers=None, cpus_per_worker=1, shard_size=SHARD_SIZE):
    """Embed the images that Parquet files list or hold, with the workers of Ray Data.

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
        run: run folder.
        source: a Parquet file or a folder of them, as `Collection` takes them.
        out: folder to write; `None` is the folder `embeddings` in the run.
        workers: number of processes; `None` is as many as there are cores for.
        cpus_per_worker: cores of each, which is the number of threads of its TensorFlow.
        shard_size: images in a file; embeddings that were begun continue with theirs.

    Returns:
        `EmbeddingsFolder`.

    Raises:
        ImportError: if Ray is not installed.
        FileNotFoundError: if `run` is not a run folder, or `source` does not exist.
        BlockingIOError: if another process is writing `out`.
        FileExistsError: if `out` holds something else.
        ValueError: if `out` holds embeddings of another model, other preprocessing or another
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
    images = {"listed": len(collection), "sha256": collection.sha256}
    folder.refuse_other_files()
    with locked(folder.path):
        metadata = begin(folder, model, images, shard_size)
        if not metadata["complete"]:
            missing = [n for n in range(folder.num_shards) if not folder.shard_path(n).is_file()]
            if missing:
                run, out = str(model.folder.path.absolute()), str(folder.path.absolute())
                arguments = run, out, collection, cpus_per_worker
                _embed(missing, arguments, workers, cpus_per_worker)
            metadata = finish(folder, metadata)
    warn_of_corrupt(folder, metadata)
    return folder


def _embed(missing, arguments, workers, cpus):
    """Write the shards that are missing."""
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
            ShardEmbedder,
            fn_constructor_args=arguments,
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=workers),
            num_cpus=cpus,
        )
        description = f"Embedding, {workers} workers"
        for row in show_progress(written.iter_rows(), description, len(missing)):
            if row["problem"]:
                raise ValueError(f"{row['problem']} The same call continues with what is missing.")
