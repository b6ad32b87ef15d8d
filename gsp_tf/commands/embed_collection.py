"""`gsp-tf embed-collection`: embeddings of a large collection, by many workers."""

from gsp_tf.commands.parsers import command_parser, require_run
from gsp_tf.commands.results import show_embeddings

HELP = "Embed a large collection with many workers."


def parser():
    """Its arguments."""
    arguments = command_parser(
        "Embed a large collection, which Parquet files list or hold, with many workers "
        "on one machine or a cluster of Ray. What a killed worker did not write is done again; "
        "stopped, the same command continues. Needs the extra ray."
    )
    arguments.add_argument("run", type=str, help="Run folder.")
    arguments.add_argument(
        "source",
        type=str,
        help="Parquet file or folder of them, with a column path, of image files, or bytes, of "
        "their contents, and label if it is known.",
    )
    arguments.add_argument(
        "--out", type=str | None, help="Folder to write; null is the folder embeddings in the run."
    )
    arguments.add_argument(
        "--workers",
        type=int | None,
        help="Number of processes; null is as many as there are cores for.",
    )
    arguments.add_argument(
        "--cpus-per-worker", type=int, default=1, help="Cores and threads of each."
    )
    arguments.add_argument(
        "--shard-size",
        type=int,
        default=4096,
        help="Images in a file, embedded again after a worker is killed.",
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    require_run(options.run)
    from gsp_tf.serving import embed_collection

    folder = embed_collection(
        options.run,
        options.source,
        options.out,
        options.workers,
        options.cpus_per_worker,
        options.shard_size,
    )
    show_embeddings(folder)
    return 0
