"""`gsp-tf embed-collection`: embed a large collection with many workers."""

from gsp_tf._numbers import Count, Size
from gsp_tf.commands._results import show_embeddings
from gsp_tf.runs import run_folder


def command(
    run: str,
    source: str,
    *,
    out: str | None = None,
    workers: Size | None = None,
    cpus_per_worker: Size = 1,
    shard_size: Count = 4096,
):
    """Embed a large collection with many workers.

    Parquet files list or contain the images. The workers run on one machine or on a Ray cluster.
    Work that a killed worker did not write is done again. If the command is stopped, run it again
    to continue. Needs the extra ray.

    Args:
        run: Run folder, or a pretrained network as it is, such as efficientnet_lite0 or
            hub:dinov2_small.
        source: Parquet file or folder of them, with a column path (image files) or bytes (their
            contents), and a column label if it is known.
        out: Folder to write; null is the folder embeddings in the run.
        workers: Number of processes; null uses as many as there are cores for.
        cpus_per_worker: Cores and threads per worker.
        shard_size: Images per file; an unfinished file is embedded again after a worker is killed.
    """
    run = run_folder(run)
    from gsp_tf.search import embed_collection

    show_embeddings(embed_collection(run, source, out, workers, cpus_per_worker, shard_size))
